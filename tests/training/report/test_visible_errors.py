"""Each class of error in a sentence that has it, and in one that has not."""

import pytest

from training.report.compared_texts import ComparedTexts
from training.report.visible_errors.error_finder import ERROR_CLASSES, ErrorFinder, count_errors
from training.report.visible_errors.negation import LANGUAGES, Negation
from training.report.visible_errors.repetition import find_repetition
from training.report.words import split_words

SOURCE = 'On 3 May, Anna Smith did not write "hello" to 1,000 people at a@b.org again.'
REFERENCE = "Am 3. Mai schrieb Anna Smith nicht „hallo“ an 1.000 Leute bei a@b.org."
GOOD = "Anna Smith schrieb am 3. Mai nicht an 1000 Leute bei a@b.org: «hallo»."


def _find(output, source=SOURCE, references=(REFERENCE,), languages=("en", "de")):
    texts = ComparedTexts(
        source=None if source is None else [source],
        references=[[reference] for reference in references],
        systems={"system": [output]},
    )
    finder = ErrorFinder(texts, *languages)
    (found,) = finder.find(0)
    return {ERROR_CLASSES[one.error].name: one.evidence for one in found}


def test_a_good_translation_has_none():
    assert _find(GOOD) == _find(REFERENCE) == {}
    assert _find(GOOD, source=None) == {}


@pytest.mark.parametrize(
    ("error", "evidence", "output"),
    [
        ("empty", "", " "),
        ("truncated", "", GOOD.replace("schrieb am ", "").replace("Leute bei ", "")[:-1]),
        ("too_long", "1.71", GOOD + " Und das war noch lange nicht alles, was die Frau so tat."),
        ("number_lost", "1000", GOOD.replace("1000", "tausend")),
        ("number_added", "2,5", GOOD.replace("Leute", "Leute und 2,5")),
        ("name_lost", "Smith", GOOD.replace("Smith", "Schmidt")),
        ("address_lost", "a@b.org", GOOD.replace("a@b.org", "b.org")),
        ("negation_lost", "", GOOD.replace("nicht ", "")),
        ("quotation_lost", "", GOOD.replace("«", "").replace("»", "")),
        ("untranslated", "people again", GOOD.replace("Leute", "people again")),
        ("repeated", "an 1000 leute", GOOD.replace("bei", "an 1000 Leute")),
    ],
)
def test_an_error_is_found(error, evidence, output):
    assert _find(output) == {error: evidence}


def test_too_short():
    assert _find(
        "Anna Smith.", source=None, references=["Anna Smith ist eine sehr nette Frau."]
    ) == {"too_short": "0.46"}


def test_what_one_reference_has_not_kept_may_be_lost():
    free = "Anfang Mai hat die Frau keinem „hallo“ gesagt, das steht fest, so viel ist sicher."
    assert _find("Im Mai schrieb sie niemandem einen Brief mit den Worten ‚hallo‘ darin.",
                 references=(REFERENCE, free)) == {}  # fmt: skip


def test_words_that_also_are_in_lower_case_are_no_names():
    found = _find("Er war da", source="Was there", references=["Was war da"])
    assert found == {"name_lost": "Was"}
    found = _find("Er war da", source="Was there what was", references=["Was war da"])
    assert "name_lost" not in found


def test_what_is_needed_for_a_class():
    texts = ComparedTexts(source=None, references=[["a"]], systems={"system": ["a"]})
    absent = {error.name: ErrorFinder(texts).absent(error) for error in ERROR_CLASSES}
    assert {name for name, reason in absent.items() if reason} == {
        *("untranslated", "name_lost", "negation_lost")
    }
    for target, is_known in (("de", True), ("de-AT", True), ("tlh", False)):
        reason = ErrorFinder(texts, None, target).absent(
            next(error for error in ERROR_CLASSES if error.name == "negation_lost")
        )
        assert (reason is None) == is_known
    assert "needs the languages" in absent["negation_lost"]


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("so so gut", "gut", "so"),
        ("so, so gut", "sehr sehr gut", None),
        ("auf der Wiese auf der Wiese", "gut", "auf der wiese"),
        ("in der Stadt und auf dem Land sowie in der Stadt und", "gut", "in der stadt und"),
        ("in der Stadt und in der Stadt", "gut", None),
        ("妈妈好", "好", None),
        ("好好好好", "好", "好"),
        ("我不知道我不知道", "好", "我 不 知 道"),
        ("", "gut", None),
    ],
)
def test_repetitions(text, other, expected):
    assert find_repetition(text, [other]) == expected


@pytest.mark.parametrize(
    ("language", "negated", "plain"),
    [
        ("de", "Das ist keine Frage.", "Das ist eine Kneipe."),
        ("en", "She doesn’t know.", "She knows a knot."),
        ("es", "Nadie viene.", "Viene la nota."),
        ("fr", "Il n'est pas là.", "Il est là, nez rouge."),
        ("it", "Non lo so.", "Lo so, nonna."),
        ("ja", "知らない。", "少ない水。"),
        ("nl", "Er is geen tijd.", "Er is een algemene tijd."),
        ("pl", "Nigdy tam.", "Niebo tam."),
        ("pt", "Não sei.", "Sei o nome."),
        ("ru", "Я не знаю.", "Я знаю небо."),
        ("sv", "Jag vet inte.", "Jag vet."),
        ("uk", "Я не знаю.", "Я знаю небо."),
        ("zh", "我不知道。", "非常好，不过我知道。"),
    ],
)
def test_negation(language, negated, plain):
    assert Negation(language).find(negated)
    assert Negation(language).find(plain) is None


def test_every_language_has_a_case():
    (mark,) = (mark for mark in test_negation.pytestmark if mark.name == "parametrize")
    assert sorted(case[0] for case in mark.args[1]) == list(LANGUAGES)


def test_words():
    text = "Don't pay 1,000.50 € to O’Neil-Smith, हिन्दी में 今天abc。 x Cafe\u0301"
    assert split_words(text) == (
        *("Don't", "pay", "1,000.50", "to", "O’Neil-Smith", "हिन्दी", "में", "今", "天", "abc", "x"),
        "Cafe\u0301",
    )


@pytest.mark.parametrize("text", ["x" * 200_000, "a@b." * 20_000, "1 111 " * 10_000, "'" * 50_000])
def test_long_lines(text):
    """The regular expressions are linear: quadratic ones would not end here."""
    assert "too_long" in _find(text, source=text, references=("a.",))


def test_counts():
    texts = ComparedTexts(source=None, references=[["a b", "c 2"]], systems={"system": ["", "c"]})
    finder = ErrorFinder(texts)
    counts = count_errors([finder.find(index)[0] for index in range(2)])
    found = {error.name: n for error, n in zip(ERROR_CLASSES, counts, strict=True) if n}
    assert found == {"empty": 1, "number_lost": 1}
