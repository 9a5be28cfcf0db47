"""The demonstration corpus: right German, one German for each English, disjoint sets."""

import datetime
import re
import unicodedata

import pytest

from training.demo.corpus import MAX_PAIRS, generate_pairs, write_demonstration

MONTHS = {
    "January": "Januar",
    "February": "Februar",
    "March": "März",
    "April": "April",
    "May": "Mai",
    "June": "Juni",
    "July": "Juli",
    "August": "August",
    "September": "September",
    "October": "Oktober",
    "November": "November",
    "December": "Dezember",
}
WEEKDAYS = {
    "Monday": "Montag",
    "Tuesday": "Dienstag",
    "Wednesday": "Mittwoch",
    "Thursday": "Donnerstag",
    "Friday": "Freitag",
    "Saturday": "Samstag",
    "Sunday": "Sonntag",
}
# Checked by hand: gender, case, plural, ordinal endings, and the hours that do not map literally.
# First sentences that every large sample has, then patterns, for those that are too many.
GOLDEN = {
    "one apple": "ein Apfel",
    "one pear": "eine Birne",
    "one glass": "ein Glas",
    "two apples": "zwei Äpfel",
    "twenty-three": "dreiundzwanzig",
    "half past two": "halb drei",
    "half past twelve": "halb eins",
    "one o'clock": "ein Uhr",
    "a quarter to one": "Viertel vor eins",
    "a quarter past one": "Viertel nach eins",
    "12 a.m.": "0 Uhr",
    "12 p.m.": "12 Uhr",
    "3 p.m.": "15 Uhr",
    "the third of May": "der dritte Mai",
    "the thirty-first of December": "der einunddreißigste Dezember",
    "In Cologne the office is on the third floor.": "In Köln ist das Büro im dritten Stock.",
    "There are two children in the garden.": "Im Garten sind zwei Kinder.",
    "The museum opens at 10 a.m.": "Das Museum öffnet um 10 Uhr.",
    "It is 2 degrees in Vienna.": "In Wien sind es 2 Grad.",
}
NAME = "(Anna|Paul|Maria|Peter|Julia|Jan|Laura)"
CITY = "(Berlin|Hamburg)"
GOLDEN_PATTERNS = {
    r"(\d+) pounds": r"\1 Pfund",
    r"Monday, April (\d+)": r"Montag, \1. April",
    r"Today is Monday, March (\d+)\.": r"Heute ist Montag, der \1. März.",
    r"Today is Friday, May (\d+), (\d+)\.": r"Heute ist Freitag, der \1. Mai \2.",
    r"The meeting is on Monday, March (\d+), (\d+)\.": (
        r"Die Besprechung ist am Montag, dem \1. März \2."
    ),
    r"The letter of May (\d+), (\d+) arrived on Friday\.": (
        r"Der Brief vom \1. Mai \2 kam am Freitag an."
    ),
    r"The holidays last from July (\d+) to May (\d+)\.": (
        r"Die Ferien dauern vom \1. Juli bis zum \2. Mai."
    ),
    rf"Today is {NAME}'s seventh birthday\.": r"Heute ist \1s siebter Geburtstag.",
    rf"{NAME}'s birthday is the eighth of August\.": r"\1s Geburtstag ist der achte August.",
    rf"{NAME} was born on March (\d+), (\d+)\.": r"\1 wurde am \2. März \3 geboren.",
    rf"{NAME} moved to Cologne in May (\d+)\.": r"\1 zog im Mai \2 nach Köln.",
    rf"{NAME} was in {CITY} one week ago\.": r"\1 war vor einer Woche in \2.",
    rf"{NAME} was in {CITY} one day ago\.": r"\1 war vor einem Tag in \2.",
    rf"The course in {CITY} begins in (\d+) years\.": r"Der Kurs in \1 beginnt in \2 Jahren.",
    rf"The course in {CITY} begins in (\d+) weeks\.": r"Der Kurs in \1 beginnt in \2 Wochen.",
    rf"{NAME} stays in {CITY} for one month\.": r"\1 bleibt einen Monat in \2.",
    rf"{NAME} stays in {CITY} for (\d+) days\.": r"\1 bleibt \3 Tage in \2.",
    rf"The train to {CITY} leaves at (\d+):35 a\.m\.": r"Der Zug nach \1 fährt um \2:35 Uhr ab.",
    rf"On Friday {NAME} came home at half past six\.": (
        r"Am Freitag kam \1 um halb sieben nach Hause."
    ),
    rf"{NAME} has an appointment at 1 p\.m\.": r"\1 hat um 13 Uhr einen Termin.",
    r"The chair costs (\d+) dollars\.": r"Der Stuhl kostet \1 Dollar.",
    rf"{NAME} paid (\d+) euros for the chair\.": r"\1 bezahlte \2 Euro für den Stuhl.",
    rf"{NAME} paid (\d+) euros for the pear\.": r"\1 bezahlte \2 Euro für die Birne.",
    rf"{NAME} owes {NAME} (\d+) pounds\.": r"\1 schuldet \2 \3 Pfund.",
    rf"{NAME} buys (\d+) pears and one chair\.": r"\1 kauft \2 Birnen und einen Stuhl.",
    rf"{NAME} saw one dog in the garden\.": r"\1 sah im Garten einen Hund.",
    rf"{NAME} took first place\.": r"\1 belegte den ersten Platz.",
    rf"It is (\d+)\.(\d) degrees in {CITY}\.": r"In \3 sind es \1,\2 Grad.",
    r"In May (\d+) prices rose by (\d+)\.(\d)%\.": r"Im Mai \1 stiegen die Preise um \2,\3 %.",
}


@pytest.fixture(scope="module")
def translations():
    """A large sample, from several seeds, as `{english: german}`; no English with two Germans."""
    known = {}
    for seed in range(4):
        for english, german in generate_pairs(40_000, seed):
            assert known.setdefault(english, german) == german
    return known


@pytest.mark.slow
@pytest.mark.parametrize(("english", "german"), GOLDEN.items())
def test_german_is_right(translations, english, german):
    assert translations[english] == german


@pytest.mark.slow
@pytest.mark.parametrize(("english", "german"), GOLDEN_PATTERNS.items())
def test_german_is_right_throughout(translations, english, german):
    matches = [match for text in translations if (match := re.fullmatch(english, text))]
    assert matches
    for match in matches:
        assert translations[match.string] == match.expand(german)


@pytest.mark.slow
def test_full_dates(translations):
    """Checked against the tables above; where there is a weekday, it is the true one."""
    pattern = rf"(?:({'|'.join(WEEKDAYS)}), )?({'|'.join(MONTHS)}) (\d+), (\d{{4}})"
    found = 0
    for english, german in translations.items():
        for weekday, month, day, year in re.findall(pattern, english):
            found += 1
            assert f"{day}. {MONTHS[month]} {year}" in german
            if weekday:
                date = datetime.date(int(year), list(MONTHS).index(month) + 1, int(day))
                assert list(WEEKDAYS)[date.weekday()] == weekday
                assert WEEKDAYS[weekday] in german
    assert found > 10_000


@pytest.mark.slow
def test_dates_in_digits(translations):
    found = 0
    for english, german in translations.items():
        for month, day, year in re.findall(r"(\d+)/(\d+)/(\d{4})", english):
            found += 1
            assert f"{int(day):02}.{int(month):02}.{year}" in german
    assert found > 1_000


@pytest.mark.slow
def test_times(translations):
    found = 0
    for english, german in translations.items():
        for hour, minutes, half in re.findall(r"(\d+)(:\d\d)? ([ap])\.m\.", english):
            found += 1
            assert f"{int(hour) % 12 + 12 * (half == 'p')}{minutes} Uhr" in german
    assert found > 5_000


@pytest.mark.slow
def test_amounts(translations):
    found = 0
    for english, german in translations.items():
        for sign, digits in re.findall(r"([$€£])(\d[\d,]*(?:\.\d\d)?)", english):
            found += 1
            assert f"{digits.translate(str.maketrans('.,', ',.'))} {sign}" in german
    assert found > 10_000


@pytest.mark.slow
def test_lines_are_plain(translations):
    """No tab, no line end, no space but " " and only composed characters."""
    for text in (*translations, *translations.values()):
        assert text == " ".join(text.split()) == unicodedata.normalize("NFC", text)
        assert 1 <= len(text.split()) <= 16
        assert not re.search(r"[{}|;]|\.\.", text)


def test_same_seed_same_pairs():
    assert generate_pairs(500, seed=3) == generate_pairs(500, seed=3)
    assert generate_pairs(500, seed=3) != generate_pairs(500, seed=4)


@pytest.mark.slow
def test_english_is_distinct():
    pairs = generate_pairs(10_000, seed=1)
    assert len(pairs) == len({english for english, _ in pairs}) == 10_000


@pytest.mark.parametrize("num_pairs", [-1, 0, MAX_PAIRS + 1])
def test_num_pairs_out_of_range(num_pairs):
    message = f"expected 1 <= `num_pairs` <= {MAX_PAIRS}. Received: num_pairs={num_pairs}"
    with pytest.raises(ValueError, match=re.escape(message)):
        generate_pairs(num_pairs, seed=1)


def test_files_are_parallel_and_disjoint(tmp_path):
    sizes = {"train": 300, "validation": 20, "test": 30}
    write_demonstration(tmp_path / "new", 300, 20, 30, seed=5)
    seen, known = [], dict(generate_pairs(350, seed=5))
    for name, size in sizes.items():
        english, german = (
            (tmp_path / "new" / f"{name}.{language}").read_bytes().decode("utf-8")
            for language in ("en", "de")
        )
        assert english[-1] == german[-1] == "\n"
        assert "\r" not in english + german
        english, german = english.splitlines(), german.splitlines()
        assert len(english) == len(german) == size
        assert [known[line] for line in english] == german
        seen += english
    assert len(set(seen)) == 350
    assert len(list((tmp_path / "new").iterdir())) == 9


def test_empty_set_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected at least 1 sentence.*Received.*'test': 0"):
        write_demonstration(tmp_path, num_test=0)
    assert not list(tmp_path.iterdir())
