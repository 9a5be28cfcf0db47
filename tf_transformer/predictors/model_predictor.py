"""The tasks of a trained model, computed in this process."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import tensorflow as tf

from tf_transformer.confidence.calibration import Calibration
from tf_transformer.decoding.compiled.compilation_rule import CompilationRule
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.translator import Translator
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.predictors.local_predictor import LocalPredictor
from tf_transformer.predictors.signature import signature_of_task
from tf_transformer.predictors.tracing import trace
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.tasks.parts import Parts
from tf_transformer.tasks.table import TASK_OF, TASKS
from tf_transformer.text.tokenizer import Tokenizer


class ModelPredictor(LocalPredictor):
    """Computes the tasks of a model; a signature is traced when it is first asked for.

    XLA may compile the search, see `CompilationRule`: "on" for single rows and for batches of at
    least as many rows as are decoded together; "auto" for single rows only, after 1,000 of them,
    or 100 of a language model. The first batches then take seconds longer.

    Args:
        make_parts: returns the model in use, for a search that is compiled for given shapes.
        description: what it is and where, for error messages.
        xla: "auto", "on" or "off".

    Raises:
        InputError: `xla` is "on" and the model is in int8.
    """

    def __init__(
        self,
        make_parts: Callable[[Sequence[tuple[int, int]]], Parts],
        description: str = "model",
        xla: str = "off",
    ):
        self._make_parts = make_parts
        parts = make_parts(())
        self._parts = {0: parts}  # by the number of rows that its search is compiled for
        self._lock = threading.Lock()
        self._functions: dict[tuple[str, int], Callable] = {}
        self._rule = CompilationRule(xla, is_quantized(parts.engine.model))
        offered = [name for name, task in TASK_OF.items() if getattr(parts, task.needs) is not None]
        signatures = {name: signature_of_task(name) for name in offered}
        for name in TASKS["nbest"].signatures if parts.translator else ():
            for output, spec in signatures[name].outputs.items():
                if len(spec.shape or ()) == 2:
                    sized = spec._replace(shape=(None, parts.translator.search.beam_size))
                    signatures[name].outputs[output] = sized
        super().__init__(description, signatures)

    @classmethod
    def of(cls, engine: Translator | Continuer) -> Self:
        """Returns a predictor for a model that is in use; nothing is compiled by XLA."""
        parts = Parts(engine)
        return cls(lambda shapes: parts)

    @classmethod
    def load(
        cls,
        models: TrainedModels,
        dtype: str = "float32",
        *,
        xla: str = "off",
        calibration: Calibration | None = None,
        document_languages: Iterable[str] = LANGUAGES,
        **options: Any,
    ) -> Self:
        """Loads a model directory, or those of an ensemble.

        Args:
            models: the directories.
            dtype: see `load_for_decoding`.
            xla: see above.
            calibration: see `Parts`.
            document_languages: see `Parts`.
            **options: arguments of `Translator`, or of `Continuer` for a language model.

        Raises:
            InputError: the model cannot be loaded, or an argument is out of range.
        """
        names = ", ".join(map(str, models.directories))
        return cls.of_model(
            *models.load(dtype),
            description=f"model directory {names}",
            xla=xla,
            calibration=calibration,
            document_languages=document_languages,
            **options,
        )

    @classmethod
    def of_model(
        cls,
        model: DecoderModel | Ensemble,
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
        *,
        description: str = "model",
        xla: str = "off",
        calibration: Calibration | None = None,
        document_languages: Iterable[str] = LANGUAGES,
        **options: Any,
    ) -> Self:
        """Returns a predictor for a model that is loaded, see `load`.

        Args:
            model: see `Translator`, or for a language model `Continuer`.
            source_tokenizer: see `Translator`; None for a language model.
            target_tokenizer: see `Translator`.
            description: see above.
            xla: see above.
            calibration: see `Parts`.
            document_languages: see `Parts`.
            **options: arguments of `Translator` or `Continuer`.

        Raises:
            InputError: an argument is out of range.
        """

        def make_parts(shapes):
            engine: Translator | Continuer
            given = {**options, "compiled_shapes": shapes}
            if source_tokenizer is None:
                engine = Continuer(model, target_tokenizer, **given)
            else:
                engine = Translator(model, source_tokenizer, target_tokenizer, **given)
            return Parts(engine, calibration=calibration, document_languages=document_languages)

        return cls(make_parts, description, xla)

    def call(self, signature: str, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the outputs of a signature, see `LocalPredictor`."""
        inputs = [tensors[own.name] for own in TASK_OF[signature].inputs_of(signature)]
        rows = self._compiled_rows(inputs[0].shape[0])
        with self._lock:  # a function is traced once, whoever asks first
            function = self._function(signature, rows)
        return function(*inputs)

    def _function(self, signature: str, rows: int) -> Callable:
        """Returns the function of a signature, for a search that is compiled for some rows."""
        if rows not in self._parts:
            self._parts[rows] = self._make_parts(self._parts[0].engine.default_shapes(rows))
        if (signature, rows) not in self._functions:
            self._functions[signature, rows] = trace(self._parts[rows], signature)
        return self._functions[signature, rows]

    def _compiled_rows(self, num_rows: int) -> int:
        """Returns the number of rows that the search is compiled for; 0 if it is not."""
        engine = self._parts[0].engine
        return self._rule.compiled_rows(num_rows, engine.chunk_size, engine.rows_before_compiling)
