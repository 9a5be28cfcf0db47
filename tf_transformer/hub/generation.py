"""`generate` of the task: one graph for each kind of search."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer.argument_types import is_whole
from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.decoding.search_options import SEARCH_OPTIONS, RowOption
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.errors import InputError
from tf_transformer.hub.generation_options import SAMPLING_COLUMNS, RowOptions
from tf_transformer.hub.traced_weights import TracedWeights
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.inference.translator import Translator
from tf_transformer.models.transformer import Transformer
from tf_transformer.printable import shown
from tf_transformer.text.special_ids import END_ID
from tf_transformer.text.texts import list_of_texts
from tf_transformer.text.tokenizer import Tokenizer


class TextGenerator(tf.Module):
    """Translates strings by beam search or sampling, with options per sentence.

    Args:
        translator: the translator; its beam size is the largest of a sentence.
    """

    def __init__(self, translator: Translator):
        super().__init__(name="text_generator")
        text = tf.TensorSpec([None], tf.string)

        def search(text, prompt, *options):
            found = translator.translate_in_graph(text, TranslationOptions(*options), prompt)
            return found.text[:, 0], found.scores[:, 0]

        def sample(text, *options):
            found = sample_translations(translator, text, SamplingOptions(*options))
            return found.text, found.log_probs

        self._check_tags = translator.check_tags
        self._search = tf.function(
            search, input_signature=[text, text, *_specs(SEARCH_OPTIONS)], autograph=False
        )
        self._sample = tf.function(
            sample, input_signature=[text, *_specs(SAMPLING_COLUMNS)], autograph=False
        )

    def __call__(
        self, texts: Sequence[str | bytes], prompts: Sequence[str | bytes], options: RowOptions
    ) -> list[str]:
        """Returns one output for each text.

        Args:
            texts: the sources.
            prompts: the beginning of each output.
            options: their options.

        Raises:
            InputError: a text lacks the language tag that the model needs, a prompt is given for
                sampling, or a score is not finite.
        """
        self._check_tags(texts, "inputs")
        if options.is_sampling and any(prompts):
            raise InputError("Sampling cannot continue a `decoder_text`; use beam search for it")
        tensors = [tf.constant(texts, tf.string, shape=[len(texts)])]
        if options.is_sampling:
            found, scores = self._sample(*tensors, *options.columns)
        else:
            tensors.append(tf.constant(prompts, tf.string, shape=[len(prompts)]))
            found, scores = self._search(*tensors, *options.columns)
        check_scores(scores.numpy().tolist())
        return [text.decode() for text in found.numpy().tolist()]


class TextGenerators:
    """Makes the `TextGenerator`s of a task, and keeps them while the model's variables stay.

    Attributes:
        defaults: options of the task, see `options_of_sampler`.
    """

    def __init__(self) -> None:
        self.defaults: dict[str, Any] = {}
        self._traced = TracedWeights()
        self._tokenizers: tuple[Tokenizer, ...] = ()
        self._generators: dict[tuple[Any, ...], TextGenerator] = {}

    def generate(
        self,
        transformer: Transformer,
        tokenizers: tuple[Tokenizer, Tokenizer],
        inputs: Any,
        stop_token_ids: Any,
        options: Mapping[str, Any],
    ) -> Any:
        """Does what `TransformerSeq2SeqLM.generate` does for one batch.

        Args:
            transformer: the model.
            tokenizers: the tokenizers of source and target.
            inputs: a string, strings, or a dictionary of `encoder_text` and `decoder_text`.
            stop_token_ids: "auto", or ids that end an output in addition to the end id.
            options: options by name; None means not given.
        """
        sources, prompts, is_single = _split_inputs(inputs)
        rows = RowOptions.make(options, self.defaults, len(sources))
        end_pieces = _end_pieces(stop_token_ids, tokenizers[1])
        generator = self._get(
            transformer, tokenizers, beam_size=rows.beam_size, end_pieces=end_pieces
        )
        texts = generator(sources, prompts, rows)
        return texts[0] if is_single else texts

    def _get(self, transformer, tokenizers, **options):
        if self._traced.changed("generate", transformer) or tokenizers != self._tokenizers:
            self._generators.clear()
            self._tokenizers = tokenizers
        key = tuple(options.values())
        if key not in self._generators:
            self._generators[key] = TextGenerator(Translator(transformer, *tokenizers, **options))
        return self._generators[key]


def _split_inputs(inputs):
    """Returns sources and prompts as lists, and whether they are single strings."""
    is_mapping = isinstance(inputs, Mapping)
    if is_mapping and "encoder_text" not in inputs:
        raise InputError(
            f"`inputs` must have the key encoder_text. Received: the keys {sorted(inputs)}"
        )
    sources, is_single = _text_list(inputs["encoder_text"] if is_mapping else inputs, "inputs")
    prompts = inputs.get("decoder_text") if is_mapping else None
    prompts = [""] * len(sources) if prompts is None else _text_list(prompts, "decoder_text")[0]
    if len(prompts) != len(sources):
        raise InputError(
            "`decoder_text` must have one string for each of `encoder_text`. "
            f"Received: {len(prompts)} and {len(sources)}"
        )
    return sources, prompts, is_single


def _text_list(texts, name):
    """Returns texts as a list, and whether they are a single one."""
    if isinstance(texts, np.ndarray | tf.Tensor) and not np.ndim(texts):
        texts = np.asarray(texts).item()
    if isinstance(texts, str | bytes):
        return [texts], True
    return list_of_texts(texts, name), False


def _end_pieces(stop_token_ids, tokenizer):
    if isinstance(stop_token_ids, str) and stop_token_ids == "auto":
        return ()
    ids = stop_token_ids
    if not isinstance(ids, list | tuple) or not all(
        is_whole(token_id) and 0 <= token_id < tokenizer.vocab_size for token_id in ids
    ):
        raise InputError(
            '`stop_token_ids` must be "auto" or a list of token ids. '
            f"Received: stop_token_ids={shown(ids)}"
        )
    return tuple(tokenizer.pieces[token_id] for token_id in ids if token_id != END_ID)


def _specs(options: Sequence[RowOption]) -> list[tf.TensorSpec]:
    return [tf.TensorSpec([None], option.dtype) for option in options]
