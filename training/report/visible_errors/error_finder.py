"""Finding errors in translations: classes of errors, and the rule of each.

What a translation must keep (numbers, names, addresses, negation, quotation marks) is what the
source has and every reference has kept. So a name that the references translate counts for nothing,
and neither does a number that they write as a word. The rules find candidates to look at; they are
no measure of quality.
"""

import collections
import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from training.report.compared_texts import ComparedTexts
from training.report.visible_errors.negation import LANGUAGES, Negation, find_negation
from training.report.visible_errors.repetition import find_repetition
from training.report.words import is_unspaced, split_words

# Digits with marks between them; a space only between groups of three.
_NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,:'’]\d+)*")
# Lengths are bounded, so that long lines without spaces take no longer than others.
_ADDRESS = re.compile(
    r"https?://[^\s<>\"]+|www\.[^\s<>\"]+|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}|[@#]\w+"
)
_QUOTE = re.compile(r"[\"“”„«»‹›「」『』〝〞＂]|``|''")
# Apostrophes at the beginning or the end of a word may be quotation marks.
_ANY_QUOTE = re.compile(_QUOTE.pattern + r"|(?<!\w)['‘‚]|['’](?!\w)")
_END = re.compile(r"[.!?…。！？؟۔।]['\"”’»›)\]」』]*\s*$")
# Characters that both sides of a ratio of lengths are increased by, for short sentences.
_MORE_CHARACTERS = 10
_SHORTEST, _LONGEST = 0.6, 1.7
_CUT_OFF = 0.8
_MIN_COPIED = 4
_MAX_EVIDENCE = 80


@dataclasses.dataclass(frozen=True)
class ErrorClass:
    """A class of errors.

    Args:
        name: its name in JSON.
        title: its name on the page.
        description: what it means, in a sentence.
        needs: what it cannot be found without: "source", "languages" or nothing.
    """

    name: str
    title: str
    description: str
    needs: str = ""


ERROR_CLASSES = (
    ErrorClass("empty", "empty", "there is no translation"),
    ErrorClass(
        "truncated",
        "cut off",
        f"shorter than {_CUT_OFF:g} of the shortest reference, and without the end punctuation "
        "that every reference has",
    ),
    ErrorClass(
        "too_short",
        "too short",
        f"characters, plus {_MORE_CHARACTERS}, are less than {_SHORTEST:g} of those of the "
        "shortest reference",
    ),
    ErrorClass(
        "too_long",
        "too long",
        f"characters, plus {_MORE_CHARACTERS}, are more than {_LONGEST:g} of those of the longest "
        "reference",
    ),
    ErrorClass(
        "repeated",
        "repetition",
        "words follow themselves, or four words occur again, and no reference repeats any",
    ),
    ErrorClass(
        "untranslated",
        "untranslated",
        "words of the source that no reference of the test set and no training text has",
        needs="source",
    ),
    ErrorClass(
        "number_lost", "number lost", "a number of the source and of every reference is missing"
    ),
    ErrorClass("number_added", "number added", "a number that neither source nor a reference has"),
    ErrorClass(
        "name_lost",
        "name lost",
        "a capitalized word that every reference copies from the source is missing; not words that "
        "the texts also have in lower case",
        needs="source",
    ),
    ErrorClass(
        "address_lost",
        "address lost",
        "a URL, e-mail address, @name or #tag of the source and of every reference is missing",
    ),
    ErrorClass(
        "negation_lost",
        "negation lost",
        "source and every reference have a word of negation, and the translation has none",
        needs="languages",
    ),
    ErrorClass(
        "quotation_lost",
        "quotation marks lost",
        "source and every reference have quotation marks, and the translation has none",
    ),
)
_INDEX = {error.name: index for index, error in enumerate(ERROR_CLASSES)}


class FoundError(NamedTuple):
    """An error of a translation.

    Attributes:
        error: index of its class in `ERROR_CLASSES`.
        evidence: the word or number that it is about; may be empty.
    """

    error: int
    evidence: str


class ErrorFinder:
    """Finds errors in translations of a test set.

    Args:
        texts: the test set.
        source_language: language of the source, for negation; None if it is not known.
        target_language: language of the references, for negation; None if it is not known.
        target_words: other words of the target language, such as those of the training text.
    """

    def __init__(
        self,
        texts: ComparedTexts,
        source_language: str | None = None,
        target_language: str | None = None,
        target_words: Iterable[str] = (),
    ):
        self._texts = texts
        self._source_negation = find_negation(source_language)
        self._target_negation = find_negation(target_language)
        words = {word for lines in texts.references for line in lines for word in split_words(line)}
        self._target_words = words | set(target_words)
        self._lower_words = {word for word in words if word[0].islower()}
        for line in texts.source or ():
            self._lower_words |= {word for word in split_words(line) if word[0].islower()}

    def absent(self, error: ErrorClass) -> str | None:
        """Returns what is missing to find errors of a class, or None."""
        if error.needs == "source" and self._texts.source is None:
            return "needs the source"
        if error.needs == "languages" and self._target_negation is None:
            return f"needs the languages, the target one of {', '.join(LANGUAGES)}"
        return None

    def find(self, index: int) -> list[list[FoundError]]:
        """Returns the errors in each system's translation of a sentence.

        Args:
            index: index of the sentence.
        """
        source = self._texts.source[index] if self._texts.source is not None else None
        references = [lines[index] for lines in self._texts.references]
        sentence = _Sentence(
            source,
            references,
            self._kept_names(source, references),
            self._is_negated(source, references),
        )
        return [self._errors(sentence, lines[index]) for lines in self._texts.systems.values()]

    def _kept_names(self, source, references):
        if source is None:
            return []
        names = [
            word
            for word in dict.fromkeys(split_words(source))
            if len(word) > 1 and word[0].isupper() and word.lower() not in self._lower_words
        ]
        return [
            name
            for name in names
            if all(name in split_words(reference) for reference in references)
        ]

    def _is_negated(self, source, references):
        def has(negation: Negation | None, text: str) -> bool:
            return negation is None or negation.find(text) is not None

        if self._target_negation is None:
            return False
        return (source is None or has(self._source_negation, source)) and all(
            has(self._target_negation, reference) for reference in references
        )

    def _errors(self, sentence, output):
        if not output.strip():
            is_right = any(not reference.strip() for reference in sentence.references)
            return [] if is_right else [FoundError(_INDEX["empty"], "")]
        found = {
            **_length_errors(sentence, output),
            "repeated": find_repetition(
                output, [*sentence.references, *([sentence.source] if sentence.source else [])]
            ),
            "untranslated": self._copied(sentence, output),
            **_lost_copies(sentence, output),
            "negation_lost": self._lost_negation(sentence, output),
        }
        return [
            FoundError(_INDEX[name], evidence[:_MAX_EVIDENCE])
            for name, evidence in found.items()
            if evidence is not None
        ]

    def _lost_negation(self, sentence, output):
        if self._target_negation is None or not sentence.is_negated:
            return None
        return "" if self._target_negation.find(output) is None else None

    def _copied(self, sentence, output):
        """Returns words of the source that are no words of the target language, or None."""
        if sentence.source is None:
            return None
        words = set(split_words(sentence.source)) - self._target_words
        copied = [
            word
            for word in dict.fromkeys(split_words(output))
            if word in words
            and (is_unspaced(word) or (len(word) >= _MIN_COPIED and word[0].islower()))
        ]
        return " ".join(copied) if copied else None


class _Sentence:
    """A sentence, and what its translations must keep."""

    def __init__(
        self,
        source: str | None,
        references: Sequence[str],
        names: Sequence[str],
        is_negated: bool,
    ):
        self.source = source
        self.references = references
        self.names = names
        self.is_negated = is_negated
        given = [*references, *([source] if source is not None else [])]
        self.numbers, self.any_number = _common_and_all(_numbers, given)
        self.addresses, _ = _common_and_all(_addresses, given)
        self.is_quoted = all(_QUOTE.search(text) for text in given)


def _common_and_all(find: Callable[[str], dict[str, str]], texts):
    """Returns what all texts have, and what any has."""
    found = [find(text) for text in texts]
    common = [key for key in found[0] if all(key in other for other in found)]
    return common, set().union(*found)


def _numbers(text):
    """Returns the numbers of a text as they are written, by their digits alone."""
    return {
        "".join(str(unicodedata.digit(char)) for char in number if char.isdigit()): number
        for number in _NUMBER.findall(text)
    }


def _addresses(text):
    return {address.rstrip(".,;:!?)]}'\"”’"): address for address in _ADDRESS.findall(text)}


def _length_errors(sentence, output):
    found = {}
    lengths = [len(reference.strip()) for reference in sentence.references]
    length = len(output.strip())
    if (
        length < _CUT_OFF * min(lengths)
        and all(_END.search(reference) for reference in sentence.references)
        and not _END.search(output)
    ):
        found["truncated"] = ""
    ratios = [(length + _MORE_CHARACTERS) / (other + _MORE_CHARACTERS) for other in lengths]
    if max(ratios) < _SHORTEST:
        found["too_short"] = f"{max(ratios):.2f}"
    elif min(ratios) > _LONGEST:
        found["too_long"] = f"{min(ratios):.2f}"
    return found


def _lost_copies(sentence, output):
    """Returns the numbers, names, addresses and quotation marks that are lost, and new numbers."""
    numbers, addresses, words = _numbers(output), _addresses(output), set(split_words(output))
    lost = {
        "number_lost": [number for number in sentence.numbers if number not in numbers],
        "number_added": [
            written for number, written in numbers.items() if number not in sentence.any_number
        ],
        "name_lost": [name for name in sentence.names if name not in words],
        "address_lost": [address for address in sentence.addresses if address not in addresses],
    }
    found = {name: " ".join(items) for name, items in lost.items() if items}
    if sentence.is_quoted and not _ANY_QUOTE.search(output):
        found["quotation_lost"] = ""
    return found


def count_errors(found: Sequence[Sequence[FoundError]]) -> list[int]:
    """Returns the number of sentences with an error of each class.

    Args:
        found: the errors of a system in each sentence.
    """
    counts = collections.Counter(one.error for errors in found for one in errors)
    return [counts[index] for index in range(len(ERROR_CLASSES))]
