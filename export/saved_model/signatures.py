"""The signatures of an exported translator: each one `tf.function` of named, batched tensors.

Every input and output has the batch as its first axis, and no other axis that differs from request
to request, so that a server may merge requests. What a row gets depends on the other rows by
rounding alone, see docs/serving.md.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from export.saved_model.progress import counted
from export.saved_model.signature_names import check_signatures
from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.decoding.search_options import SAMPLING_OPTIONS, SEARCH_OPTIONS
from tf_transformer.decoding.translation_search import TranslationOptions
from tf_transformer.inference.aligner import Aligner
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator
from tf_transformer.text.special_ids import PAD_ID, UNKNOWN_ID

TEXT = {"text": tf.string}

# Inputs of the signatures whose name ends in `_options`, see `TranslationOptions`.
OPTIONS = {option.name: tf.as_dtype(option.dtype) for option in SEARCH_OPTIONS}
SAMPLING = {option.name: tf.as_dtype(option.dtype) for option in SAMPLING_OPTIONS}

# Of a place in the n best that is empty: JSON has no infinity.
NO_SCORE = -1e9


class ServedTranslator(tf.Module):
    """A translator with a function for each signature.

    `functions` has the concrete functions by name, as `tf.saved_model.save` takes them.

    Args:
        translator: what they call; `nbest` gives as many as its beam holds.
        names: the signatures to have; None for all. `tokens` alone needs no tokenizer, and so no
            tensorflow-text where it is served.

    Raises:
        ValueError: there is no signature of such a name.
    """

    def __init__(self, translator: Translator, names: list[str] | None = None):
        super().__init__(name="served_translator")
        makers = _makers(translator)
        names = list(makers if names is None else dict.fromkeys(names))
        check_signatures(names)
        # Tracked, and so saved. Not Keras' variables around these: of a Keras variable, a copy is
        # saved to be restored, and a session, as a server has, leaves what functions read empty.
        self.weights = [weight.value for weight in translator.search.model.weights]
        self.tokenizers = []
        if not _read_no_text(names):
            self.tokenizers = [translator.source_tokenizer, translator.target_tokenizer]
        self.functions = {name: _make_function(*makers[name]) for name in counted(names, "tracing")}


def _read_no_text(names):
    return all(name.startswith("tokens") for name in names)


def _make_function(body: Callable[..., dict[str, tf.Tensor]], inputs: dict[str, Any]):
    """A concrete function of these inputs, `{name: dtype}` of one value a row, or a `TensorSpec`.

    Concrete, because saving would trace any other once more, and save it twice.
    """
    specs = [
        spec if isinstance(spec, tf.TensorSpec) else tf.TensorSpec([None], spec, name=name)
        for name, spec in inputs.items()
    ]

    @tf.function(input_signature=specs, autograph=False)
    def function(*values):
        return body(**dict(zip(inputs, values, strict=True)))

    return function.get_concrete_function()


def _makers(translator):
    """What each signature calls, and its inputs."""
    aligner = Aligner(translator)
    # Of one width, so that a server can merge the requests of any callers.
    ids = {"ids": tf.TensorSpec([None, translator.source_limit], tf.int32, name="ids")}
    plain = {
        "serving_default": (partial(_translate, translator), TEXT),
        "nbest": (partial(_find_best, translator), TEXT),
        "align": (partial(_align, aligner), TEXT),
        "complete": (partial(_complete, translator), TEXT | {"prefix": tf.string}),
        "tokens": (partial(_translate_tokens, translator), ids),
    }
    makers = {}
    for name, (body, inputs) in plain.items():
        makers[name] = (body, inputs)
        prefix = "translate" if name == "serving_default" else name
        makers[f"{prefix}_options"] = (body, inputs | OPTIONS)
    makers["score"] = (partial(_score, translator), {"source": tf.string, "target": tf.string})
    makers["sample"] = (partial(_sample, translator), TEXT | SAMPLING)
    return makers


def _options(values):
    return TranslationOptions(**values) if values else None


def _translate(translator, text, **options):
    """translation, score: of the best; truncated: the source was too long and its end cut off."""
    found = translator.translate_in_graph(text, _options(options))
    return {
        "translation": found.text[:, 0],
        "score": found.scores[:, 0],
        "truncated": found.truncated,
    }


def _find_best(translator, text, **options):
    """translations, scores, num_tokens: `(batch, beam_size)`, best first; see `NO_SCORE`."""
    found = translator.translate_in_graph(
        text, _options(options), num_best=translator.search.beam_size
    )
    return {
        "translations": found.text,
        "scores": tf.maximum(found.scores, NO_SCORE),
        "num_tokens": found.lengths,
        "truncated": found.truncated,
    }


def _align(aligner, text, **options):
    """See `Alignments`."""
    found = aligner.align(text, _options(options))
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
    """translation: begins with the prefix; score: of what follows it."""
    found = translator.translate_in_graph(text, _options(options), prefix)
    return {
        "translation": found.text[:, 0],
        "score": found.scores[:, 0],
        "truncated": found.truncated,
    }


def _score(translator, source, target):
    """See `Scores`."""
    return score_pairs(translator, source, target)._asdict()


def _sample(translator, text, temperature, top_k, top_p, seed):
    """translation: drawn at random; log_prob: of the model itself."""
    options = SamplingOptions(temperature, top_k, top_p, seed, tf.zeros_like(top_k))
    found = sample_translations(translator, text, options)
    return {
        "translation": found.text,
        "log_prob": found.log_probs,
        "truncated": found.truncated,
    }


def _translate_tokens(translator, ids, **options):
    """ids: source ids without special ids to target ids, both `(batch, source_limit)`, 0 = padding.

    The width is the same for every request and every answer, so that neither depends on the batch.
    """
    search = translator.search
    is_real = tf.math.cumprod(tf.cast(ids != PAD_ID, tf.int32), axis=1)
    lengths = tf.reduce_sum(is_real, axis=1)
    is_known = (ids >= 0) & (ids < search.model.config.source_vocab_size)
    source = tf.RaggedTensor.from_tensor(tf.where(is_known, ids, UNKNOWN_ID), lengths)
    found = search.run_chunks(source, _options(options), translator.chunk_size)
    return {"ids": found.ids, "num_tokens": found.lengths, "score": found.scores}
