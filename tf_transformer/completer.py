"""Text continued by a language model."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding import beam_search, check_search_arguments, greedy_search, with_ends
from tf_transformer.language_model import LanguageModel
from tf_transformer.masks import PAD_ID
from tf_transformer.tokenizer import BEGIN_ID, END_ID, UNKNOWN_ID, Tokenizer


class Completion(NamedTuple):
    """A text and what follows it.

    Attributes:
        text: beginning and continuation together.
        score: log-probability of the continuation, its end included, over the length penalty.
    """

    text: str
    score: float


class Completer(tf.Module):
    """Continues the beginning of a text until the model ends it.

    Args:
        model: the language model.
        tokenizer: its tokenizer.
        beam_size: width of the beam; 1 is greedy search.
        length_penalty: alpha of the GNMT length penalty, of the continuation alone.
        max_new_tokens: longest continuation, in tokens.
        end_pieces: pieces that end a continuation like the end token does, without being part of
            it.

    Raises:
        ValueError: an argument is out of range, or the model translates.
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        beam_size: int = 4,
        length_penalty: float = 0.6,
        max_new_tokens: int = 100,
        end_pieces: Sequence[str] = (),
    ):
        super().__init__(name="completer")
        if not isinstance(model, LanguageModel):
            raise ValueError(f"A {type(model).__name__} needs a source; translate with it")
        check_search_arguments(beam_size, 1, length_penalty)
        if max_new_tokens < 1:
            raise ValueError(f"`max_new_tokens` must be at least 1. Received: {max_new_tokens}")
        self.model = model
        self.tokenizer = tokenizer
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_new_tokens = min(max_new_tokens, model.config.max_length)
        self._end_ids = tokenizer.end_ids(end_pieces)
        self._complete_function = tf.function(
            self._complete, input_signature=[tf.TensorSpec([None], tf.int32)]
        )

    def complete(self, text: str | bytes) -> Completion:
        """Continues one text.

        Raises:
            ValueError: the text alone has more tokens than the model can hold.
        """
        prompt = self.check_prompt(text)
        ids, score = self._complete_function(tf.concat([[BEGIN_ID], prompt], axis=0))
        both = tf.concat([prompt, ids], axis=0)
        return Completion(
            self.tokenizer.detokenize(both[tf.newaxis])[0].numpy().decode(), float(score)
        )

    def check_prompt(self, text: str | bytes, name: str = "The text") -> tf.Tensor:
        """The tokens of a text, `(length,)`.

        Raises:
            ValueError: they are more than the model can hold.
        """
        prompt = self.tokenizer.tokenize(tf.constant([text]))[0]
        limit = self.model.config.max_length - 1
        if len(prompt) > limit:
            raise ValueError(f"{name} has {len(prompt)} tokens; the model holds {limit}")
        return prompt

    def _complete(self, prompt):
        """Ids `(length,)`, the begin id first, to the ids that follow and their score."""
        cache = self._read(prompt[:-1])
        room = self.model.config.max_length - tf.size(prompt)
        arguments = dict(
            begin_id=prompt[-1],
            end_id=END_ID,
            max_lengths=tf.minimum(room, self.max_new_tokens)[tf.newaxis],
            alpha=self.length_penalty,
            suppressed_ids=(PAD_ID, UNKNOWN_ID, BEGIN_ID),
        )
        step_function = with_ends(self.model.decode_step, self._end_ids)
        if self.beam_size == 1:
            found = greedy_search(step_function, cache, **arguments)
        else:
            found = beam_search(step_function, cache, beam_size=self.beam_size, **arguments)
        return found.ids[0, 0, : found.lengths[0, 0]], found.scores[0, 0]

    def _read(self, ids):
        """The cache after these ids, the same for every hypothesis."""

        def read_one(position, cache):
            newest = tf.fill([1, self.beam_size], ids[position])
            return position + 1, self.model.decode_step(newest, cache)[1]

        cache = self.model.start_decoding(1, self.beam_size)
        shapes = tf.nest.map_structure(
            lambda part: tf.TensorShape([*part.shape[:3], None, part.shape[4]]), cache
        )
        _, cache = tf.while_loop(
            lambda position, _: position < tf.size(ids),
            read_one,
            (0, cache),
            shape_invariants=(tf.TensorShape([]), shapes),
        )
        return cache
