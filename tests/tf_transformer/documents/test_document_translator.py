"""Documents are translated sentence by sentence, and keep their layout."""

import ast
import functools
import pathlib
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import Corpus
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.documents.capital_spans import restore_spans
from tf_transformer.documents.capitals import find_capitals, sentence_case
from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.errors import InputError
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.inference.translator import Translator

pytestmark = pytest.mark.slow

FIELDS = ("text", "source_spans", "target_spans", "sentence_scores", "scores", "truncated")


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.load(talkative, beam_size=2)


@pytest.fixture(scope="module")
def documents(translator):
    return DocumentTranslator(translator, max_sentences=8, max_characters=300)


@functools.cache
def graph_of(documents):
    return tf.function(documents.translate_in_graph, autograph=False, reduce_retracing=True)


def translate(documents, texts, **arguments):
    function = graph_of(documents) if arguments else documents._function  # which is traced once
    found = function(tf.constant(texts, tf.string, [len(texts)]), **arguments)
    return {name: getattr(found, name).numpy().tolist() for name in FIELDS}


def flags(*rows):
    return tf.cast(tf.ragged.constant(list(rows), tf.int32, ragged_rank=1), tf.bool)


def spans(text):
    return [tuple(map(int, span.split(b"-"))) for span in text.split()]


def test_a_document_is_its_sentences(documents, translator):
    """With the white space of the source, and positions in characters."""
    sentences = ["Peter bought 3 lamps.", "Is it 5 o'clock?", "Today is Monday, 3 May."]
    document = f"\n  {sentences[0]} {sentences[1]}\n\n\t{sentences[2]}\r\n"
    expected = translator(sentences)
    found = translate(documents, [document])
    text = found["text"][0].decode()
    assert text == f"\n  {expected[0]} {expected[1]}\n\n\t{expected[2]}\r\n"
    assert [document[a:b] for a, b in spans(found["source_spans"][0])] == sentences
    assert [text[a:b] for a, b in spans(found["target_spans"][0])] == expected
    scores = [best[0].score for best in translator.n_best(sentences)]
    found_scores = [float(score) for score in found["sentence_scores"][0].split()]
    np.testing.assert_allclose(found_scores, scores, atol=1e-5)
    np.testing.assert_allclose(found["scores"], np.mean(scores), atol=1e-5)
    assert found["truncated"] == [False]
    assert documents([document]) == [text]


def test_rows_of_a_batch_are_apart(documents):
    texts = [
        "One day. Two weeks.",
        "",
        " \n ",
        "Anna left.",
        "ANNA WAS BORN ON MONDAY. Yes.\n",
        "。",
    ]
    together = translate(documents, texts)
    for row, text in enumerate(texts):
        alone = translate(documents, [text])
        for name in ("text", "source_spans", "target_spans", "truncated"):
            assert alone[name] == together[name][row : row + 1]
    assert documents([]) == []
    assert together["text"][1:3] == [b"", b" \n "]


@pytest.mark.exhaustive
def test_options_are_those_of_the_document(documents, translator):
    texts = ["One day. Two weeks.", "Anna left. Paul left."]
    options = TranslationOptions.defaults(2)._replace(max_length=tf.constant([0, 1]))
    found = translate(documents, texts, options=options)
    assert found["text"][0] == translate(documents, texts[:1])["text"][0]
    first, second = (
        text[a:b] for text in found["text"][1:] for a, b in spans(found["target_spans"][1])
    )
    short = translator.translate_in_graph(
        tf.constant(["Anna left.", "Paul left."]),
        TranslationOptions.defaults(2)._replace(max_length=tf.constant([1, 1])),
    )
    assert [first, second] == short.text[:, 0].numpy().tolist()


@pytest.mark.parametrize(
    ("text", "is_truncated"),
    [("One. " * 8, False), ("One. " * 9, True), ("a " * 200, True), ("x" * 299, True)],
)
def test_a_cap_on_sentences_characters_and_tokens(documents, text, is_truncated):
    found = translate(documents, [text, "One."])
    assert found["truncated"] == [is_truncated, False]
    assert len(found["source_spans"][0].split()) <= 8
    assert max(end for _, end in spans(found["source_spans"][0])) <= 300


def test_capitals_are_restored_on_request(documents, translator):
    sentence = "Anna was born on Monday. "
    upper = sentence.upper()
    found = translate(
        documents, [upper, upper, sentence], keep_capitals=tf.constant([False, True, False])
    )
    as_it_is = translator([upper.strip()])[0] + " "
    capitals = find_capitals(tf.constant([upper.strip()]), tf.constant([True]))
    lowered = sentence_case(tf.constant([upper.strip()]), capitals, translator.source_tokenizer)
    in_sentence_case = translator(lowered.numpy().tolist())[0] + " "
    assert [text.decode() for text in found["text"]] == [
        in_sentence_case.upper(),
        as_it_is,
        translator([sentence.strip()])[0] + " ",
    ]


def test_odd_input_gets_an_answer(documents):
    odd = [
        b"\xff\xfe. A\x00",
        "a\u200bb\u202e. \u2066Z".encode(),
        "😀! 你好。A".encode(),
        b"." * 300,
    ]
    found = translate(documents, [*odd, "One."])
    assert len(found["text"]) == 5
    assert found["text"][4] == translate(documents, ["One."])["text"][0]


def test_what_has_no_words_is_copied(documents, translator):
    texts = ["-----\n* * *\n--\n35 %\nhttp://a.b/c?d=e\n(a.b@c.de)", "5. Anna left.\n---"]
    found = translate(documents, texts)
    anna = translator(["5. Anna left."])
    assert found["text"] == [texts[0].encode(), f"{anna[0]}\n---".encode()]
    assert len(found["sentence_scores"][0].split()) == 6
    scores = [translator.n_best(["5. Anna left."])[0][0].score, 0.0]
    assert found["scores"][0] == 0.0
    np.testing.assert_allclose(found["scores"][1], scores[0], atol=1e-5)
    np.testing.assert_allclose(
        [float(score) for score in found["sentence_scores"][1].split()], scores, atol=1e-5
    )


def test_numbers_whose_form_depends_on_the_language_are_translated(documents, translator):
    numbers = ["3.5", "€9,843", "4/1/2015", "12 £", "$7", "(1.5 %)", "8\u00a0€"]
    found = translate(documents, ["\n".join(numbers)])
    assert found["text"][0].decode().split("\n") == translator(numbers)


def test_terms_apply_to_their_sentences(documents, translator):
    """Also to sentences in capitals and to what would be copied."""
    with_terms = DocumentTranslator(TermTranslator(translator))
    rows = {
        "text": [
            "3 lamps. A LAMP.\n---\n5 Lamps.", "One lamp.", "", "TWO LAMPS LEFT AT 5.", "7\n7.5\n8"
        ],
        "terms": [
            "lamps\tLampe\nLAMP\tLICHT\nlamps\tX\u200b", "none", "\tja", "Lamps\tLicht", "8\tacht"
        ],
        "protect": [8, 0, 8, 8, 8],
    }  # fmt: skip
    found = with_terms.translate_rows(rows)
    first, line, last = found["translation"][0].split("\n")
    assert all(phrase in first for phrase in ("3", "Lampe", "LICHT"))
    assert line == "---"
    assert "5" in last
    assert found["translation"][1:3] == [*translator(["One lamp."]), ""]
    assert all(phrase in found["translation"][3] for phrase in ("LICHT", "5"))
    assert found["translation"][3].isupper()
    *copied, last = found["translation"][4].split("\n")
    assert copied == ["7", "7.5"]
    assert "acht" in last
    assert found["terms_unmet"] == ["X\u200b", "", "", "", ""]
    assert found["terms_ignored"] == [0, 1, 0, 0, 0]
    assert found["truncated"] == [False] * 5
    plain = documents(["Peter bought 3 lamps. ANNA LEFT."])
    rows = {"text": ["Peter bought 3 lamps. ANNA LEFT."], "terms": [""], "protect": [0]}
    assert with_terms.translate_rows(rows)["translation"] == plain
    address = {"text": ["A LAMP AT www.a.de/b LEFT."], "terms": [""], "protect": [1]}
    (translation,) = with_terms.translate_rows(address)["translation"]
    assert "www.a.de/b" in translation
    with pytest.raises(InputError, match="need a `TermTranslator`"):
        documents.translate_rows(rows)


def test_no_spaces_between_wide_stops(translator):
    """Chinese sentences have no space between them, and others need one."""
    fake = types.SimpleNamespace(
        source_tokenizer=translator.source_tokenizer,
        model=translator.model,
        translate_in_graph=lambda text, options: types.SimpleNamespace(
            text=tf.strings.regex_replace(text, "X", "。")[:, tf.newaxis],
            scores=tf.zeros((tf.size(text), 1)),
            truncated=tf.zeros_like(text) != "",
        ),
    )
    texts = tf.constant(["你好。好！", "aX. bX \n c. d"])
    found = DocumentTranslator(fake).translate_in_graph(texts).text.numpy().tolist()
    # The fake returns the sentences, with X as a full stop.
    assert [text.decode() for text in found] == ["你好。好！", "a。. b。 \n c. d"]


def test_spans_in_capitals_follow_the_alignment(translator):
    """A model that aligns the i-th piece with the i-th, so that words keep their places."""
    model = types.SimpleNamespace(
        config=translator.model.config,
        alignment=lambda inputs: tf.eye(
            tf.shape(inputs["target"])[1],
            tf.shape(inputs["source"])[1],
            batch_shape=[tf.shape(inputs["target"])[0]],
        ),
    )
    fake = types.SimpleNamespace(
        model=model,
        source_tokenizer=translator.source_tokenizer,
        target_tokenizer=translator.source_tokenizer,
        tokenize_source=translator.tokenize_source,
        source_limit=translator.source_limit,
        chunk_size=2,
        search=translator.search,
    )
    texts = ["Anna was born on Monday", "The big dog", "Paul left", "Today is Monday", ""]
    in_span = flags([0, 1, 1, 0, 0], [1, 1, 0], [0, 0], [0, 0, 1], [])
    found = restore_spans(fake, tf.constant(texts), tf.constant(texts), in_span)
    assert found.numpy().tolist() == [
        b"Anna WAS BORN on Monday", b"THE BIG dog", b"Paul left", b"Today is MONDAY", b"",
    ]  # fmt: skip
    wrong = flags([1, 1, 1])  # not the number of words
    assert restore_spans(fake, tf.constant(["a b"]), tf.constant(["a b"]), wrong).numpy() == [
        b"a b"
    ]


@pytest.mark.parametrize("arguments", [{"max_sentences": 0}, {"max_characters": 2.5}])
def test_arguments_out_of_range(translator, arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"`{name}` must be an integer from 1 to"):
        DocumentTranslator(translator, **arguments)


def test_a_single_string_is_no_list(documents: DocumentTranslator, corpus: Corpus):
    with pytest.raises(ValueError, match="`documents` must be a list of strings"):
        documents("One. Two.")


def test_the_page_gives_the_spans_of_its_example(documents):
    page = (pathlib.Path(__file__).parents[3] / "docs" / "documents.md").read_text("utf-8")
    (text,) = (ast.literal_eval(line) for line in re.findall(r"^translate\((.+)\)$", page, re.M))
    (found,) = translate(documents, text)["source_spans"]
    assert f"`{found.decode()}` for the document above" in page
    start, end = spans(found)[1]
    assert f"`text[{start}:{end}]`" in page
    assert text[0][start:end] == "PETER WAS BORN ON MONDAY!"
