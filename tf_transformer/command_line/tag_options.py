"""Language tags that commands add to what a model reads."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tf_transformer.command_line.command_options import find_source_tags
from tf_transformer.storage.saved_model import ExportedLanguages, exported_languages
from tf_transformer.text.language_tags import add_tags, check_tag, tags_of_known

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.text.vocabulary import Vocabulary

# Adds tags to a line, or checks them; with file and line, for the error message.
Prepare = Callable[[bytes, str], bytes]


def parse_tags(
    options: argparse.Namespace, source: "Vocabulary | None" = None, num_tags: int = 1
) -> str:
    """Returns the tags of `--target-language` and `--source-language`, "" without them.

    Args:
        options: the parsed command line.
        source: the model's vocabulary of sources; None: the model is that of `--saved-model`,
            whose description has its tags, or of a server, which alone knows them.
        num_tags: number of tags that a source needs.

    Raises:
        InputError: the model has no such tag, or needs another number of tags.
    """
    if source is not None:
        return find_source_tags(options, source, num_tags) or ""
    return tags_of_known(parse_languages(options), parse_exported(options))


def parse_exported(options: argparse.Namespace) -> ExportedLanguages | None:
    """Returns the languages of `--saved-model`; None if they are not known, as a server's.

    Raises:
        InputError: there is no such model.
    """
    return None if options.saved_model is None else exported_languages(options.saved_model)


def parse_languages(options: argparse.Namespace) -> list[str]:
    """Returns the given ones of `--target-language` and `--source-language`, in this order."""
    languages = (options.target_language, options.source_language)
    return [language for language in languages if language is not None]


def prepare_with(tags: str, languages: Sequence[str] = (), num_tags: int = 1) -> Prepare:
    """Returns what adds tags to a line or, without any, checks those that it has.

    Args:
        tags: the tags.
        languages: the languages of which the model needs a tag.
        num_tags: number of tags that a source needs.
    """

    def prepare(line, where):
        if tags:
            return add_tags(line, tags, where)
        check_tag(line, languages, where, num_tags)
        return line

    return prepare
