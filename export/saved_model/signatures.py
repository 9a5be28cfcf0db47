"""The signatures of an exported translator, each a `tf.function` of named, batched tensors.

The first axis of every input and output is the batch. No other axis varies between requests, so
that a server can merge requests. The other rows of a batch change a row's result by rounding
alone, see docs/serving.md.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import tensorflow as tf

from export.saved_model.more_signatures import (
    given_options,
    identify_language,
    translate_adapted,
    translate_confidently,
    translate_documents,
    translate_documents_with_terms,
    translate_with_terms,
)
from export.saved_model.progress import with_progress
from export.saved_model.signature_names import (
    ADAPTED,
    ALL,
    CONFIDENCE,
    DOCUMENT,
    DOCUMENT_OPTIONS,
    DOCUMENT_TERMS,
    LANGUAGE,
    OPTIONAL,
    SIGNATURES,
    TERMS,
    expand_signatures,
)
from tf_transformer.confidence.calibration import Calibration
from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.decoding.search_options import SAMPLING_OPTIONS, SEARCH_OPTIONS
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.inference.aligner import Aligner
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.models.row_adapters import row_choice
from tf_transformer.text.special_ids import PAD_ID, UNKNOWN_ID

TEXT = {"text": tf.string}

# Inputs of the signatures whose names end in `_options`, see `TranslationOptions`.
OPTIONS = {option.name: tf.as_dtype(option.dtype) for option in SEARCH_OPTIONS}
SAMPLING = {option.name: tf.as_dtype(option.dtype) for option in SAMPLING_OPTIONS}

# Score of an empty entry of the n best; -infinity cannot be written in JSON.
NO_SCORE = -1e9


class ServedTranslator(tf.Module):
    """A translator with one function per signature.

    The attribute `functions` maps names to concrete functions, as `tf.saved_model.save` expects;
    `adapter_names` are those that a row can choose from.

    Args:
        translator: the translator to serve; `nbest` returns as many translations as its beam size.
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
        translator: Translator,
        names: list[str] | None = None,
        *,
        calibration: Calibration | None = None,
        identifier: LanguageIdentifier | None = None,
        document_languages: Iterable[str] = LANGUAGES,
    ):
        super().__init__(name="served_translator")
        definitions = _signature_definitions(translator, document_languages)
        if calibration is not None:
            confidence = partial(translate_confidently, translator, calibration)
            definitions[CONFIDENCE] = (confidence, TEXT | OPTIONS)
        if identifier is not None:
            definitions[LANGUAGE] = (partial(identify_language, identifier), TEXT)
        added = definitions.keys() - {*SIGNATURES, *OPTIONAL}
        names = expand_signatures([ALL] if names is None else names, sorted(added))
        terms = None
        if {TERMS, DOCUMENT_TERMS} & set(names):
            terms = TermTranslator(translator)
            definitions |= _definitions_with_terms(terms, document_languages)
        # As attributes of the module, the `tf.Variable`s are saved. The Keras variables around them
        # would be saved as copies, and in a session, which a server uses, the functions would then
        # read uninitialized variables.
        self.weights = [weight.value for weight in translator.search.model.weights]
        if translator.search.shortlist is not None:
            self.weights.append(translator.search.shortlist.by_source)
        if identifier is not None and LANGUAGE in names:
            self.weights.append(identifier.weights)
        choice = row_choice(translator.model)
        self.adapter_names = [] if choice is None else list(choice.names)
        self.tokenizers = []
        if not _read_no_text(names):
            self.tokenizers = [translator.source_tokenizer, translator.target_tokenizer]
        if terms is not None:
            self.tokenizers += terms.speller.tokenizers
        self.functions = {
            name: _make_function(*definitions[name]) for name in with_progress(names, "tracing")
        }


def _read_no_text(names):
    return all(name.startswith("tokens") for name in names)


def _make_function(body: Callable[..., dict[str, tf.Tensor]], inputs: dict[str, Any]):
    """Returns a concrete function, since saving would trace and save any other function twice.

    Args:
        body: returns the outputs by name; called with the inputs by name.
        inputs: by name, the dtype of an input with one value per row, or a `tf.TensorSpec`.
    """
    specs = [
        spec if isinstance(spec, tf.TensorSpec) else tf.TensorSpec([None], spec, name=name)
        for name, spec in inputs.items()
    ]

    @tf.function(input_signature=specs, autograph=False)
    def function(*values):
        return body(**dict(zip(inputs, values, strict=True)))

    return function.get_concrete_function()


def _signature_definitions(translator, document_languages):
    """Returns the function that each signature calls and its inputs, `{name: (body, inputs)}`."""
    aligner = Aligner(translator)
    # A fixed width lets a server merge the requests of all callers.
    ids = {"ids": tf.TensorSpec([None, translator.source_limit], tf.int32, name="ids")}
    plain = {
        "serving_default": (partial(_translate, translator), TEXT),
        "nbest": (partial(_find_best, translator), TEXT),
        "align": (partial(_align, aligner), TEXT),
        "complete": (partial(_complete, translator), TEXT | {"prefix": tf.string}),
        "tokens": (partial(_translate_tokens, translator), ids),
    }
    definitions = {}
    for name, (body, inputs) in plain.items():
        definitions[name] = (body, inputs)
        prefix = "translate" if name == "serving_default" else name
        definitions[f"{prefix}_options"] = (body, inputs | OPTIONS)
    pair = {"source": tf.string, "target": tf.string}
    definitions["score"] = (partial(_score, translator), pair)
    definitions["sample"] = (partial(_sample, translator), TEXT | SAMPLING)
    documents = DocumentTranslator(translator, languages=document_languages)
    document = partial(translate_documents, documents)
    definitions[DOCUMENT] = (document, TEXT)
    inputs = TEXT | {"keep_capitals": tf.bool} | OPTIONS
    definitions[DOCUMENT_OPTIONS] = (document, inputs)
    choice = row_choice(translator.model)
    if choice is not None:
        inputs = TEXT | {"adapter": tf.string} | OPTIONS
        definitions[ADAPTED] = (partial(translate_adapted, translator, choice), inputs)
    return definitions


def _definitions_with_terms(terms, document_languages):
    """Returns definitions as `_signature_definitions`."""
    inputs = TEXT | {"terms": tf.string, "protect": tf.int32}
    documents = DocumentTranslator(terms, languages=document_languages)
    document = partial(translate_documents_with_terms, documents)
    return {
        TERMS: (partial(translate_with_terms, terms), inputs | OPTIONS),
        DOCUMENT_TERMS: (document, inputs | {"keep_capitals": tf.bool} | OPTIONS),
    }


def _translate(translator, text, **options):
    """Returns the best translation and its score, and whether the source was truncated."""
    found = translator.translate_in_graph(text, given_options(options))
    return {
        "translation": found.text[:, 0],
        "score": found.scores[:, 0],
        "truncated": found.truncated,
    }


def _find_best(translator, text, **options):
    """Returns `(batch, beam_size)` translations, best first; empty entries score `NO_SCORE`."""
    found = translator.translate_in_graph(
        text, given_options(options), num_best=translator.search.beam_size
    )
    return {
        "translations": found.text,
        "scores": tf.maximum(found.scores, NO_SCORE),
        "num_tokens": found.lengths,
        "truncated": found.truncated,
    }


def _align(aligner, text, **options):
    """Returns the fields of `Alignments`: translation, pieces, hard and soft alignment."""
    found = aligner.align(text, given_options(options))
    return {
        "translation": found.text,
        "score": found.scores,
        "source_pieces": found.source_pieces,
        "target_pieces": found.target_pieces,
        "hard_alignment": found.hard,
        "soft_alignment": found.soft,
        "truncated": found.truncated,
    }


def _complete(translator, text, prefix, **options):
    """Returns the best translation that begins with the prefix, and the score of what follows."""
    found = translator.translate_in_graph(text, given_options(options), prefix)
    return {
        "translation": found.text[:, 0],
        "score": found.scores[:, 0],
        "truncated": found.truncated,
    }


def _score(translator, source, target):
    """Returns the fields of `Scores` for each pair of a source and a target."""
    return score_pairs(translator, source, target)._asdict()


def _sample(translator, text, temperature, top_k, top_p, seed):
    """Returns a sampled translation and its log-probability under the unmodified distribution."""
    options = SamplingOptions(temperature, top_k, top_p, seed, tf.zeros_like(top_k))
    found = sample_translations(translator, text, options)
    return {
        "translation": found.text,
        "log_prob": found.log_probs,
        "truncated": found.truncated,
    }


def _translate_tokens(translator, ids, **options):
    """Translates token ids.

    Args:
        translator: the translator.
        ids: `(batch, source_limit)` source ids without special ids; 0 is padding. The width of
            inputs and outputs is fixed, so that it does not depend on the batch.
        **options: per-row search options by name.

    Returns:
        Target ids `(batch, source_limit)`, 0 = padding, their number and their score.
    """
    search = translator.search
    is_real = tf.math.cumprod(tf.cast(ids != PAD_ID, tf.int32), axis=1)
    lengths = tf.reduce_sum(is_real, axis=1)
    is_known = (ids >= 0) & (ids < search.model.config.source_vocab_size)
    source = tf.RaggedTensor.from_tensor(tf.where(is_known, ids, UNKNOWN_ID), lengths)
    found = search.run_chunks(source, given_options(options), translator.chunk_size)
    return {"ids": found.ids, "num_tokens": found.lengths, "score": found.scores}
