"""The signatures of an exported translator, each a `tf.function` of named, batched tensors.

The first axis of every input and output is the batch. No other axis varies between requests, so
that a server can merge requests. The other rows of a batch change a row's result by rounding
alone, see docs/serving.md.
"""

from collections.abc import Iterable

import tensorflow as tf

from export.saved_model.progress import with_progress
from export.saved_model.signature_names import ALL, expand_signatures
from tf_transformer.confidence.calibration import Calibration
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.predictors.tracing import trace
from tf_transformer.tasks.parts import Parts
from tf_transformer.tasks.table import TASK_OF, TASKS


class ServedTranslator(tf.Module):
    """A model with one function per signature.

    The attribute `functions` maps names to concrete functions, as `tf.saved_model.save` expects;
    `adapter_names` are those that a row can choose from.

    Args:
        engine: the translator to serve, or the continuer of a language model; `nbest` returns as
            many translations as the beam size of the translator.
        names: the signatures to include; `all`, or None, stands for all but the optional ones. A
            model with `tokens` alone has no tokenizer and can be served without tensorflow-text.
        calibration: that of the model's confidences, for the signature `confidence`; None: there
            is no such signature.
        identifier: identifies languages, for the signature `language`; None: there is none.
        document_languages: those of the documents, see `DocumentTranslator`.

    Raises:
        InputError: a signature or a language does not exist.
    """

    def __init__(
        self,
        engine: Translator | Continuer,
        names: list[str] | None = None,
        *,
        calibration: Calibration | None = None,
        identifier: LanguageIdentifier | None = None,
        document_languages: Iterable[str] = LANGUAGES,
    ):
        super().__init__(name="served_translator")
        parts = Parts(
            engine,
            calibration=calibration,
            identifier=identifier,
            document_languages=document_languages,
        )
        added = [
            name
            for task in TASKS.values()
            if task.needs != "translator" and getattr(parts, task.needs) is not None
            for name in task.signatures
        ]
        translator = parts.translator
        names = expand_signatures(
            [ALL] if names is None else names, added, translates=translator is not None
        )
        # As attributes of the module, the `tf.Variable`s are saved. The Keras variables around them
        # would be saved as copies, and in a session, which a server uses, the functions would then
        # read uninitialized variables.
        self.weights = [weight.value for weight in engine.model.weights]
        if translator is not None and translator.search.shortlist is not None:
            self.weights.append(translator.search.shortlist.by_source)
        if identifier is not None and TASKS["language"].plain in names:
            self.weights.append(identifier.weights)
        self.adapter_names = [] if parts.adapters is None else list(parts.adapters.names)
        self.functions = {name: trace(parts, name) for name in with_progress(names, "tracing")}
        self.tokenizers = []
        if any(TASK_OF[name].reads_text for name in names):
            self.tokenizers = engine.tokenizers
        if any(TASK_OF[name].has_terms for name in names):
            self.tokenizers += parts.constrained.speller.tokenizers
