"""Apache Beam's view of an exported model."""

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from apache_beam.ml.inference.base import ModelHandler

from export.bulk.row_files import Result
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.predictors.answers import answer, find_signature
from tf_transformer.tasks.table import TASKS

_OUTPUTS = ("translation", "score", "truncated")
# Sentences that are translated together.
BATCH_SIZE = 64


class SavedModelHandler(ModelHandler[str, Result, Callable]):
    """Translates sentences by a SavedModel of `export`, for `RunInference` and `translate`.

    The rows of a batch are sorted by length and translated in parts of up to `batch_size`, so that
    little is computed for padding. Each process loads the model once.

    Args:
        folder: the folder of a version of an exported model, such as `served/1`.
        search: values of search options by name, see `SEARCH_OPTIONS`.
        batch_size: maximum number of sentences that are translated together.
        num_threads: threads of TensorFlow in each process; None leaves it to TensorFlow. It is
            ignored if the process has used TensorFlow before.
        batching: arguments of `ModelHandler`, such as `max_batch_size`, the number of sentences
            that `RunInference` collects.
    """

    def __init__(
        self,
        folder: str | pathlib.Path,
        search: Mapping[str, Any] | None = None,
        batch_size: int = BATCH_SIZE,
        num_threads: int | None = None,
        **batching: Any,
    ):
        super().__init__(**{"max_batch_size": 16 * batch_size, **batching})
        self._folder = str(folder)
        self._search = dict(search or {})
        self._batch_size = batch_size
        self._num_threads = num_threads

    def load_model(self) -> Callable:
        """Loads the SavedModel, or returns the one that this process has loaded."""
        return _load(self._folder, tuple(sorted(self._search.items())), self._num_threads)

    def run_inference(
        self,
        batch: Sequence[str],
        model: Callable,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[Result]:
        """Translates sentences.

        Args:
            batch: the sentences.
            model: the result of `load_model`.
            inference_args: not used.

        Raises:
            InputError: the model refuses a sentence; the whole batch has no results then.
        """
        results: list[Any] = [None] * len(batch)
        for part in self.parts(batch):
            for index, result in zip(part, model([batch[i] for i in part]), strict=True):
                results[index] = result
        return results

    def parts(self, batch: Sequence[str]) -> Iterator[list[int]]:
        """Yields the indices of the sentences that are translated together: of similar lengths."""
        order = sorted(range(len(batch)), key=lambda index: len(batch[index]))
        for begin in range(0, len(order), self._batch_size):
            yield order[begin : begin + self._batch_size]

    def get_metrics_namespace(self) -> str:
        return "tf_transformer"


@functools.lru_cache(maxsize=1)
def _load(folder: str, search: tuple, num_threads: int | None) -> Callable:
    """Returns a function of a list of sentences to a list of `Result`."""
    import_tensorflow()
    import tensorflow as tf

    from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor

    if num_threads is not None:
        _set_threads(tf, num_threads)
    predictor = SavedModelPredictor(pathlib.Path(folder))
    options = dict(search)
    find_signature(predictor, TASKS["translate"], options, _OUTPUTS)  # before any sentence

    def translate(sentences: list[str]) -> list[Result]:
        inputs = {"text": sentences}
        batches = answer(predictor, "translate", inputs, options, outputs=_OUTPUTS)
        return [
            Result(*row)
            for batch in batches
            for row in zip(*(batch[name] for name in _OUTPUTS), strict=True)
        ]

    return translate


def _set_threads(tf, num_threads: int) -> None:
    try:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow is in use already
        return
