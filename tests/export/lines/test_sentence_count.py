"""Lines that look like several sentences are counted, and reported once."""

import pytest

from export.lines.sentence_count import SentenceCount
from tests.serving_stub import SIGNATURES, Behaviour, serve
from tf_transformer.__main__ import main

SEVERAL = (
    "Jan paid $548 for the horse. Laura buys 3 horses.",
    "“Stop!” He ran away.",
    "Wait... What?",
    "The meeting of 1990. The next year was better.",
    "Er sagte: »Komm!« Dann ging er.",
    "See page 3 (or 4). It is long.",
    "他来了。她走了。",
    "これは本です。それはペンです。",
    "هل أنت هنا؟ نعم أنا هنا.",
    "यह एक किताब है। वह एक कलम है।",
    "A title\u2028and its text",
    "<2de> One. Two.",
)
ONE = (
    "",
    "Jan paid $548 for the horse.",
    "The museum opens at 3 a.m. on Monday.",
    "Prof. Dr. Maier wohnt in der Hauptstr. 5, z.B. im Nr. 3.",
    "J. R. R. Tolkien wrote it, didn't he?!",
    "Wait... what",
    '"Is it you?" she asked.',
    "1. First item: 3.50 (see Fig. 2)",
    "你好吗？",
    "!!! ... ???",
    "¿Qué?",
)
REPORT = "tf-transformer: lines that look like several sentences, of which the end may be missing: "


@pytest.mark.parametrize("text", SEVERAL)
def test_several_sentences(text):
    count = SentenceCount()
    count.add(text.encode())
    assert count.num_several == 1


@pytest.mark.parametrize("text", ONE)
def test_one_sentence(text):
    count = SentenceCount()
    count.add(text.encode())
    assert count.num_several == 0


def test_the_time_is_linear_in_the_length():
    """A megabyte of what could end a sentence."""
    count = SentenceCount()
    for text in ("." * 2**20, ". " * 2**19, "?!" * 2**19):
        count.add(text.encode())
    assert count.num_several == 0


def translate(options, directory, behaviour):
    source = directory / "source"
    source.write_text("\n".join([*SEVERAL, *ONE]), encoding="utf-8")
    with serve("rest", behaviour) as address:
        command = ["translate", "--server", address, "--input", str(source)]
        assert main([*command, "--output", str(directory / "output"), *options]) == 0
    assert len((directory / "output").read_text(encoding="utf-8").split("\n")) > len(SEVERAL)


def test_a_run_reports_their_number_once(tmp_path, capsys):
    translate([], tmp_path, Behaviour())
    error = capsys.readouterr().err
    assert error.endswith(
        f"{REPORT}{len(SEVERAL)}; use --split-sentences, for which the exported model needs the "
        "signature `document`\n"
    )
    assert error.count(REPORT) == 1


def test_a_model_that_has_the_signature_needs_none(tmp_path, capsys):
    specs = {"document": SIGNATURES["serving_default"], **SIGNATURES}
    translate([], tmp_path, Behaviour(specs=specs))
    assert capsys.readouterr().err.endswith(f"{REPORT}{len(SEVERAL)}; use --split-sentences\n")


def test_options_that_split_nothing(capsys):
    count = SentenceCount()
    count.add(SEVERAL[0].encode())
    count.report(can_split=False)
    assert capsys.readouterr().err == f"{REPORT}1; give one sentence per line\n"


@pytest.mark.parametrize("option", ["--split-sentences", "--no-split-sentences"])
def test_who_has_decided_is_told_nothing(tmp_path, capsys, option):
    specs = {"document": SIGNATURES["serving_default"], **SIGNATURES}
    behaviour = Behaviour(specs=specs)
    behaviour.answers = {**behaviour.answers, "document": behaviour.answers["serving_default"]}
    translate([option], tmp_path, behaviour)
    assert REPORT not in capsys.readouterr().err


def test_a_resumed_run_reports_those_of_the_whole_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("export.commands.translate_cli.BATCH_SIZE", 4)
    options = ["--max-batch-size", "1"]
    behaviour = Behaviour()
    (tmp_path / "source").write_text("\n".join([*SEVERAL, "gone"]), encoding="utf-8")
    with serve("rest", behaviour) as address:
        command = ["translate", "--server", address, "--input", str(tmp_path / "source")]
        command += ["--output", str(tmp_path / "output"), *options]
        assert main(command) == 2
        assert REPORT not in capsys.readouterr().err
        monkeypatch.setattr("tests.serving_stub._check_model", lambda *_: None)
        assert main(command) == 0
    error = capsys.readouterr().err
    assert "resuming after" in error
    assert f"{REPORT}{len(SEVERAL)};" in error
