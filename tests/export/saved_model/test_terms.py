"""The signature `terms`: its promises, on a SavedModel, through the client and the command."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.saved_model.signature_examples import signature_examples
from export.saved_model.signature_names import SIGNATURES
from export.saved_model.signatures import ServedTranslator
from tests.export.saved_model.guide_request import answer_to_the_guide
from tests.export.saved_model.test_signatures import DEFAULTS
from tests.served_functions import behaviour_of
from tests.serving_stub import Behaviour, serve
from tests.tf_transformer.text.test_tokenizer import make_tokenizer
from tf_transformer.__main__ import main
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.predictors.client import Client
from tf_transformer.storage.model_dir import load_model
from tf_transformer.terms.limits import MAX_PHRASES
from tf_transformer.terms.phrases import PhraseSpeller, merge_phrases
from tf_transformer.text.special_ids import END_ID

OUTPUTS = {
    *("translation", "score", "truncated"),
    *("terms_met", "terms_unmet", "terms_ignored"),
}


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator(*load_model(talkative))


@pytest.fixture(scope="module")
def sentences(corpus):
    return (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:24]


@pytest.mark.slow
def test_the_request_of_the_guide(loaded):
    (body,) = re.findall("curl -d '(.*)'", signature_examples(["terms"], "model"))
    inputs = json.loads(body)["inputs"]
    assert inputs.keys() == loaded["terms"].structured_input_signature[1].keys()
    (met,) = ask(loaded, **inputs)["terms_met"]
    assert met == "Satz"


def ask(loaded, text, terms=None, protect=0, name="terms", **options):
    """The answer of a signature; inputs are lists, or one value for all rows."""
    inputs = DEFAULTS | options | {"text": text}
    if name == "terms":
        inputs |= {"terms": terms or [""] * len(text), "protect": protect}
    function = loaded[name]
    tensors = {
        key: tf.constant(np.broadcast_to(inputs[key], (len(text),)), spec.dtype)
        for key, spec in function.structured_input_signature[1].items()
    }
    answer = {key: value.numpy() for key, value in function(**tensors).items()}
    return {
        key: [x.decode() for x in value] if value.dtype == object else value
        for key, value in answer.items()
    }


@pytest.mark.slow
def test_it_is_only_exported_on_request(translator):
    assert "terms" not in SIGNATURES
    served = ServedTranslator(translator, ["serving_default"])
    assert list(served.functions) == ["serving_default"] and len(served.tokenizers) == 2


@pytest.mark.slow
def test_rows_without_terms_get_the_plain_translation(loaded, sentences):
    """Also beside rows with terms, and with options of their own."""
    options = {
        "beam_size": np.arange(24) % 5,
        "min_length": np.arange(24) % 4,
        "no_repeat_ngram": np.arange(24) % 3,
        "coverage_penalty": np.where(np.arange(24) % 4 == 0, 0.2, 0),
    }
    plain = ask(loaded, sentences, name="translate_options", **options)
    for terms in ([""] * 24, ["", "\tLampe", "not there\tLampe"] * 8):
        found = ask(loaded, sentences, terms, **options)
        assert found.keys() == OUTPUTS
        rows = [row for row in range(24) if not terms[row].startswith("\t")]
        for row in rows:
            assert found["translation"][row] == plain["translation"][row]
            np.testing.assert_allclose(found["score"][row], plain["score"][row], rtol=1e-5)
            assert found["terms_met"][row] == found["terms_unmet"][row] == ""


@pytest.mark.slow
def test_terms_are_in_the_translations(loaded, sentences, corpus):
    """Words of other sentences, which the model would not write of itself."""
    lines = (corpus.directory / "test.de").read_text(encoding="utf-8").splitlines()
    draw = np.random.default_rng(0)
    for beam_size in (1, 4):
        phrases = [
            [" ".join(draw.choice(lines).split()[:2]) for _ in range(1 + row % 3)]
            for row in range(len(sentences))
        ]
        terms = ["\n".join(f"\t{phrase}" for phrase in row) for row in phrases]
        found = ask(loaded, sentences, terms, beam_size=beam_size)
        for row, text in enumerate(found["translation"]):
            assert all(phrase in text for phrase in phrases[row]), (phrases[row], text)
            assert set(found["terms_met"][row].split("\n")) == set(phrases[row])
            assert found["terms_unmet"][row] == ""
        assert not found["terms_ignored"].any()
        alone = [
            ask(loaded, [sentences[row]], [terms[row]], beam_size=beam_size)
            for row in range(0, 24, 5)
        ]
        for row, answer in zip(range(0, 24, 5), alone, strict=True):
            assert answer["translation"] == [found["translation"][row]]
            np.testing.assert_allclose(answer["score"], found["score"][row], rtol=1e-4)


def test_terms_repeat_ngrams_where_nothing_else_may(loaded, sentences, corpus):
    """Terms that repeat a word in rows of every beam size; with n = 3, too often in any case."""
    lines = (corpus.directory / "test.de").read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines if len(line.split()[0]) <= 6]
    sizes = 1 + np.arange(24) % 3
    phrases = [" ".join([words[row]] * (size + 1)) for row, size in enumerate(sizes)]
    options = {"no_repeat_ngram": sizes, "beam_size": np.arange(24) // 3 % 5}
    found = ask(loaded, sentences, [f"\t{phrase}" for phrase in phrases], **options)
    assert found["terms_met"] == phrases and set(found["terms_unmet"]) == {""}
    assert all(x in text for x, text in zip(phrases, found["translation"], strict=True))


def test_protected_spans_are_copied(loaded):
    text = ["Paul owes {name} 12,345 dollars, see www.a.de", "3 eggs", "{} and {}"]
    found = ask(loaded, text, protect=[1 + 4 + 8, 8, 4])
    assert "{name}" in found["translation"][0] or "{name}" in found["terms_unmet"][0]
    assert found["terms_met"][1] == "3" and "3" in found["translation"][1]
    for row, spans in enumerate((["{name}", "12,345", "www.a.de"], ["3"], ["{}"])):
        listed = found["terms_met"][row].split("\n") + found["terms_unmet"][row].split("\n")
        assert set(listed) - {""} == set(spans)
    plain = ask(loaded, text)
    assert plain["terms_met"] == plain["terms_unmet"] == [""] * 3


def test_spans_are_no_parts_of_longer_ones(loaded):
    rows = {
        "5 of 5.5 and 5:30": (8, ["5", "5.5", "5:30"]),
        "Two lamps at 10:30 and 10 and 10.": (8, ["10:30", "10", "10"]),
        "Paul pays 3 or 3.5 dollars": (8, ["3", "3.5"]),
        "see www.a.de and www.a.de/b": (1, ["www.a.de", "www.a.de/b"]),
    }
    found = ask(loaded, list(rows), protect=[protect for protect, _ in rows.values()])
    for translation, unmet, (_, spans) in zip(
        found["translation"], found["terms_unmet"], rows.values(), strict=True
    ):
        for span in spans:
            pattern = rf"(?<![\w.,:/@]){re.escape(span)}(?![.,:/@]*\w)"
            is_met = len(re.findall(pattern, translation)) >= spans.count(span)
            assert is_met == (span not in unmet.split("\n")), (translation, span)
    assert found["terms_unmet"][0] == ""


def test_without_bytes_unknown_pieces_are_reported():
    tokenizer = make_tokenizer(byte_fallback=False, size=80)
    wanted = merge_phrases(
        tf.ragged.constant([["中文", "the", "the", "中"], []]),
        tf.ragged.constant([[], ["the"] * 3]),
    )
    assert wanted.text.numpy().tolist() == [["中文".encode(), b"the", "中".encode(), b""],
                                            [b"the", b"", b"", b""]]  # fmt: skip
    assert wanted.count.numpy().tolist() == [[1, 1, 1, 0], [3, 0, 0, 0]]
    constraints, is_writable = PhraseSpeller(tokenizer, [END_ID]).constraints(wanted)
    assert is_writable.numpy().tolist() == [[False, True, False, False], [True] + [False] * 3]
    assert constraints.needed.numpy().tolist() == [[0, 1, 0, 0], [3, 0, 0, 0]]
    assert constraints.is_closed.numpy().tolist() == [[False] * 4, [True] + [False] * 3]
    for spelling in (0, 1):
        ids = constraints.ids[0, 1, spelling]
        assert tokenizer.detokenize(ids[tf.newaxis]).numpy().tolist() == [b"the"]
    begins = [tokenizer.pieces[constraints.ids[0, 1, spelling, 0]][0] for spelling in (0, 1)]
    assert begins == ["\u2581", "t"]


def test_source_phrases(loaded):
    text = ["The lamp costs 3 euros.", "The lamps cost 3 euros.", "", "lamp"]
    found = ask(loaded, text, ["lamp\tStuhl"] * 4)
    assert found["terms_met"] == ["Stuhl", "", "", "Stuhl"]
    found = ask(loaded, text[2:3], ["\tStuhl"])
    assert found["translation"] == [""] and found["terms_unmet"] == ["Stuhl"]
    assert found["score"].tolist() == [0]


def test_terms_that_exceed_the_limit_are_reported(loaded, translator):
    """As many as fit; the requested length grows by what terms need, but not beyond the model's."""
    phrase = "Heute ist Montag"
    found = ask(loaded, ["3 eggs"], [f"\t{phrase}"], max_length=1)
    assert phrase in found["translation"][0]
    words = [f"Haus {letter}" for letter in "abcdefghijklmnopqrst"]
    found = ask(loaded, ["3 eggs"], ["\n".join(f"\t{word}" for word in words)])
    (text,) = found["translation"]
    met, unmet = (found[name][0].split("\n") for name in ("terms_met", "terms_unmet"))
    assert sorted([*met, *unmet]) == words[:MAX_PHRASES]
    assert len(met) > 3 and all(word in text for word in met)
    assert found["terms_ignored"].tolist() == [len(words) - MAX_PHRASES]
    assert len(translator.target_tokenizer.encode([text])[0]) <= translator.source_limit


def test_what_the_vocabulary_cannot_write_is_reported(loaded):
    """The vocabulary has bytes, but its normalization changes some characters."""
    phrases = ["中文", "\u202eabc", "a\u200bb", "ﬁ", "e\u0301", "\ufffd"]
    found = ask(loaded, ["3 eggs"] * 6, [f"\tHaus\n\t{phrase}" for phrase in phrases])
    assert [x != "" for x in found["terms_unmet"]] == [False, False, True, True, True, True]
    for row, phrase in enumerate(phrases):
        met = ["Haus"] if found["terms_unmet"][row] == phrase else ["Haus", phrase]
        assert found["terms_met"][row].split("\n") == met
        assert all(phrase in found["translation"][row] for phrase in met)


WORD = st.sampled_from(["Haus", "ein", "Lampe", "3", "am 5. Mai", "z", "in Köln", "aus Haus"])
ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["\u202e", "\u200b", "\t", "\n", "\r", "中文", "e\u0301", "{x}", "https://a.b", "\0", "⁇", "▁"]
)
SOURCE = st.lists(WORD | ODD, max_size=6).map(" ".join)
TERMS = st.lists(
    st.tuples(st.just("") | WORD | ODD, WORD | ODD).map("\t".join) | ODD, max_size=5
).map("\n".join)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SOURCE, TERMS, st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=6))
def test_reports_are_true_of_any_text(loaded, rows):
    text, terms, protect = map(list, zip(*rows, strict=True))
    found = ask(loaded, text, terms, protect)
    assert np.isfinite(found["score"]).all() and (found["terms_ignored"] >= 0).all()
    for row, translation in enumerate(found["translation"]):
        for phrase in found["terms_met"][row].split("\n"):
            assert phrase in translation
        if not text[row].strip():
            assert translation == ""


@pytest.mark.exhaustive
@pytest.mark.slow
def test_with_a_shortlist(talkative, tmp_path, sentences):
    """Phrases may have pieces that the shortlist of their source does not have."""
    from tf_transformer.shortlists.table import ShortlistTable

    model, source, target = load_model(talkative)
    always = np.arange(4, 40, dtype=np.int32)
    by_source = np.zeros((source.vocab_size, 1), np.int32)
    table = ShortlistTable(always, by_source, "digest")
    translator = TermTranslator(Translator(model, source, target, shortlist=table))
    for found in translator(sentences[:6], terms=[("", "Heute ist Montag")]):
        assert found.met == ["Heute ist Montag"] and "Heute ist Montag" in found.text


@pytest.mark.representatives("1")
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_from_python(talkative, beam_size):
    terms = TermTranslator(Translator(*load_model(talkative), beam_size=beam_size))
    found = terms(["The lamp is {x}.", "3"], terms=[("lamp", "Stuhl")], protect=["numbers"])
    assert found[0].met == ["Stuhl"] and "Stuhl" in found[0].text
    assert found[1].met == ["3"]
    with pytest.raises(ValueError, match="index 0: expected a target phrase"):
        terms(["a"], terms=[("a", "")])
    with pytest.raises(ValueError, match="`protect` must be a list of some of"):
        terms(["a"], protect=["all"])


# ---- Commands and the client ----


HOSTILE = [
    ("3 eggs", "\n".join(f"\tHaus {n}" for n in range(10_000))),
    ("3 eggs", "eggs\tEier\neggs\tHaus\neggs\tEier"),
    ("3 eggs", "\t\n\n\t \n"),
    ("\u202e3 \u200beggs\u202c", "3\t\u202eEier\u200b"),
    ("我们 Haus ก שלום", "我们\t我们\nHaus\tHaus"),
    ("3 eggs", "eggs\t" + "x" * 10_000),
    ("", "\tHaus"),
    ("{" * 500, "\t" + "{" * 200),
    ("www." + "a" * 5000, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_hostile_terms_through_the_client(loaded, protocol):
    text, terms = map(list, zip(*HOSTILE, strict=True))
    rows = {"text": text, "terms": terms, "protect": [15] * len(text)}
    rows |= {name: [value] * len(text) for name, value in DEFAULTS.items()}
    with (
        serve(protocol, behaviour_of(loaded, ("terms", "document_terms"))) as address,
        Client(address, protocol=protocol) as client,
    ):
        found = client.predict(rows, "terms")
    assert found.keys() == OUTPUTS
    assert all(len(column) == len(HOSTILE) for column in found.values())
    assert found["terms_ignored"][0] == 10_000 - MAX_PHRASES + 1  # and a number
    assert found["terms_met"][1] == "Eier\nHaus\n3"
    for phrases, translation in zip(found["terms_met"], found["translation"], strict=True):
        assert all(phrase in translation for phrase in phrases.split("\n"))


@pytest.mark.slow
def test_commands(exported, loaded, tmp_path, capsys):
    """By a server, also with other capitals.

    tests/export/test_same_bytes.py compares its answers with those of a model directory.
    """
    warm_up = exported / "1" / "assets.extra" / "tf_serving_warmup_requests"
    assert b"protect" in warm_up.read_bytes()
    (tmp_path / "in").write_text("The lamp costs 3. TWO LAMPS. THE LAMP. {name} is 5.\n\nOne.\n")
    (tmp_path / "terms").write_text("lamp\tStuhl\nis\ta\u200bb\n")
    options = ["--input", str(tmp_path / "in"), "--terms", str(tmp_path / "terms")]
    options += ["--protect", "placeholders", "numbers", "--split-sentences", "--output"]
    capsys.readouterr()
    with serve("rest", behaviour_of(loaded, ("terms", "document_terms"))) as address:
        command = ["translate", "--server", address]
        assert main([*command, *options, str(tmp_path / "a")]) == 0
        note = "tf-transformer: translations that lack terms or protected spans: 1\n"
        assert capsys.readouterr().err == note
        assert main([*command, "--keep-capitals", *options, str(tmp_path / "b")]) == 0
    text = (tmp_path / "a").read_text()
    assert all(phrase in text for phrase in ("Stuhl", "3", "STUHL", "{name}", "5"))
    assert text.split("\n")[1] == ""
    assert "Stuhl" in (tmp_path / "b").read_text() and "STUHL" not in (tmp_path / "b").read_text()
    found = answer_to_the_guide(exported, "document_terms")
    assert found["translation"].numpy()[0].count(b"Satz") == 1
    assert found["terms_unmet"].numpy() == [b""] and found["terms_ignored"].numpy() == [0]


def test_a_server_without_the_signature(tmp_path, capsys):
    (tmp_path / "in").write_text("a dog\n")
    (tmp_path / "terms").write_text("dog\tHund\n")
    with serve("rest", Behaviour()) as address:
        command = ["translate", "--server", address, "--input", str(tmp_path / "in")]
        assert main([*command, "--terms", str(tmp_path / "terms")]) == 2
        error = capsys.readouterr().err
        assert "has no signature 'terms', which --terms or --protect needs; export it with" in error
        assert error.count("\n") == 1
        assert main([*command, "--split-sentences", "--protect", "urls"]) == 2
        error = capsys.readouterr().err
        assert "has no signature 'document_terms', which --split-sentences with --terms" in error
        assert "; export it with --signatures all document_terms\n" in error
    specs = {"terms": ({"text": ("DT_STRING", ())}, {"translation": ("DT_STRING", ())})}
    with serve("rest", Behaviour(specs=specs)) as address:
        command[2] = address
        assert main([*command, "--protect", "urls"]) == 2
        error = capsys.readouterr().err
        assert "expected a signature 'terms' whose output 'score' is float" in error


@pytest.mark.parametrize("name", ["out", "out.partial"])
def test_the_output_replaces_no_glossary(trained, tmp_path, capsys, name):
    """Nor does the file that it is until it is complete."""
    (tmp_path / name).write_text("bank\tUfer\n")
    (tmp_path / "source").write_text("The bank\n")
    command = ["translate", "--model-dir", str(trained), "--terms", str(tmp_path / name)]
    command += ["--input", str(tmp_path / "source"), "--output", str(tmp_path / "out")]
    assert main(command) == 2
    assert f"{name} is an input file; give another one" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "bank\tUfer\n"
