"""Checks the body of a request for translations, which comes from anyone."""

import json
import math
from typing import Any, NamedTuple

from export.web.offers import Offers
from export.web.settings import WebSettings
from tf_transformer.argument_types import is_number, is_whole
from tf_transformer.decoding.search_options import SEARCH_OPTIONS, RowOption
from tf_transformer.documents.sentence_splitter import sentence_splitter
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.language_tags import check_untagged, tags_of_known

_LARGEST_INT32 = 2**31 - 1
_FLAGS = {"alignment": "align", "confidence": "confidence"}  # and the tasks that they need
_OPTIONS = tuple(option.name for option in SEARCH_OPTIONS)
_NAMES = ("lines", "num_best", *_FLAGS, "options", "target_language", "source_language")


class TranslationRequest(NamedTuple):
    """A valid request.

    Attributes:
        lines: the sentences of each line with the white space after them; a blank line has none.
        are_documents: whether a line may have several sentences.
        tags: the language tags of each sentence.
        num_best: number of translations per sentence.
        alignment: whether to align the best translation with the source.
        confidence: whether to return how confident the model is in each word.
        options: the search options by name: those that are given, and the defaults of the command.
    """

    lines: list[list[str]]
    are_documents: bool
    tags: str
    num_best: int
    alignment: bool
    confidence: bool
    options: dict[str, int | float]

    @property
    def sentences(self) -> list[str]:
        """The sentences of all lines, without tags."""
        return [sentence for line in self.lines for sentence in line]


def parse_request(body: bytes, settings: WebSettings, offered: Offers) -> TranslationRequest:
    """Parses and checks the body of a request.

    Args:
        body: a JSON object with `lines` and, optionally, `num_best`, `alignment`, `confidence`,
            `options`, `target_language` and `source_language`.
        settings: limits and languages.
        offered: what the model can do.

    Raises:
        InputError: the request is invalid; the message is for the one who sent it.
    """
    fields = _parse_object(body)
    lines = _lines(fields.get("lines"), settings)
    tags = _tags(lines, fields, settings)
    flags = {name: fields.get(name, False) for name in _FLAGS}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InputError(f"`{name}` must be true or false. Received: {shown(flag)}")
    num_best = fields.get("num_best", 1)
    if is_whole(num_best) and num_best > 1:
        offered.check("nbest", "`num_best`")
    if not is_whole(num_best) or not 1 <= num_best <= offered.num_best:
        raise InputError(
            f"`num_best` must be an integer from 1 to {offered.num_best}. "
            f"Received: {shown(num_best)}"
        )
    given = _options(fields.get("options", {}), offered)
    request = TranslationRequest(
        _sentences(lines, settings),
        settings.splits_sentences,
        tags,
        num_best,
        options={**settings.search, **given},
        **flags,
    )
    for name, task in _FLAGS.items():
        if flags[name]:
            offered.check(task, f"`{name}`")
    needed_by = "`options`" if given else _search_name(settings)
    for task in tasks_of(request, offered, needed_by):
        offered.check(task, needed_by, has_options=bool(request.options))
    return request


def _parse_object(body):
    try:
        fields: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the body must be JSON in UTF-8") from error
    if not isinstance(fields, dict):
        raise InputError("the body must be a JSON object")
    for name in fields:
        if name not in _NAMES:
            raise InputError(f"expected only {', '.join(_NAMES)}. Received: {shown(name)}")
    return fields


def _lines(lines, settings):
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InputError("`lines` must be a list of strings")
    if len(lines) > 2 * settings.max_sentences:
        raise InputError(
            f"expected at most {2 * settings.max_sentences} lines, including blank ones. "
            f"Received: {len(lines)}"
        )
    num_characters = sum(map(len, lines))
    if num_characters > settings.max_characters:
        raise InputError(
            f"expected at most {settings.max_characters} characters. Received: {num_characters}"
        )
    for number, line in enumerate(lines, 1):
        if any("\ud800" <= char <= "\udfff" for char in line):
            raise InputError(f"line {number}: expected Unicode text. Received: half a character")
    return lines


def _sentences(lines, settings) -> list[list[str]]:
    """Returns the sentences of each line."""
    split = sentence_splitter(settings.document_languages)
    found = [
        [] if not line.strip() else split(line) if settings.splits_sentences else [line]
        for line in lines
    ]
    num_sentences = sum(map(len, found))
    if not 1 <= num_sentences <= settings.max_sentences:
        raise InputError(
            f"expected 1 to {settings.max_sentences} sentences that are not blank. "
            f"Received: {num_sentences}"
        )
    return found


def _tags(lines, fields, settings) -> str:
    """Returns the tags of the chosen languages."""
    languages = []
    for name, known in (
        ("target_language", settings.target_languages),
        ("source_language", settings.source_languages),
    ):
        language = fields.get(name)
        if language is None and not known:
            continue
        if language not in known:
            expected = f"one of {', '.join(known)}" if known else "none"
            raise InputError(f"`{name}` must be {expected}. Received: {shown(language)}")
        languages.append(language)
    if not languages:
        return ""
    for number, line in enumerate(lines, 1):
        check_untagged(line, f"line {number}")
    return tags_of_known(languages, settings.known_languages)


def _options(given, offered) -> dict[str, int | float]:
    """Returns the given options that are not unset."""
    if not isinstance(given, dict):
        raise InputError(f"`options` must be an object. Received: {shown(given)}")
    options = {option.name: option for option in offered.options}
    for name, value in given.items():
        if name not in options:
            if name in _OPTIONS and not offered.with_options:
                offered.check("translate", "`options`", has_options=True)
            expected = f"one of {', '.join(options)}" if options else "none"
            raise InputError(f"expected as option {expected}. Received: {shown(name)}")
        _check_option(options[name], value)
    return {name: value for name, value in given.items() if value != options[name].unset}


def _check_option(option: RowOption, value: Any) -> None:
    largest = largest_value(option)
    is_valid = is_whole(value) if option.dtype == "int32" else is_number(value)
    # A NaN fails the comparison; a large int would be converted to a float by `math.isfinite`.
    if not is_valid or not 0 <= value <= largest or not math.isfinite(value):
        kind = "an integer" if option.dtype == "int32" else "a number"
        raise InputError(
            f"`{option.name}` must be {kind} from 0 to {largest}. Received: {shown(value)}"
        )


def largest_value(option: RowOption) -> int | float:
    """Returns the largest value of an option that is accepted."""
    return _LARGEST_INT32 if option.largest is None else option.largest


def check_translation(offered: Offers, settings: WebSettings) -> None:
    """Checks that the model translates what asks for nothing else.

    Args:
        offered: what the model can do.
        settings: the search options that the command gives.

    Raises:
        InputError: it has no signature for it.
    """
    search = dict(settings.search)
    request = TranslationRequest([], settings.splits_sentences, "", 1, False, False, search)
    tasks_of(request, offered, _search_name(settings))


def _search_name(settings):
    """Returns the option of the command that gives a search option, "" if there is none."""
    return next((f"--{name.replace('_', '-')}" for name in settings.search), "")


def tasks_of(request: TranslationRequest, offered: Offers, needed_by: str = "") -> list[str]:
    """Returns the tasks of a request, which are those of `Offers`.

    Args:
        request: the request.
        offered: what the model can do.
        needed_by: what its search options are for, for the error message.

    Raises:
        InputError: the model offers none.
    """
    tasks = ["nbest"] if request.num_best > 1 else []
    tasks += [task for name, task in _FLAGS.items() if getattr(request, name)]
    has_options = bool(request.options)
    if not tasks and request.are_documents and offered.has("document", has_options=has_options):
        return ["document"]
    return tasks or [offered.sentence_task(needed_by, has_options=has_options)]
