"""The built-in English-German demonstration corpus: dates, times, money, counts, short sentences.

It is generated from fixed templates. The German is a pure function of the English, so the share of
exact matches measures the quality of a translation model.
"""

import datetime
import functools
import pathlib
import random
import re
from decimal import Decimal

from babel.dates import format_date, format_time
from babel.numbers import format_decimal
from num2words import num2words

from tf_transformer.errors import InputError
from training.demo.alignment import alignment_of

MAX_PAIRS = 100_000  # with more, templates with few slots would be exhausted, and become rare
FIRST_DATE, NUM_DATES = datetime.date(1950, 1, 1), 36_525  # to the end of 2049
Pair = tuple[str, str]  # the same words in English and in German
Rows = tuple[tuple[str, ...], ...]


def _rows(text: str) -> Rows:
    """Parses a table: rows end at ";" or at the end of the line, and "|" separates cells."""
    return tuple(tuple(map(str.strip, row.split("|"))) for row in re.split("[;\n]", text.strip()))


# Nouns: English singular and plural, German singular and plural, gender.
GOODS = _rows("""apple|apples|Apfel|Äpfel|m; pear|pears|Birne|Birnen|f; egg|eggs|Ei|Eier|n
    chair|chairs|Stuhl|Stühle|m; lamp|lamps|Lampe|Lampen|f; book|books|Buch|Bücher|n
    plate|plates|Teller|Teller|m; bottle|bottles|Flasche|Flaschen|f; glass|glasses|Glas|Gläser|n
    dog|dogs|Hund|Hunde|m; cat|cats|Katze|Katzen|f; horse|horses|Pferd|Pferde|n""")
PERIODS = _rows("""day|days|Tag|Tage|m; week|weeks|Woche|Wochen|f; year|years|Jahr|Jahre|n
    month|months|Monat|Monate|m; hour|hours|Stunde|Stunden|f""")
MONEY = _rows("dollar|dollars|Dollar|Dollar|m; euro|euros|Euro|Euro|m; pound|pounds|Pfund|Pfund|n")
ARTICLES = {  # German for "one" and "the", by gender and case
    "m": {"nom": ("ein", "der"), "acc": ("einen", "den"), "dat": ("einem", "dem")},
    "f": {"nom": ("eine", "die"), "acc": ("eine", "die"), "dat": ("einer", "der")},
    "n": {"nom": ("ein", "das"), "acc": ("ein", "das"), "dat": ("einem", "dem")},
}
NAMES = _rows("Anna|Anna; Paul|Paul; Maria|Maria; Peter|Peter; Julia|Julia; Jan|Jan; Laura|Laura")
PERSONS = NAMES + _rows("he|er; she|sie; my brother|mein Bruder; my sister|meine Schwester")
CITIES = _rows("Berlin|Berlin; Hamburg|Hamburg; Munich|München; Cologne|Köln; Vienna|Wien")
CLOCK = _rows("""{this} o'clock|{this} Uhr; half past {this}|halb {next}
    a quarter past {this}|Viertel nach {this}; a quarter to {next}|Viertel vor {next}""")
# {slot2} is a second draw, different from {slot}; _acc and _dat give the German case.
TEMPLATES = _rows("""
    {date}|{date}; {short_date}|{short_date}; {weekday}, {day}|{weekday}, {day}; {time}|{time}
    {clock}|{clock}; {money}|{money}; {goods}|{goods}; {count}|{count}; the {nth_day}|der {nth_day}
    Today is {weekday_date}. | Heute ist {weekday_date}.
    Today is {weekday}, {day}. | Heute ist {weekday}, der {day}.
    Today is {name}'s {nth} birthday. | Heute ist {name}s {nth}r Geburtstag.
    {name}'s birthday is the {nth_day}. | {name}s Geburtstag ist der {nth_day}.
    {person} was born on {date}. | {person} wurde am {date} geboren.
    {person} moved to {city} in {month}. | {person} zog im {month} nach {city}.
    The letter of {date} arrived on {weekday}. | Der Brief vom {date} kam am {weekday} an.
    The invoice of {short_date} is paid. | Die Rechnung vom {short_date} ist bezahlt.
    The holidays last from {day} to {day2}. | Die Ferien dauern vom {day} bis zum {day2}.
    The meeting is on {weekday_date_dat}. | Die Besprechung ist am {weekday_date_dat}.
    The meeting on {weekday} begins at {time}. | Die Besprechung am {weekday} beginnt um {time}.
    The train to {city} leaves at {time}. | Der Zug nach {city} fährt um {time} ab.
    The course in {city} begins in {period_dat}. | Der Kurs in {city} beginnt in {period_dat}.
    The museum opens at {time}. | Das Museum öffnet um {time}.
    {person} has an appointment at {time}. | {person} hat um {time} einen Termin.
    Dinner on {day} is at {clock}. | Das Abendessen am {day} ist um {clock}.
    On {weekday} {person} came home at {clock}. | Am {weekday} kam {person} um {clock} nach Hause.
    {the_good} costs {money}. | {the_good} kostet {money}.
    Here {many_goods} cost {money}. | Hier kosten {many_goods} {money}.
    {person} paid {money} for {the_good_acc}. | {person} bezahlte {money} für {the_good_acc}.
    {person} owes {name} {money}. | {person} schuldet {name} {money}.
    The price changed from {money} to {money2}. | Der Preis änderte sich von {money} auf {money2}.
    The ticket to {city} costs {money}. | Die Fahrkarte nach {city} kostet {money}.
    In {month} prices rose by {decimal}%. | Im {month} stiegen die Preise um {decimal} %.
    {person} buys {goods_acc} and {goods_acc2}. | {person} kauft {goods_acc} und {goods_acc2}.
    {person} saw {goods_acc} in the garden. | {person} sah im Garten {goods_acc}.
    There are {count} children in the garden. | Im Garten sind {count} Kinder.
    {person} stays in {city} for {period_acc}. | {person} bleibt {period_acc} in {city}.
    {person} was in {city} {period_dat} ago. | {person} war vor {period_dat} in {city}.
    {person} has {count} photos. | {person} hat {count} Fotos.
    {thousands} people live in {city}. | In {city} leben {thousands} Menschen.
    {person} took {nth} place. | {person} belegte den {nth}n Platz.
    In {city} the office is on the {nth} floor. | In {city} ist das Büro im {nth}n Stock.
    It is {decimal} degrees in {city}. | In {city} sind es {decimal} Grad.""")


@functools.cache
def _words(number: int, kind: str = "cardinal") -> Pair:
    """Spells out a number; `kind` is "cardinal" or "ordinal" (German "dritte")."""
    return num2words(number, lang="en", to=kind), num2words(number, lang="de", to=kind)


def _count(rng: random.Random, low: int, high: int) -> int:
    """Draws from `[low, high]`, often a small number; never 101, 201, ... ("hundertein(s)")."""
    count = rng.randint(low, min(high, rng.choice((3, 20, 99, high))))
    return count + 1 if count > 100 and count % 100 == 1 else count


def _things(rng: random.Random, nouns: Rows, case: str, low: int = 1, high: int = 999) -> Pair:
    """Draws "one pear", "23 pears" or "twenty-three pears"."""
    singular, plural, german, german_plural, gender = rng.choice(nouns)
    count = _count(rng, low, high)
    if count == 1:
        return f"one {singular}", f"{ARTICLES[gender][case][0]} {german}"
    if case == "dat" and not german_plural.endswith("n"):
        german_plural += "n"
    english_count, german_count = rng.choice((_words(count), (str(count), str(count))))
    return f"{english_count} {plural}", f"{german_count} {german_plural}"


def _the(rng: random.Random, nouns: Rows, case: str) -> Pair:
    singular, _, german, _, gender = rng.choice(nouns)
    return f"the {singular}", f"{ARTICLES[gender][case][1]} {german}"


def _date(rng: random.Random, english: str, german: str) -> Pair:
    """Draws a date, with its true weekday, and writes it in two Unicode date patterns."""
    date = FIRST_DATE + datetime.timedelta(days=rng.randrange(NUM_DATES))
    return format_date(date, english, locale="en"), format_date(date, german, locale="de")


def _nth_day(rng: random.Random) -> Pair:
    """Draws "third of May" and "dritte Mai"."""
    english, german = (text.split() for text in _date(rng, "d MMMM", "d MMMM"))
    english_nth, german_nth = _words(int(english[0]), "ordinal")
    return f"{english_nth} of {english[1]}", f"{german_nth} {german[1]}"


def _time(rng: random.Random) -> Pair:
    """Draws "2:35 p.m." and "14:35 Uhr", or "2 p.m." and "14 Uhr"."""
    time, pattern = datetime.time(rng.randrange(24), rng.randrange(60)), rng.choice(("h:mm", "h"))
    english = format_time(time, pattern, locale="en") + (" a.m." if time.hour < 12 else " p.m.")
    return english, format_time(time, pattern.replace("h", "H"), locale="de") + " Uhr"


def _clock(rng: random.Random) -> Pair:
    """Draws "half past two" and "halb drei"."""
    hour, (english, german) = rng.randint(1, 12), rng.choice(CLOCK)
    this, following = _words(hour), _words(hour % 12 + 1)
    german = german.format(this=this[1], next=following[1]).replace("eins Uhr", "ein Uhr")
    return english.format(this=this[0], next=following[0]), german


def _decimal(rng: random.Random, low: int, high: int, english: str, german: str) -> Pair:
    """Draws hundredths in `[low, high]` and writes them in two Unicode number patterns."""
    number = Decimal(rng.randint(low, high)) / 100
    return format_decimal(number, english, locale="en"), format_decimal(number, german, locale="de")


def _money(rng: random.Random) -> Pair:
    """Draws "$1,234.50", "$1,234", "234 dollars" or "twelve dollars", in three currencies."""
    if rng.random() < 0.4:
        return _things(rng, MONEY, "nom", low=2)
    sign, digits = rng.choice("$€£"), rng.choice(("#,##0", "#,##0.00"))
    return _decimal(rng, 100, 10 ** rng.randint(3, 6) - 1, f"{sign}{digits}", f"{digits} {sign}")


SLOTS = {
    "name": lambda rng: rng.choice(NAMES),
    "person": lambda rng: rng.choice(PERSONS),
    "city": lambda rng: rng.choice(CITIES),
    "count": lambda rng: _words(_count(rng, 2, 999)),
    "nth": lambda rng: _words(_count(rng, 1, 31), "ordinal"),
    "decimal": lambda rng: _decimal(rng, 200, 3999, "0.#", "0.#"),
    "thousands": lambda rng: _decimal(rng, 100_000, 9_999_999, "#,##0", "#,##0"),
    "the_good": lambda rng: _the(rng, GOODS, "nom"),
    "the_good_acc": lambda rng: _the(rng, GOODS, "acc"),
    "goods": lambda rng: _things(rng, GOODS, "nom"),
    "goods_acc": lambda rng: _things(rng, GOODS, "acc"),
    "many_goods": lambda rng: _things(rng, GOODS, "nom", low=2),
    "period_acc": lambda rng: _things(rng, PERIODS, "acc", high=99),
    "period_dat": lambda rng: _things(rng, PERIODS, "dat", high=99),
    "date": lambda rng: _date(rng, "MMMM d, y", "d. MMMM y"),
    "short_date": lambda rng: _date(rng, "M/d/y", "dd.MM.y"),
    "weekday_date": lambda rng: _date(rng, "EEEE, MMMM d, y", "EEEE, 'der' d. MMMM y"),
    "weekday_date_dat": lambda rng: _date(rng, "EEEE, MMMM d, y", "EEEE, 'dem' d. MMMM y"),
    "nth_day": _nth_day,
    "weekday": lambda rng: _date(rng, "EEEE", "EEEE"),
    "day": lambda rng: _date(rng, "MMMM d", "d. MMMM"),
    "month": lambda rng: _date(rng, "MMMM y", "MMMM y"),
    "time": _time,
    "clock": _clock,
    "money": _money,
}


def _draw_pair(rng: random.Random) -> tuple[str, tuple]:
    """Draws a template and fills its slots, each with different words.

    Returns:
        The English, and the German with the arguments of `alignment_of`.
    """
    template = rng.choice(TEMPLATES)
    names = re.findall(r"{(\w+)}", template[0])
    drawn = {name: SLOTS[name.removesuffix("2")](rng) for name in names}
    if len(set(drawn.values())) < len(drawn):
        return _draw_pair(rng)
    english = template[0].format(**{name: words[0] for name, words in drawn.items()})
    german = template[1].format(**{name: words[1] for name, words in drawn.items()})
    if template[0].endswith("."):
        english, german = english[0].upper() + english[1:], german[0].upper() + german[1:]
    return english.replace("m..", "m."), (german, template, drawn)


def generate_pairs(num_pairs: int, seed: int) -> list[Pair]:
    """Draws sentences with their translations.

    Args:
        num_pairs: number of pairs, from 1 to `MAX_PAIRS`.
        seed: random seed; the same seed gives the same pairs in the same order.

    Returns:
        `num_pairs` pairs `(english, german)` with distinct English sentences.

    Raises:
        InputError: `num_pairs` is out of range.
    """
    return [(english, german) for english, (german, *_) in _draw_pairs(num_pairs, seed)]


def generate_aligned_pairs(num_pairs: int, seed: int) -> list[tuple[str, str, str]]:
    """Draws the pairs of `generate_pairs`, each with its word alignment, see `alignment_of`.

    Args:
        num_pairs: see `generate_pairs`.
        seed: see `generate_pairs`.

    Raises:
        InputError: as `generate_pairs`.
    """
    return [
        (english, german, alignment_of(template, drawn))
        for english, (german, template, drawn) in _draw_pairs(num_pairs, seed)
    ]


def _draw_pairs(num_pairs, seed):
    """Returns distinct results of `_draw_pair`."""
    if not 1 <= num_pairs <= MAX_PAIRS:
        raise InputError(f"expected 1 <= `num_pairs` <= {MAX_PAIRS}. Received: {num_pairs=}")
    rng = random.Random(seed)
    pairs: dict[str, tuple] = {}
    while len(pairs) < num_pairs:
        pairs.update([_draw_pair(rng)])
    # Templates with few slots are exhausted, so late draws differ from early ones: shuffle them.
    return rng.sample(list(pairs.items()), num_pairs)


def write_demonstration(
    directory: pathlib.Path,
    num_train: int = 20_000,
    num_validation: int = 500,
    num_test: int = 500,
    seed: int = 1,
) -> None:
    """Writes train, validation and test sets without duplicates.

    Each is written as `.en` and `.de`, and its word alignments as `.align`, in Pharaoh's format.

    Args:
        directory: output folder, which is made if needed. Files are UTF-8, one sentence per line.
        num_train: number of pairs in the training set, at least 1.
        num_validation: number of pairs in the validation set, at least 1.
        num_test: number of pairs in the test set, at least 1.
        seed: see `generate_pairs`.

    Raises:
        InputError: a set would be empty, or all together exceed `MAX_PAIRS`.
    """
    sizes = {"train": num_train, "validation": num_validation, "test": num_test}
    if min(sizes.values()) < 1:
        raise InputError(f"expected at least 1 sentence in each set. Received: {sizes}")
    pairs = generate_aligned_pairs(sum(sizes.values()), seed)
    directory.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        for part, suffix in enumerate(("en", "de", "align")):
            text = "".join(f"{pair[part]}\n" for pair in pairs[:size])
            (directory / f"{name}.{suffix}").write_text(text, encoding="utf-8", newline="\n")
        pairs = pairs[size:]
