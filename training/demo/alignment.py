"""Word alignments of the demonstration corpus, which its templates determine.

They serve as references of the alignment error rate, and to train on.
"""

import re
from collections.abc import Mapping

# Links of the words of each template, for the words that are not a slot. Slots are aligned by their
# names. `0?1` is a possible link, such as that of an article to a noun without one.
_LINKS_OF_TEMPLATES = """
    the {nth_day} | 0-0
    Today is {weekday_date}. | 0-0 1-1
    Today is {weekday}, {day}. | 0-0 1-1
    Today is {name}'s {nth} birthday. | 0-0 1-1 4-4
    {name}'s birthday is the {nth_day}. | 1-1 2-2 3-3
    {person} was born on {date}. | 1-1 2-4 3-2
    {person} moved to {city} in {month}. | 1-1 2-4 4-2
    The letter of {date} arrived on {weekday}. | 0-0 1-1 2-2 4-4 4-7 5-5
    The invoice of {short_date} is paid. | 0-0 1-1 2-2 4-4 5-5
    The holidays last from {day} to {day2}. | 0-0 1-1 2-2 3-3 5-5 5-6
    The meeting is on {weekday_date_dat}. | 0-0 1-1 2-2 3-3
    The meeting on {weekday} begins at {time}. | 0-0 1-1 2-2 4-4 5-5
    The train to {city} leaves at {time}. | 0-0 1-1 2-2 4-4 4-7 5-5
    The course in {city} begins in {period_dat}. | 0-0 1-1 2-2 4-4 5-5
    The museum opens at {time}. | 0-0 1-1 2-2 3-3
    {person} has an appointment at {time}. | 1-1 2-4 3-5 4-2
    Dinner on {day} is at {clock}. | 0?0 0-1 1-2 3-4 4-5
    On {weekday} {person} came home at {clock}. | 0-0 3-2 4-6 4-7 5-4
    {the_good} costs {money}. | 1-1
    Here {many_goods} cost {money}. | 0-0 2-1
    {person} paid {money} for {the_good_acc}. | 1-1 3-3
    {person} owes {name} {money}. | 1-1
    The price changed from {money} to {money2}. | 0-0 1-1 2-2 2-3 3-4 5-6
    The ticket to {city} costs {money}. | 0-0 1-1 2-2 4-4
    In {month} prices rose by {decimal}%. | 0-0 2?3 2-4 3-2 4-5 5-7
    {person} buys {goods_acc} and {goods_acc2}. | 1-1 3-3
    {person} saw {goods_acc} in the garden. | 1-1 3-2 4-2 5-3
    There are {count} children in the garden. | 0?2 1-2 3-4 4-0 5-0 6-1
    {person} stays in {city} for {period_acc}. | 1-1 2-3
    {person} was in {city} {period_dat} ago. | 1-1 2-4 5-2
    {person} has {count} photos. | 1-1 3-3
    {thousands} people live in {city}. | 1-4 2-2 3-0
    {person} took {nth} place. | 1-1 3?2 3-4
    In {city} the office is on the {nth} floor. | 0-0 2-3 3-4 4-2 5-5 6-5 8-7
    It is {decimal} degrees in {city}. | 0-3 1-2 3-5 4-0"""
# Links of the words in slots whose order differs; the others are monotone.
_LINKS_OF_SLOTS = {
    "date": "0-1 1-0 2-2",
    "weekday_date": "0-0 1-3 2-2 3-4",
    "weekday_date_dat": "0-0 1-3 2-2 3-4",
    "day": "0-1 1-0",
    "nth_day": "0-0 2-1",
}
_SLOT = re.compile(r"{(\w+)}")
_LINK = re.compile(r"(\d+)([-?])(\d+)")


def _parsed(text: str) -> list[tuple[int, str, int]]:
    return [(int(source), kind, int(target)) for source, kind, target in _LINK.findall(text)]


TEMPLATE_LINKS = {
    template: _parsed(links)
    for line in _LINKS_OF_TEMPLATES.strip().split("\n")
    for template, links in [map(str.strip, line.split("|"))]
}


def alignment_of(template: tuple[str, ...], drawn: Mapping[str, tuple[str, str]]) -> str:
    """Returns the alignment of a sentence pair in Pharaoh's format.

    Args:
        template: the English and the German template.
        drawn: English and German words of each slot.

    Returns:
        Sure links `i-j` and possible ones `i?j`, separated by spaces. Between several words that
        together mean several others, such as "one hundred and two" and "hundertzwei", all links are
        possible.
    """
    sides = [_units(text, drawn, side) for side, text in enumerate(template[:2])]
    links = set()
    for source, kind, target in TEMPLATE_LINKS.get(template[0], []):
        links |= _all_links(sides[0][source][1], sides[1][target][1], kind)
    for source_slot, source_words in sides[0]:
        for target_slot, target_words in sides[1]:
            if source_slot is not None and source_slot == target_slot:
                links |= _slot_links(source_slot, source_words, target_words)
    return " ".join(f"{i}{kind}{j}" for i, j, kind in sorted(links))


def _units(text, drawn, side) -> list[tuple[str | None, range]]:
    """Returns the slot of each word of a template, or None, and the indices of its words."""
    units, start = [], 0
    for unit in text.split():
        slot = next(iter(_SLOT.findall(unit)), None)
        stop = start + (len(drawn[slot][side].split()) if slot else 1)
        units.append((slot, range(start, stop)))
        start = stop
    return units


def _slot_links(name, source, target) -> set[tuple[int, int, str]]:
    order = _LINKS_OF_SLOTS.get(name.removesuffix("2"))
    if order:
        return {(source[i], target[j], "-") for i, _, j in _parsed(order)}
    if len(source) == len(target):
        return {(i, j, "-") for i, j in zip(source, target, strict=True)}
    if len(source) > len(target) == 2 and name != "clock":  # "one hundred and two pears"
        return {(source[-1], target[-1], "-")} | _all_links(source[:-1], target[:1], "?")
    return _all_links(source, target, "?")


def _all_links(source, target, kind) -> set[tuple[int, int, str]]:
    return {(i, j, kind) for i in source for j in target}
