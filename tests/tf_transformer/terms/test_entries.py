"""Entries and protected spans, found by TensorFlow's operations, against plain Python."""

import argparse
import re
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import InputError
from tf_transformer.terms.entries import applicable_phrases, parse_entries
from tf_transformer.terms.glossary import MAX_TERMS, Glossary, protection
from tf_transformer.terms.limits import MAX_ENTRIES, MAX_PHRASE_BYTES, SPAN_BITS
from tf_transformer.terms.spans import find_spans, has_lettered_span, is_translatable
from tf_transformer.text.word_characters import PieceTables, is_word_character

STRINGS, INTEGERS = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32)


@tf.function(input_signature=[STRINGS, STRINGS])
def apply_terms(terms, texts):
    entries = parse_entries(terms)
    return applicable_phrases(entries, texts), entries.num_ignored


find_all = tf.function(find_spans, input_signature=[STRINGS, INTEGERS])


def applied(terms, texts):
    """The target phrases of each row, and how many entries were ignored."""
    found, num_ignored = apply_terms(tf.constant(terms), tf.constant(texts))
    phrases = [[phrase.decode() for phrase in row] for row in found.to_list()]
    return phrases, num_ignored.numpy().tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        ("bank\tUfer", "The bank.", ["Ufer"]),
        ("bank\tUfer", "The bankers.", []),
        ("bank\tUfer", "The Bank.", []),
        ("New York\tNY", "in New \u00a0 York!", ["NY"]),
        ("New York\tNY", "a new York", []),
        ("\timmer", "anything", ["immer"]),
        ("  \t immer  da ", "anything", ["immer da"]),
        ("机器\tmachine", "我们使用机器翻译", ["machine"]),
        ("器机\tmachine", "我们使用机器翻译", []),
        ("C++\tC++", "in C++.", ["C++"]),
        ("in C\tx", "in C++.", ["x"]),
        ("a b\tx\nb c\ty\nc d\tz", "a b c", ["x", "y"]),
        ("é\tx", "caf\u00e9 \u00e9", ["x"]),
        ("Caf\u00e9\tx", "Cafe\u0301 zwei", ["x"]),
        ("caf\tx", "caf\u0301 caf\u0301", []),
        ("שלום\tshalom", "\u202bשלום\u202c", ["shalom"]),
        ("a\tx", "b\u200ba\u200bb", ["x"]),
        ("", "anything", []),
        ("\n\r\n \n", "anything", []),
    ],
)
def test_entries_that_apply(terms, text, expected):
    assert applied([terms], [text]) == ([expected], [0])


@pytest.mark.parametrize(
    ("terms", "num_ignored", "expected"),
    [
        ("no tab", 1, []),
        ("a\tb\tc", 1, []),
        ("a\t\nb\tx", 1, ["x"]),
        ("a\t" + "x" * (MAX_PHRASE_BYTES + 1), 1, []),
        ("x" * (MAX_PHRASE_BYTES + 1) + "\tx", 1, []),
        ("a\t" + "x" * MAX_PHRASE_BYTES, 0, ["x" * MAX_PHRASE_BYTES]),
        (b"a\t\xff\nb\tx", 0, ["\ufffd", "x"]),
    ],
)
def test_entries_that_are_ignored_are_counted(terms, num_ignored, expected):
    assert applied([terms], ["a b"]) == ([expected], [num_ignored])


def test_ten_thousand_entries_beside_others():
    many = "\n".join(f"\t{number}" for number in range(10_000))
    phrases, ignored = applied([many, "", "b\tx"], ["a", "a", "b"])
    assert phrases == [[str(number) for number in range(MAX_ENTRIES)], [], ["x"]]
    assert ignored == [10_000 - MAX_ENTRIES, 0, 0]


def words(text):
    """The words of a text, character by character."""
    found, previous = [], False
    for character in text:
        if character.isspace():
            previous = False
            continue
        is_word = is_word_character(character)
        if is_word and previous:
            found[-1] += character
        else:
            found.append(character)
        previous = is_word
    return found


def occurs(phrase, text):
    phrase, text = words(phrase), words(text)
    starts = range(len(text) - len(phrase) + 1)
    return any(text[start : start + len(phrase)] == phrase for start in starts)


ALPHABET = "ab \u00a0.机の\u200bé1\u0301ก\U0001f600"
TEXT = st.text(ALPHABET, max_size=12)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.lists(TEXT, max_size=4), TEXT), min_size=1, max_size=4))
def test_entries_apply_as_plain_python_says(rows):
    """Also: the entries that a `Glossary` chooses are all that apply."""
    terms = ["\n".join(f"{source}\t{n}" for n, source in enumerate(row)) for row, _ in rows]
    phrases, _ = applied(terms, [text for _, text in rows])
    for (sources, text), found in zip(rows, phrases, strict=True):
        expected = [str(n) for n, source in enumerate(sources) if occurs(source, text)]
        assert found == expected
        glossary = Glossary([(source, str(n)) for n, source in enumerate(sources)])
        chosen = {line.partition("\t")[2] for line in glossary.entries_for(text).split("\n")}
        assert set(expected) <= chosen


def test_pieces_that_continue_numbers_and_addresses():
    pieces = ["<unk>", "▁5", "5", ".", ".5", "://", "▁.", "(", "a.", "机", "<0x2F>"]
    tables = PieceTables.of(argparse.Namespace(word_separators="", texts=pieces))
    true = [[piece for piece, is_true in zip(pieces, x, strict=True) if is_true] for x in tables]
    ends_in_word, ends_joined, continues, is_connector = true
    assert ends_in_word == ["▁5", "5", ".5"]
    assert ends_joined == ["▁5", "5", ".", ".5", "://", "▁.", "a.", "<0x2F>"]
    assert continues == ["5", ".5", "a."]
    assert is_connector == [".", "://", "<0x2F>"]


def test_letters_of_scripts_that_separate_words():
    for character in "aZ9éßж١שﬁ한":
        assert is_word_character(character), character
    for character in " .機のカก\u2581\ufffd\u200b_{":
        assert not is_word_character(character), unicodedata.name(character)


def spans(text, *kinds):
    found = find_all(tf.constant([text]), tf.constant([protection(kinds)]))
    return [span.decode() for span in found.to_list()[0]]


URLS = [
    ("see https://a.b/c?d=1&e=%20f#g.", ["https://a.b/c?d=1&e=%20f#g"]),
    ("(http://a.b/c), www.d.e!", ["http://a.b/c", "www.d.e"]),
    ("HTTP://A.B and ftp://x", ["HTTP://A.B", "ftp://x"]),
    ("http:// and www.", []),
    (
        "看https://a.b/c。谢谢 https://a.b/d看，“https://e.f”。",
        ["https://a.b/c", "https://a.b/d", "https://e.f"],
    ),
    (
        "http://a.b/c_(d)_(e)/[f], (https://a.b/c?d=(e)).",
        ["http://a.b/c_(d)_(e)/[f]", "https://a.b/c?d=(e)"],
    ),
    ("(see http://a.b) http://c.d/e(f", ["http://a.b", "http://c.d/e"]),
    ('<a href="https://a.b/é">«ftp://c.d»', ["https://a.b/é", "ftp://c.d"]),
]
EMAILS = [
    ("Write to a.b+c@d-e.org.", ["a.b+c@d-e.org"]),
    ("x@y and @z.org", []),
    ("o'brien@x.de and 'joe@x.de'", ["o'brien@x.de", "joe@x.de"]),
    ("a@b.co.uk,c@d.de", ["a@b.co.uk", "c@d.de"]),
    ("müller@b.de 写信给a@b.de吧", ["müller@b.de", "a@b.de"]),
]
PLACEHOLDERS = [
    ("Hi {name}, {} and {0}", ["{name}", "{}", "{0}"]),
    ("{{ user }} {{x}} ${home}", ["{{ user }}", "{{x}}", "${home}"]),
    ("%s of %d, %(name)s, %5.2f, %1$s", ["%s", "%d", "%(name)s", "%5.2f", "%1$s"]),
    ("100% sure, 5 %, {a b}, {", []),
]
NUMBERS = [
    ("v1.2, A4/5 or B2: 3.5, C:3 (D.4)", ["3.5", "3", "4"]),
    ("3 of 1,000.50 at 12:30 on 1/2/2003", ["3", "1,000.50", "12:30", "1/2/2003"]),
    ("x86, B2B, 2nd and 3.", ["3"]),
    ("第3章", ["3"]),
    ("é5 5é x_1 2_ 7年 -8", ["7", "8"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (kind, *case)
        for kind, cases in (
            ("urls", URLS),
            ("emails", EMAILS),
            ("placeholders", PLACEHOLDERS),
            ("numbers", NUMBERS),
        )
        for case in cases
    ],
)
def test_spans(kind, text, expected):
    assert spans(text, kind) == expected


def test_spans_of_several_kinds_do_not_overlap():
    text = "{n1} 7 http://a.b/3 c4@d.ef \x1f8\x1e"
    assert spans(text) == []
    assert spans(text, "numbers") == ["7", "3", "8"]
    assert spans(text, "urls", "numbers") == ["7", "http://a.b/3", "8"]
    every = spans(text, "urls", "emails", "placeholders", "numbers")
    assert every == ["{n1}", "7", "http://a.b/3", "c4@d.ef", "8"]


def test_each_row_is_protected_as_it_asks():
    text, protect = tf.constant(["3 {x}"] * 4), tf.constant([0, 4, 8, -1])
    found = find_all(text, protect).to_list()
    assert found == [[], [b"{x}"], [b"3"], [b"3", b"{x}"]]


@pytest.mark.parametrize(
    ("text", "protect", "expected"),
    [
        ("3.5", 0, True),
        ("3.5", SPAN_BITS["numbers"], False),
        ("$5", 0, True),
        ("5\u2007€", 0, True),
        ("￥500", 0, True),
        ("５．５", 0, True),
        ("５", 0, False),
        ("$5", SPAN_BITS["numbers"], False),
        ("5", 0, False),
        ("{name}", 0, True),
        ("{name}: %s", SPAN_BITS["placeholders"], False),
        ("{name} x", SPAN_BITS["placeholders"], True),
        ("HTTPS://A.DE/b a@b.de", 0, False),
        ("http://a.de/b and", 0, True),
        ("a\x1f", 0, True),
        ("--", -1, False),
        ("", 0, False),
    ],
)
def test_what_depends_on_the_language(text, protect, expected):
    rows = tf.constant([text]), tf.constant([protect])
    assert is_translatable(*rows).numpy().tolist() == [expected]
    if protect == 0:
        assert is_translatable(rows[0]).numpy().tolist() == [expected]


def test_spans_with_letters():
    texts, protect = tf.constant(["A 5 {x}"] * 4 + [""]), tf.constant([0, 4, 8, 12, 15])
    assert has_lettered_span(texts, protect).numpy().tolist() == [False, True, False, True, False]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("a1 .{}%s$@:/w\x1f\x1eé\u202e"), max_size=30), st.integers())
def test_spans_are_parts_of_any_text(text, bits):
    protect = tf.constant([(bits + 2**31) % 2**32 - 2**31], tf.int32)
    rest = re.sub("[\x1e\x1f]", " ", text)
    for span in find_all(tf.constant([text]), protect).to_list()[0]:
        _, found, rest = rest.partition(span.decode())
        assert found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("a\tb", "must be a list of pairs"),
        (5, "must be a list of pairs"),
        (["ab"], "index 0: .*, got "),
        ([("a", "b"), ("a",)], "index 1: expected a pair of"),
        ([("a", 3)], "expected a pair of"),
        ([("a", " ")], "expected a target phrase"),
        ([("a", "b\tc")], "expected no tab or line break"),
        ([("a\n", "b")], "expected no tab or line break"),
        ([("a", "\ud800")], "not Unicode text"),
        ([("a", "b" * 257)], "at most 256 bytes, got 257"),
        ([(str(n), "x") for n in range(MAX_TERMS + 1)], "at most 100,000 terms"),
    ],
)
def test_glossaries_that_are_refused(pairs, message):
    with pytest.raises(InputError, match=message):
        Glossary(pairs)


def test_a_glossary_of_a_file(tmp_path):
    path = tmp_path / "terms"
    path.write_text("bank\tUfer\n\n\timmer\nNew York\tNY\n", encoding="utf-8")
    glossary = Glossary.read(path)
    assert len(glossary) == 3
    assert glossary.entries_for("a bank") == "bank\tUfer\n\timmer"
    assert glossary.entries_for(b"New \xff York") == "\timmer"
    assert glossary.entries_for(b"New\xc2\xa0York") == "\timmer\nNew York\tNY"
    assert glossary.digest() != Glossary([("bank", "Bank")]).digest()
    for line, message in (
        ("a", "terms:1: expected two phrases separated by a tab, got 0 tabs"),
        ("a\tb\tc", "terms:1: .*got 2 tabs"),
        ("a\t", "terms:1: expected a target phrase"),
    ):
        path.write_text(line)
        with pytest.raises(InputError, match=message):
            Glossary.read(path)
    with pytest.raises(InputError, match="none: no such file"):
        Glossary.read(tmp_path / "none")


def test_kinds_of_spans():
    assert protection(["urls", "numbers", "urls"]) == 9
    for kinds in (["url"], "urls"):
        with pytest.raises(InputError, match="some of urls, emails, placeholders, numbers"):
            protection(kinds)
