"""Settings of the web application."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.errors import InputError
from tf_transformer.storage.saved_model import ExportedLanguages
from tf_transformer.text.language_tags import language_tag, tags_of_known

_HOST = re.compile(r"\*|(\*\.)?[A-Za-z0-9.-]+|\[?[0-9A-Fa-f:.]+\]?")


class WebSettings(NamedTuple):
    """Settings of the web application.

    Attributes:
        model: name of the model, shown on the page.
        max_sentences: maximum number of sentences per request.
        max_characters: maximum number of characters per request, over all its sentences.
        max_concurrent: maximum number of requests that are translated at a time; others are
            refused with status 503.
        target_languages: languages to choose from, for a multilingual model, whose tags are added
            to every sentence; empty if the model needs no tags.
        source_languages: the same for a model that needs the tag of the source language, too.
        known_languages: the model's languages; None if they are not known, as a server's.
        splits_sentences: whether the sentences of a line are translated on their own.
        document_languages: languages of the text, whose abbreviations end no sentence.
        allowed_hosts: names of this server in a request's header `Host`; `*` allows all. With
            names, a page of another site cannot pass for this one by giving its own name this
            address (DNS rebinding).
        search: search options of requests that give none, by name; see `find_offers`.
    """

    model: str = "translator"
    max_sentences: int = 50
    max_characters: int = 5000
    max_concurrent: int = 8
    target_languages: tuple[str, ...] = ()
    source_languages: tuple[str, ...] = ()
    known_languages: ExportedLanguages | None = None
    splits_sentences: bool = True
    document_languages: tuple[str, ...] = LANGUAGES
    allowed_hosts: tuple[str, ...] = ("*",)
    search: Mapping[str, int | float] = MappingProxyType({})

    @property
    def max_body_bytes(self) -> int:
        """Maximum size of a request's body, with each character as two escapes of six bytes."""
        return 12 * self.max_characters + 16 * self.max_sentences + 4096

    def check(self) -> None:
        """Checks the ranges.

        Raises:
            InputError: a number is below 1, or the name of a language or a host is not valid.
        """
        for name in ("max_sentences", "max_characters", "max_concurrent"):
            if (value := getattr(self, name)) < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: expected at least 1")
        for language in (*self.target_languages, *self.source_languages):
            language_tag(language)
        for host in self.allowed_hosts:
            if not _HOST.fullmatch(host):
                raise InputError(
                    f"--allowed-hosts {host}: expected a name such as translate.example.com, "
                    "*.example.com, an address, or * for any"
                )
        if self.source_languages and not self.target_languages:
            raise InputError("--source-languages is valid only with --target-languages")
        for target in self.target_languages:
            for source in self.source_languages or (None,):
                tags_of_known([x for x in (target, source) if x], self.known_languages)
