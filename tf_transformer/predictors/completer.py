"""Text completion with a language model."""

import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.argument_types import as_path
from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    DEFAULT_MAX_TOKENS,
)
from tf_transformer.errors import InputError
from tf_transformer.inference.continuer import Continuer
from tf_transformer.known_names import (
    check_names,
    keywords,
    name_options_of_load,
    suggest_arguments,
)
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.printable import shown
from tf_transformer.storage.model_dir import load_for_decoding
from tf_transformer.tasks.parts import Parts
from tf_transformer.text.texts import encode_text, list_of_texts
from tf_transformer.text.tokenizer import Tokenizer


class Completion(NamedTuple):
    """A completed text.

    Attributes:
        text: the prompt and its continuation.
        score: log-probability of the continuation and its end, divided by the length penalty.
    """

    text: str
    score: float


class Completer:
    """Completes text with a `LanguageModel` and beam search: the task `continuation`, in Python.

        completer = Completer.load("model", beam_size=4)
        completer(["The meeting is"])            # completes each text
        completer.complete("The meeting is")     # completes one text, with its score

    Args:
        model: the language model.
        tokenizer: its tokenizer.
        beam_size: width of the beam; 1 is greedy search.
        length_penalty: alpha of `search_interface.length_penalty`, applied to the continuation.
        max_new_tokens: maximum number of tokens of a continuation.
        end_pieces: pieces that end a continuation as the end id does; the continuation does not
            contain them.
        xla: "on" and "auto" compile the search with XLA, see `ModelPredictor`, for texts whose
            prompt and continuation have at most 32, 64, 128 or 256 tokens in all.

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
        beam_size: int = DEFAULT_BEAM_SIZE,
        length_penalty: float = DEFAULT_LENGTH_PENALTY,
        max_new_tokens: int = DEFAULT_MAX_TOKENS,
        end_pieces: Sequence[str] = (),
        xla: str = "off",
    ):
        make_continuer = functools.partial(
            Continuer,
            model,
            tokenizer,
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_new_tokens=max_new_tokens,
            end_pieces=end_pieces,
        )
        self._continuer = make_continuer()

        def make_parts(shapes):
            return Parts(make_continuer(compiled_shapes=shapes) if shapes else self._continuer)

        self._predictor = ModelPredictor(make_parts, xla=xla)
        self.model = model
        self.tokenizer = tokenizer
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_new_tokens = self._continuer.max_new_tokens

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
        """Completes texts.

        Args:
            texts: strings, or their UTF-8 bytes.

        Returns:
            Each text with its continuation.

        Raises:
            InputError: `texts` is no list of strings, a text is too long for the model, or a score
                is not finite.
        """
        return [found.text for found in self._complete(list_of_texts(texts, "texts"))]

    @name_options_of_load
    def complete(self, text: str | bytes) -> Completion:
        """Completes one text.

        Args:
            text: the prompt.

        Raises:
            InputError: the text is no string or too long for the model, or the score is not finite.
        """
        return self._complete([text])[0]

    def _complete(self, texts: Sequence[str | bytes]) -> list[Completion]:
        for text in texts:
            self.check_prompt(text)
        return [
            Completion(*row)
            for batch in (answer(self._predictor, "continuation", {"text": texts}) if texts else ())
            for row in zip(batch["completion"], batch["score"], strict=True)
        ]

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
        limit = self._continuer.limit
        if len(prompt) > limit:
            raise InputError(
                f"{name} must have at most {limit} tokens, the model's limit. "
                f"Received: {len(prompt)} tokens"
            )
        return prompt
