"""Text continued by a language model."""

import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.argument_types import is_whole
from tf_transformer.decoding.beam_search import SearchOptions, beam_search, check_search_arguments
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.printable import shown
from tf_transformer.storage.model_dir import load_for_decoding
from tf_transformer.text.special_ids import BEGIN_ID, SUPPRESSED_IDS
from tf_transformer.text.texts import list_of_texts
from tf_transformer.text.tokenizer import Tokenizer


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

        completer = Completer.load("model", beam_size=4)
        completer(["The meeting is"])            # each text with what follows it
        completer.complete("The meeting is")     # one text, with the score

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
            raise InputError(f"A {type(model).__name__} needs a source; translate with it")
        check_search_arguments(beam_size, 1, length_penalty)
        if not is_whole(max_new_tokens) or max_new_tokens < 1:
            raise InputError(
                "`max_new_tokens` must be a whole number, at least 1. "
                f"Received: {shown(max_new_tokens)}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_new_tokens = min(max_new_tokens, model.config.max_length)
        self._end_ids = tokenizer.end_ids(end_pieces)
        self._complete_function = tf.function(
            self._complete, input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False
        )

    @classmethod
    def load(
        cls, model_dir: str | os.PathLike, *, dtype: str = "float32", **options: Any
    ) -> "Completer":
        """Loads a model directory to continue text with.

        Args:
            model_dir: the model directory of a language model.
            dtype: "float32", "bfloat16" or "int8", see `load_for_decoding`.
            **options: the other arguments of `Completer`, such as `beam_size`.

        Raises:
            ValueError: no model directory, a damaged one, one of a model that translates, or an
                argument is out of range.
        """
        model, _, tokenizer = load_for_decoding(pathlib.Path(model_dir), dtype)
        return cls(model, tokenizer, **options)

    def __call__(self, texts: Iterable[str | bytes]) -> list[str]:
        """Returns each text with its continuation, see `complete`.

        Raises:
            ValueError: one string instead of several, something that is no string, or a text has
                more tokens than the model can hold.
        """
        return [self.complete(text).text for text in list_of_texts(texts, "texts")]

    def complete(self, text: str | bytes) -> Completion:
        """Continues one text.

        Raises:
            ValueError: the text alone has more tokens than the model can hold; or as
                `check_scores`.
        """
        prompt = self.check_prompt(text)
        ids, score = self._complete_function(prompt)
        check_scores([score])
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
            raise InputError(f"{name} has {len(prompt)} tokens; the model holds {limit}")
        return prompt

    def _complete(self, prompt):
        """Ids `(length,)` to the ids that follow and their score."""
        decoder = IncrementalDecoder(self.model, self.beam_size)
        length = tf.size(prompt)
        longest = tf.minimum(length + self.max_new_tokens, self.model.config.max_length - 1)
        found = beam_search(
            decoder,
            decoder.start(1),
            beam_size=self.beam_size,
            begin_id=BEGIN_ID,
            end_ids=self._end_ids,
            options=SearchOptions(
                max_length=longest[tf.newaxis],
                length_penalty=self.length_penalty,
                # One column at least, of padding where there is no prompt.
                prefix=tf.pad(prompt, [[0, 1]])[tf.newaxis],
            ),
            suppressed_ids=SUPPRESSED_IDS,
        )
        return found.ids[0, 0, length : found.lengths[0, 0]], found.scores[0, 0]
