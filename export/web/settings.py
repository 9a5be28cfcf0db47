"""Settings of the web application."""

from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import language_tag


class WebSettings(NamedTuple):
    """Settings of the web application.

    Attributes:
        model: name of the model, shown on the page.
        max_sentences: maximum number of sentences per request that are not blank.
        max_characters: maximum number of characters per request, over all its sentences.
        max_concurrent: maximum number of requests that are translated at a time; others are
            refused with status 503.
        target_languages: languages to choose from, for a multilingual model, whose tags are added
            to every sentence; empty if the model needs no tags.
        source_languages: the same for a model that needs the tag of the source language, too.
    """

    model: str = "translator"
    max_sentences: int = 50
    max_characters: int = 5000
    max_concurrent: int = 8
    target_languages: tuple[str, ...] = ()
    source_languages: tuple[str, ...] = ()

    @property
    def max_body_bytes(self) -> int:
        """Maximum size of a request's body, with each character as two escapes of six bytes."""
        return 12 * self.max_characters + 16 * self.max_sentences + 4096

    def check(self) -> None:
        """Checks the ranges.

        Raises:
            InputError: a number is below 1, or a language's name is not valid.
        """
        for name in ("max_sentences", "max_characters", "max_concurrent"):
            if (value := getattr(self, name)) < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: expected at least 1")
        for language in (*self.target_languages, *self.source_languages):
            language_tag(language)
        if self.source_languages and not self.target_languages:
            raise InputError("--source-languages is valid only with --target-languages")
