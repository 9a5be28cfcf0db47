"""Where sentences of a document end, by example, and what holds for any document."""

import re

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from tests.tf_transformer.documents.sentence_examples import ALONE, DOCUMENTS
from tf_transformer.documents.abbreviations import LANGUAGES, find_abbreviations
from tf_transformer.documents.joining import join_sentences
from tf_transformer.documents.sentence_boundaries import split_sentences
from tf_transformer.documents.sentence_splitter import sentence_splitter, space_between
from tf_transformer.documents.sentence_starters import STARTERS

SPLIT = tf.function(split_sentences, input_signature=[tf.TensorSpec([None], tf.string)])
SPLITTER = sentence_splitter()


def sentences(document):
    """The sentences, in the graph and in Python."""
    space, text, trailing = (part[0].numpy() for part in SPLIT([document])[:3])
    whole = [b"".join(parts).decode() for parts in zip(space, text, trailing, strict=True)]
    # In the graph, control characters that stand for others become U+0006.
    own = [re.sub("[\x01-\x05]", "\x06", sentence) for sentence in SPLITTER(document)]
    assert own == whole
    return [text.decode() for text in text]


@pytest.mark.slow
@pytest.mark.parametrize(
    "expected",
    [
        ["Mr. Smith went to Washington.", "He arrived at 3 p.m. on Monday, e.g. late!"],
        ['"Really?" he asked.', '"Yes."', "She left."],
        ["Well... and more.", "What?!", "No… it is not.", "OK"],
        ["J. R. R. Tolkien and J.K. Rowling wrote books.", "So do I.", "He is taller than I."],
        ["The U.S. Army left.", "We live in the U.S.", "He does not."],
        ["It costs 3.14 euros.", "See Fig. 3 and No. 5.", "The answer is no.", "Why?"],
        ["(He left.)", "[So did she!]", "‘Then.’", "“End.”", "Here."],
        ["Es kam Dr. Müller, z. B. um 5 Uhr.", "Er ging bzw. lief."],
        ["Sie sagte: „Gut.“", "Dann ging sie.", "»Das gilt.«", "U.a. Für Nr. 5."],
        ["M. Dupont est parti.", "Où est-il ?", "«\xa0Là.\xa0»", "Merci !"],
        ["Он приехал в 1990 г. из Москвы.", "Потом уехал."],
        ["यह एक वाक्य है।", "यह दूसरा है।"],
        ["Visit www.example.com now.", "Write to a.b@c.de, please."],
        ["He arrived at 5 p.m.", "The train was late.", "We met in Washington D.C.", "They left."],
        ["See https://a.b/c?d=e.", "Then go.", "(J. Smith) and -K. Lee came."],
        ["MR. SMITH AND DR. JONES WENT TO ST. LOUIS ON JAN. 5.", "SEE FIG. 3.", "AN OS.", "Yes."],
        ["Il dit : « Bonjour. »", "Puis il part.", "« Quoi ? » demanda-t-elle.", "»Ja.«"],
        ["Smith et al. (2010) saw Marks & Co. Ltd. at Apt. 4.", "Et al. 5.", "Approx. 3."],
        ["In der Hauptstr. 5 wohnt PROF. DR. MAIER.", "Vgl. Nr. 3.", "Das ist Max.", "Gut."],
        ["Am 3. Oktober 2020 kam er.", "Am 5. august gikk han.", "Es war der 3.", "Gut."],
    ],
)
def test_sentences_with_spaces(expected):
    assert sentences(" ".join(expected)) == expected


def lines(documents):
    return documents.strip().split("\n")


def assert_split(documents, languages):
    """Compares all documents at once; in a failure, those that differ are seen."""
    texts = [line.replace(" | ", " ") for line in documents]
    in_graph = split_sentences(tf.constant(texts), languages).text.to_list()
    in_python = map(sentence_splitter(languages), texts)
    for found in (
        [[sentence.decode() for sentence in row] for row in in_graph],
        [[sentence.strip() for sentence in row] for row in in_python],
    ):
        pairs = zip(documents, map(" | ".join, found), strict=True)
        assert not [pair for pair in pairs if pair[0] != pair[1]]


@pytest.mark.parametrize("language", sorted(DOCUMENTS))
def test_documents_of_a_known_language(language):
    assert_split([*lines(DOCUMENTS[language]), *lines(ALONE.get(language, ""))], [language])


def test_documents_of_an_unknown_language():
    assert tuple(STARTERS) == LANGUAGES and set(LANGUAGES) <= DOCUMENTS.keys()
    assert_split([line for documents in DOCUMENTS.values() for line in lines(documents)], LANGUAGES)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            "你好。我是学生！你呢？“好的。”他说。",
            ["你好。", "我是学生！", "你呢？", "“好的。”", "他说。"],
        ),
        ("「はい。」と彼は言った。終わり", ["「はい。」と彼は言った。", "終わり"]),
        ("「行こう!」という。『え？』って何。", ["「行こう!」という。", "『え？』って何。"]),
        ("「はい。」とても長い。「いいえ。」", ["「はい。」", "とても長い。", "「いいえ。」"]),
        ("「はい。」\nと彼は", ["「はい。」", "と彼は"]),
        (
            "「うん。」とうなずいた。『本。』を読む。",
            ["「うん。」とうなずいた。", "『本。』を読む。"],
        ),
        ("彼は「行け！」。次", ["彼は「行け！」。", "次"]),
        ("他说“走吧！”就走了。“真的？”她问。", ["他说“走吧！”就走了。", "“真的？”她问。"]),
        ("مرحبا.\u200f كيف", ["مرحبا.\u200f", "كيف"]),
        ("One.\u200b \u202eTwo.\u202c Three", ["One.\u200b", "\u202eTwo.\u202c", "Three"]),
        ("1.1. Heading\nII. Part", ["1.1. Heading", "II. Part"]),
        ("你好吗?我很好!!  B", ["你好吗?", "我很好!!", "B"]),
        ("one\ntwo\r\n\r\nthree\u2028four\u3000", ["one", "two", "three", "four"]),
        ("1. First item\n2. Second item", ["1. First item", "2. Second item"]),
        ("a. One item\n• 9. Two.\n1.) Three", ["a. One item", "• 9. Two.", "1.) Three"]),
        ("1. One is here. 2. Two is there.", ["1. One is here.", "2. Two is there."]),
        # Lower case says that a sentence goes on, where there are capitals at all.
        ("is it a? b? or c? no!", ["is it a?", "b?", "or c?", "no!"]),
        (
            "Is it a? b? or c? – no! iPads are! eBooks",
            ["Is it a? b? or c? – no!", "iPads are!", "eBooks"],
        ),
        ("", []),
        (" \n\t ", [""]),
        ("\x01\x05. A\x06", ["\x06\x06.", "A\x06"]),
        ("a.b.c. D", ["a.b.c. D"]),
    ],
)
def test_other_documents(document, expected):
    assert sentences(document) == expected


@pytest.mark.slow
@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
    strategies.lists(
        strategies.text(
            strategies.one_of(
                strategies.sampled_from(' .!?…。！"“”)\n\r\t\u3000\xa0aBZ1\x01\x02\x03'),
                strategies.characters(codec="utf-8"),
            )
        ),
        max_size=4,
    )
)
def test_nothing_is_lost(documents):
    """The parts of a document make it, positions are those of Python, and rows are apart."""
    documents = [re.sub("[\x01-\x05]", "\x06", document) for document in documents]
    found = SPLIT(tf.constant(documents, tf.string, shape=[len(documents)]))
    for row, document in enumerate(documents):
        space, text, trailing, start, end = (part[row].numpy() for part in found)
        parts = b"".join(
            part for three in zip(space, text, trailing, strict=True) for part in three
        )
        assert parts.decode() == document
        assert [document[a:b] for a, b in zip(start, end, strict=True)] == [
            part.decode() for part in text
        ]
        assert all(part == part.strip(b" \t\n\r") for part in text)
        assert not any(space[1:])
        assert sentences(document) == [part.decode() for part in text]


@pytest.mark.parametrize(
    ("before", "source", "expected"),
    [("Hallo.", "", " "), ("Hallo.", "\n\n", "\n\n"), ("好。", " ", ""), ("好！」", "", ""),
     ("好。", "  ", "  "), ("", "", " ")],
)  # fmt: skip
def test_between_translations(before, source, expected):
    """In Python as in the graph."""
    assert space_between(before, source) == expected
    if before:
        found = SPLIT([f"你。{source}好"])
        texts = tf.RaggedTensor.from_row_lengths([before, "x"], [2])
        assert join_sentences(found, texts)[0].numpy().tolist() == [f"{before}{expected}x".encode()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [". ", "a. ", "a.\xa0", "...", " ", "\xa0", "\n", "。", ".”", "? x", "a" * 50 + " ", "A.B. "],
)
def test_large_documents(unit):
    """A copy of the document for each of its sentences would need tens of gigabytes."""
    document = unit * (300_000 // len(unit))
    part = document[:50_000]  # in Python, each stop takes microseconds in each of its rules
    assert "".join(SPLITTER(part)) == part
    space, text, trailing = (part[0].numpy() for part in SPLIT([document])[:3])
    parts = (part for three in zip(space, text, trailing, strict=True) for part in three)
    assert b"".join(parts).decode() == document


def test_abbreviations_are_those_of_the_languages():
    assert "Nr" in find_abbreviations(["de"])[0].before_numbers.split()
    # English names stand in texts of any language.
    assert find_abbreviations(["zh"]) == find_abbreviations([])
    assert "Mr" in find_abbreviations(["zh"])[0].anywhere.split()
    # A word of one language alone is an abbreviation of another.
    assert "on" in find_abbreviations(["it"])[0].anywhere.split()
    assert "on" not in find_abbreviations(["it", "en"])[0].anywhere.split()
    dates = "Am 1. 1. 2020 und 24. Dez. 2020."
    assert split_sentences(tf.constant([dates]), ["de"]).text.to_list() == [[dates.encode()]]
    texts = tf.constant(["Am 3. Oktober. Der 5. Tag. Es ist"])
    found = [split_sentences(texts, x).text.to_list()[0] for x in (["de"], LANGUAGES, ["en"])]
    assert found == [
        [b"Am 3. Oktober.", b"Der 5. Tag.", b"Es ist"],
        [b"Am 3. Oktober.", b"Der 5.", b"Tag.", b"Es ist"],
        [b"Am 3.", b"Oktober.", b"Der 5.", b"Tag.", b"Es ist"],
    ]


@pytest.mark.parametrize("code", ["", "German", "DE", 3, "d|e"])
def test_a_language_is_a_code(code):
    with pytest.raises(ValueError, match="expected the code of a document's language, such as"):
        find_abbreviations([code])


@pytest.mark.parametrize("languages", ["en", 3, None, b"en"])
def test_languages_are_a_list(languages):
    with pytest.raises(
        ValueError, match=r"expected (a list of codes of|the code of a document's) l"
    ):
        sentence_splitter(languages)
