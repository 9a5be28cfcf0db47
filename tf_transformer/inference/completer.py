"""Text completion with a language model."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.argument_types import as_path, is_whole
from tf_transformer.decoding.beam_search import SearchOptions, beam_search, check_search_arguments
from tf_transformer.decoding.compilation_rule import CompilationRule
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.static_search import StaticDecoder, StaticSearch
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.known_names import (
    check_names,
    keywords,
    name_options_of_load,
    suggest_arguments,
)
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.printable import shown
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.storage.model_dir import load_for_decoding
from tf_transformer.text.special_ids import BEGIN_ID, SUPPRESSED_IDS
from tf_transformer.text.texts import encode_text, list_of_texts
from tf_transformer.text.tokenizer import Tokenizer

# Tokens of prompt and continuation. The compiled search computes all of them for the attention of
# every step, so that it gains nothing for much longer ones.
_COMPILED_SIZES = (32, 64, 128, 256)
# A compiled search takes a third to a half of the time.
_TEXTS_BEFORE_COMPILING = 100


class Completion(NamedTuple):
    """A completed text.

    Attributes:
        text: the prompt and its continuation.
        score: log-probability of the continuation and its end, divided by the length penalty.
    """

    text: str
    score: float


class Completer(tf.Module):
    """Completes text with a `LanguageModel` and beam search.

        completer = Completer.load("model", beam_size=4)
        completer(["The meeting is"])            # completes each text
        completer.complete("The meeting is")     # completes one text, with its score

    Args:
        model: the language model.
        tokenizer: its tokenizer.
        beam_size: width of the beam; 1 is greedy search.
        length_penalty: alpha of `beam_search.length_penalty`, applied to the continuation.
        max_new_tokens: maximum number of tokens of a continuation.
        end_pieces: pieces that end a continuation as the end id does; the continuation does not
            contain them.
        xla: "on" and "auto" compile the search with XLA, see `CompilationRule`, for texts whose
            prompt and continuation have at most 32, 64, 128 or 256 tokens in all, "auto" after 100
            texts of such a size.

    Raises:
        InputError: an argument is out of range, the model is no `LanguageModel`, or it is in int8
            and `xla` is "on".
    """

    @suggest_arguments
    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        beam_size: int = 4,
        length_penalty: float = 0.6,
        max_new_tokens: int = 100,
        end_pieces: Sequence[str] = (),
        xla: str = "off",
    ):
        super().__init__(name="completer")
        if not isinstance(model, LanguageModel):
            raise InputError(f"A {type(model).__name__} needs a source. Use it to translate text")
        check_search_arguments(beam_size, 1, length_penalty)
        if not is_whole(max_new_tokens) or max_new_tokens < 1:
            raise InputError(
                "`max_new_tokens` must be a positive integer. "
                f"Received: max_new_tokens={shown(max_new_tokens)}"
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
        self._rule = CompilationRule(xla, is_quantized(model))
        self._compiled_functions: dict[int, Callable[..., Any]] = {}

    @classmethod
    def load_options(cls) -> list[str]:
        """Returns the names of the options of `load`."""
        return [*keywords(cls), *keywords(cls.load)]

    @classmethod
    def load(
        cls, model_dir: str | os.PathLike, *, dtype: str = "float32", **options: Any
    ) -> "Completer":
        """Loads a completer from a model directory.

        Args:
            model_dir: the model directory of a language model.
            dtype: "float32", "bfloat16" or "int8", see `load_for_decoding`.
            **options: the other arguments of `Completer`, such as `beam_size`.

        Raises:
            InputError: not a valid model directory, not that of a language model, or an argument is
                out of range.
        """
        check_names(options, cls.load_options())
        path = as_path(model_dir, "model_dir", "a model directory")
        model, _, tokenizer = load_for_decoding(path, dtype)
        return cls(model, tokenizer, **options)

    @name_options_of_load
    def __call__(self, texts: Iterable[str | bytes]) -> list[str]:
        """Completes texts one by one, see `complete`.

        Args:
            texts: strings, or their UTF-8 bytes.

        Returns:
            Each text with its continuation.

        Raises:
            InputError: `texts` is no list of strings, or a text is too long for the model.
        """
        return [self.complete(text).text for text in list_of_texts(texts, "texts")]

    @name_options_of_load
    def complete(self, text: str | bytes) -> Completion:
        """Completes one text.

        Args:
            text: the prompt.

        Raises:
            InputError: the text is no string or too long for the model, or the score is not finite.
        """
        prompt = self.check_prompt(text)
        ids, score = self._search(prompt)
        check_scores([score])
        all_ids = tf.concat([prompt, ids], axis=0)
        return Completion(
            self.tokenizer.detokenize(all_ids[tf.newaxis])[0].numpy().decode(), float(score)
        )

    def check_prompt(self, text: str | bytes, name: str = "The text") -> tf.Tensor:
        """Returns the token ids of a prompt, `(length,)`.

        Args:
            text: the prompt.
            name: name of the prompt in the error message.

        Raises:
            InputError: it is no string, or there are more tokens than the model's limit.
        """
        if not isinstance(text, str | bytes):
            raise InputError(f"{name} must be a string. Received: {shown(text)}")
        if isinstance(text, str):
            text = encode_text(text, name)
        prompt = self.tokenizer.tokenize(tf.constant([text]))[0]
        limit = self.model.config.max_length - 1
        if len(prompt) > limit:
            raise InputError(
                f"{name} must have at most {limit} tokens, the model's limit. "
                f"Received: {len(prompt)} tokens"
            )
        return prompt

    def _search(self, prompt):
        """Returns the ids that follow a prompt `(length,)`, and their score."""
        length = len(prompt)
        longest = min(length + self.max_new_tokens, self.model.config.max_length - 1)
        size = next((size for size in _COMPILED_SIZES if longest <= size), None)
        if size is None or not self._rule.compiles(size, _TEXTS_BEFORE_COMPILING):
            return self._complete_function(prompt)
        if size not in self._compiled_functions:
            self._compiled_functions[size] = self._compile(size)
        ids = tf.pad(prompt, [[0, size + 1 - length]])
        ids, score, end = self._compiled_functions[size](ids, longest)
        return ids[length:end], score

    def _compile(self, size):
        """Returns the search for prompts and continuations of at most `size` tokens in all."""

        def complete(prompt, longest):
            decoder = StaticDecoder(self.model, self.beam_size, size + 1)  # with the end
            end_ids = tuple(self._end_ids)
            search = StaticSearch(decoder, self.beam_size, end_ids, 1, SUPPRESSED_IDS)
            found = search.run(decoder.start(1), BEGIN_ID, self._options(prompt, longest))
            return found.ids[0, 0], found.scores[0, 0], found.lengths[0, 0]

        return tf.function(
            complete,
            input_signature=[tf.TensorSpec([size + 1], tf.int32), tf.TensorSpec([], tf.int32)],
            autograph=False,
            jit_compile=True,
        )

    def _complete(self, prompt):
        """Returns the ids that follow a prompt `(length,)`, and their score."""
        decoder = IncrementalDecoder(self.model, self.beam_size)
        length = tf.size(prompt)
        longest = tf.minimum(length + self.max_new_tokens, self.model.config.max_length - 1)
        found = beam_search(
            decoder,
            decoder.start(1),
            beam_size=self.beam_size,
            begin_id=BEGIN_ID,
            end_ids=self._end_ids,
            # The search needs at least one column, which may be padding.
            options=self._options(tf.pad(prompt, [[0, 1]]), longest),
            suppressed_ids=SUPPRESSED_IDS,
        )
        return found.ids[0, 0, length : found.lengths[0, 0]], found.scores[0, 0]

    def _options(self, prefix, longest):
        """Returns the options of a search with one row, from ids padded with 0, `(length,)`."""
        return SearchOptions(
            max_length=longest[tf.newaxis],
            length_penalty=self.length_penalty,
            prefix=prefix[tf.newaxis],
        )
