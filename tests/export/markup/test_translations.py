"""Texts of a page translated by a predictor, and the command `translate --markup`."""

import functools
import pathlib
import xml.etree.ElementTree as ElementTree

import pytest
import tensorflow as tf

from export.markup import MarkupTranslator, translate_by_predictor
from tests.served_functions import saved_model_predictor
from tests.serving_stub import SIGNATURES, Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.command_line import predictor_options
from tf_transformer.errors import InputError
from tf_transformer.predictors.client import Client

OUTPUTS = {
    name: ("DT_STRING", ())
    for name in (
        *("translation", "source_pieces", "target_pieces"),
        "hard_alignment",
    )
} | {"score": ("DT_FLOAT", ()), "truncated": ("DT_BOOL", ()), "copied": ("DT_BOOL", ())}
INPUTS = {"text": ("DT_STRING", ())}
OPTIONS = {
    **dict.fromkeys(("keep_capitals", "is_english"), ("DT_BOOL", ())),
    "beam_size": ("DT_INT32", ()),
    "length_penalty": ("DT_FLOAT", ()),
}


def align(text, beam_size=None, hard="", **options):
    """Upper case, words backwards; the tags of languages have pieces of the source only."""
    rows = []
    for line in text:
        words = line.decode().split()
        own = [index for index, word in enumerate(words) if not word.startswith("<2")][::-1]
        suffix = f"_{beam_size[0]}" if beam_size and beam_size[0] else ""
        target = [words[index].upper() + suffix for index in own]
        rows.append(
            {
                "translation": " ".join(target),
                "source_pieces": " ".join(f"▁{word}" for word in words),
                "target_pieces": " ".join(f"▁{word}" for word in target),
                "hard_alignment": hard or " ".join(f"{i}-{j}" for j, i in enumerate(own)),
                "score": 0.0,
                "truncated": len(words) > 6,
                "copied": words == ["Copied"],
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        name: [x.encode() if isinstance(x, str) else x for x in column]
        for name, column in columns.items()
    }


@pytest.fixture(params=["rest", "grpc"])
def server(request):
    behaviour = Behaviour(
        specs=SIGNATURES
        | {"markup": (INPUTS, OUTPUTS), "markup_options": (INPUTS | OPTIONS, OUTPUTS)},
        answers={"markup": align, "markup_options": align},
    )
    with serve(request.param, behaviour) as address:
        yield behaviour, address, request.param


DOCUMENT = "<p>The <b>red</b> house.</p><p>one two three four five six seven</p>"


def test_client(server):
    behaviour, address, protocol = server
    with Client(address, protocol=protocol) as client:
        translator = MarkupTranslator(translate_by_predictor(client))
        assert translator.translate(DOCUMENT) == (
            "<p>HOUSE. <b>RED</b> THE</p><p>SEVEN SIX FIVE FOUR THREE TWO ONE</p>"
        )
        found = translator.translate_bytes(DOCUMENT.encode())
        assert (found.num_texts, found.num_truncated) == (2, 1)
        with_options = translate_by_predictor(client, {"beam_size": 3}, prepare="<2de> {}".format)
        assert MarkupTranslator(with_options).translate("<i>a</i> b") == "B_3 <i>A_3</i>"
        assert behaviour.requests[-1] == [b"<2de> a b"]
        copied = "<p>Copied   <b>&#65;</b></p>  <p>  <i>Copied</i></p>"
        assert translator.translate(copied) == "<p><b>A</b> COPIED</p>  <p>  <i>Copied</i></p>"
        source = copied.replace("<b>&#65;</b>", "<b></b>")
        assert translator.translate(source) == source


def test_command(server, tmp_path, capsys):
    _, address, protocol = server
    source, output = tmp_path / "page.html", tmp_path / "out.html"
    source.write_text(DOCUMENT, encoding="utf-8")
    words = ["translate", "--server", address, "--protocol", protocol, "--markup", "html"]
    command = [*words, "--input", str(source), "--output", str(output)]
    assert main(command) == 0
    assert output.read_text(encoding="utf-8").startswith("<p>HOUSE. <b>RED</b> THE</p>")
    assert "length limit and were truncated: 1" in capsys.readouterr().err
    assert main([*command, "--target-language", "de", "--beam-size", "2"]) == 0
    assert "<b>RED_2</b>" in output.read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "page.html"]
    source.write_text("<p>One <b>two</b>. Nr. 5 <i>x</i></p>", encoding="utf-8")
    for options, expected in (
        ([], "<p><b>TWO</b>. ONE <i>X</i> 5 NR.</p>"),
        (["--document-languages", "en"], "<p><b>TWO</b>. ONE NR. <i>X</i> 5</p>"),
        (["--no-split-sentences"], "<p><i>X</i> 5 NR. <b>TWO</b>. ONE</p>"),
    ):
        assert main([*command, *options]) == 0
        assert output.read_text(encoding="utf-8") == expected


def fails(capsys, *words):
    """Runs a command that must fail, and returns its one line on standard error."""
    assert main([str(word) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err


def test_what_fails_keeps_the_output(server, tmp_path, capsys):
    _, address, protocol = server
    output = tmp_path / "out.xml"
    output.write_text("kept", encoding="utf-8")
    source = tmp_path / "page.xml"
    words = ["translate", "--server", address, "--protocol", protocol, "--markup", "xml"]
    command = [*words, "--input", str(source), "--output", str(output)]
    for text, message in (
        ("<r><p>x</r>", "page.xml: expected well-formed XML. Received at line 1: mismatched tag"),
        ("<r>refuse</r>", "refuse"),
    ):
        source.write_text(text, encoding="utf-8")
        assert main(command) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        assert output.read_text(encoding="utf-8") == "kept"


def test_other_servers():
    with serve("rest", Behaviour()) as address, Client(address) as client:
        translator = MarkupTranslator(translate_by_predictor(client))
        assert translator.translate("<p> <br></p>") == "<p> <br></p>"
        message = "no signature 'markup' or 'markup_options', which --markup needs; export it with "
        with pytest.raises(InputError, match=f"{message}--signatures all markup markup_options"):
            translator.translate("<p>x</p>")
        with_terms = translate_by_predictor(client, protect=1)
        with pytest.raises(InputError, match="no signature 'markup_terms', which --markup with"):
            with_terms(["x"])


@pytest.mark.parametrize("pair", ["x", "1-", "1-2-3", "1" * 7 + "-1", "-1-1"])
def test_hostile_alignments(server, pair):
    behaviour, address, protocol = server
    behaviour.answers["markup"] = functools.partial(align, hard=f"0-0 {pair}")
    with (
        Client(address, protocol=protocol) as client,
        pytest.raises(OSError, match="expected a pair i-j of a hard alignment"),
    ):
        translate_by_predictor(client)(["a"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--markup html --n-best 2", "--n-best is not valid with --markup"),
        ("--markup html --shard 1/2", "--shard is not valid with --markup"),
        ("--translate-attributes alt", "--translate-attributes is valid only with --markup"),
        ("--markup html --input {file}.tsv:2", "expected a document, not a column"),
        ("--markup html --input {file} --output {file}", "input"),
        ("--markup html --input {file}.none", "no such file"),
    ],
)
def test_wrong_options(options, message, tmp_path, capsys):
    file = tmp_path / "page"
    for path in (file, pathlib.Path(f"{file}.tsv")):
        path.write_text("a\tb\n", encoding="utf-8")
    words = options.format(file=file).split()
    assert message in fails(capsys, "translate", "--server", "127.0.0.1:1", *words)


def test_a_document_that_is_too_large(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("export.markup.markup_translator.MAX_BYTES", 100)
    file = tmp_path / "page"
    file.write_bytes(b"x" * 101)
    words = ["translate", "--server", "127.0.0.1:1", "--markup", "html", "--input", str(file)]
    assert "expected a document of at most 100 bytes" in fails(capsys, *words)


@pytest.mark.exhaustive  # tests/export/test_same_bytes.py has terms in a page
@pytest.mark.slow
def test_terms(talkative, tmp_path, capsys):
    """Terms and protected spans are in the translations, which have all tags."""
    source, output, glossary = (tmp_path / name for name in ("d.xml", "out.xml", "terms.tsv"))
    document = (
        "<r><p>Paul has <b>3</b> lamps.</p><p>A <i>LAMP</i> FOR ANNA.</p>"
        "<p>See <u>{name}</u>. Two LAMPS left.</p><q>{name}</q><q>7.5</q><q>8<br/>7</q></r>"
    )
    source.write_text(document)
    glossary.write_text("lamps\tLampe\nlamp\tLampe\n8\tacht\n")
    command = ["translate", "--model-dir", str(talkative), "--markup", "xml", "--beam-size", "2"]
    command += ["--terms", str(glossary), "--protect", "numbers", "placeholders"]
    for options in ([], ["--no-split-sentences"]):
        assert main([*command, *options, "--input", str(source), "--output", str(output)]) == 0
        texts = ["".join(p.itertext()) for p in ElementTree.fromstring(output.read_text())]
        *texts, name, number, eight = texts
        for text, terms in zip(texts, (("Lampe", "3"), ("LAMPE",), ("{name}",)), strict=True):
            assert all(term in text for term in terms)
        assert (name, number) == ("{name}", "7.5")
        assert "acht" in eight
        tags = [x.tag for x in ElementTree.fromstring(output.read_text()).iter()]
        # An inline element whose words come to nothing is left out.
        assert [x for x in tags if x not in "biu"] == ["r", "p", "p", "p", "q", "q", "q", "br"]
        assert "that lack terms" not in capsys.readouterr().err


@pytest.mark.slow
def test_model(exported, loaded, corpus, tmp_path, monkeypatch):
    """With a SavedModel: well-formed, and the text is the plain translation.

    tests/export/test_same_bytes.py compares its pages with those of a model directory.
    """
    predictor = saved_model_predictor(exported / "1", loaded)
    monkeypatch.setattr(predictor_options, "load_saved_model", lambda _: predictor)

    def translations(texts, signature="serving_default"):
        found = loaded[signature](text=tf.constant(texts))["translation"].numpy()
        return [text.decode() for text in found]

    lines = pathlib.Path(corpus.path("test.en")).read_text(encoding="utf-8").splitlines()[:8]
    marked = [
        "<b>{}</b> {} <i/>{}".format(*line.split(" ", 2)) for line in lines if line.count(" ") > 2
    ]
    upper = lines[0].upper()
    paragraphs = "</p><p>".join(x.replace("&", "&amp;") for x in marked)
    document = f"<r><p>{paragraphs}</p><q>{lines[0]} <b>{lines[1]}</b></q><q><b>{upper}</b></q></r>"
    source, output = tmp_path / "d.xml", tmp_path / "out.xml"
    source.write_text(document, encoding="utf-8")
    command = ["translate", "--saved-model", str(exported), "--markup", "xml"]
    assert main([*command, "--input", str(source), "--output", str(output)]) == 0
    root = ElementTree.fromstring(output.read_text(encoding="utf-8"))
    texts = [" ".join("".join(p.itertext()).split()) for p in root]
    given = [" ".join("".join(p.itertext()).split()) for p in ElementTree.fromstring(document)]
    plain = given[: len(marked)]
    expected = [" ".join(text.split()) for text in translations(plain)]
    assert texts[: len(marked)] == expected
    assert max([x.tag for x in p.iter()].count("b") for p in root) <= 1
    assert [[x.tag for x in p.iter()].count("i") for p in root[: len(marked)]] == [1] * len(marked)
    rows = translate_by_predictor(predictor)(plain)
    assert all(row.links and row.source_pieces for row in rows if row.text)
    assert texts[-2].split() == " ".join(translations(lines[:2])).split()
    assert texts[-1].split() == translations([upper], "document")[0].split()
