"""`python -m benchmarks.engines`: shortlists, medians, messages of processes, the picture."""

import json
import pathlib
import sys

import numpy as np
import pytest

from benchmarks.engines.__main__ import main
from benchmarks.engines.measurement import Case, Turn
from benchmarks.engines.picture import spread
from benchmarks.engines.results import points, table
from benchmarks.engines.translators import ENGINES, CTranslate2
from benchmarks.engines.variants import VARIANTS, Request
from benchmarks.worker_process import WorkerProcess
from tests.tf_transformer.formats.random_model import (
    SOURCES,
    train_vocabularies,
    write_random_model,
)
from tf_transformer.text.special_ids import END_ID
from tf_transformer.text.vocabulary import Vocabulary


@pytest.mark.slow
def test_ctranslate2_uses_the_shortlist(tmp_path):
    """The translations of a random model have the pieces of the shortlist and no others."""
    pytest.importorskip("ctranslate2")
    models = train_vocabularies(joint=False)
    write_random_model(tmp_path / "model", models)
    pieces = Vocabulary(models[1]).pieces
    allowed = [END_ID, *range(10, 30)]
    first = f"{Vocabulary(models[0]).pieces[10]}\t{pieces[10]}\n"
    last = "\t" + " ".join(pieces[index] for index in allowed) + "\n"
    (tmp_path / "shortlist").write_text(first + last, encoding="utf-8")
    found = {}
    files = {"shortlist": tmp_path / "shortlist"}
    for name in ("CTranslate2 int8", "CTranslate2 int8, shortlist"):
        folder = tmp_path / name
        VARIANTS[name].write(Request(tmp_path / "model", folder, 1, files))
        texts = CTranslate2(folder, beam_size=1, threads=1).translate(SOURCES[:20])
        found[name] = set("".join(texts).replace(" ", ""))
    characters = {*"".join(pieces[index] for index in allowed)} | {*"⁇"}
    assert (
        found["CTranslate2 int8, shortlist"] and found["CTranslate2 int8, shortlist"] <= characters
    )
    assert not found["CTranslate2 int8"] <= characters


def _turn(seconds, single):
    return Turn(2 * seconds, seconds, single, 3 * 2**20, ["a cat sits there", "b"])


def test_points_are_medians():
    case = Case("teacher", "CTranslate2 int8", 4, pathlib.Path())
    turns = {case: [_turn(1.0, [0.1, 0.3]), _turn(9.0, [0.5, 0.3]), _turn(2.0, [0.2, 0.1])]}
    (point,), signature = points(turns, ["a b c", " d"], ["a cat sits there", "b"])
    assert point["words_per_second"] == 4 / 2.0
    assert point["cold_start_s"] == 4.0
    assert point["memory_mb"] == 3
    assert point["p50_ms"] == pytest.approx(250)  # of the medians 0.2 and 0.3
    assert point["bleu"] == pytest.approx(100)
    assert "tok:13a" in signature
    assert table([point])[-1].startswith(
        "| teacher | CTranslate2 int8 | 4 | 2 | 250.0 | 299.0 | 3 |"
    )


def test_a_process_that_fails_says_why():
    program = "import sys; print('reason', file=sys.stderr); raise SystemExit(3)"
    worker = WorkerProcess("name", [sys.executable, "-c", program])
    with pytest.raises(RuntimeError, match=r"name: the process ended with status 3\nreason"):
        worker.ask({})
    worker.close()


def test_answers_are_not_mixed_with_what_libraries_print():
    program = (
        "from benchmarks.worker_process import answer_requests\n"
        "answer_requests(lambda: print('noise') or (lambda request: {'got': request}))"
    )
    worker = WorkerProcess("name", [sys.executable, "-c", program])
    assert worker.ask({"text": "é"}) == {"got": {"text": "é"}}
    worker.close()


def test_heights_are_spread():
    assert spread([0.0, 10.0, 30.0], 5.0) == [0.0, 10.0, 30.0]
    assert spread([0.0, 1.0, 30.0], 5.0) == [-2.0, 3.0, 30.0]
    found = spread([0.0, 4.0, 5.0, 6.0], 5.0)
    assert np.diff(found).min() >= 5 and sum(found) == pytest.approx(15)


def test_engines_exist():
    assert {variant.engine for variant in VARIANTS.values()} == set(ENGINES)


@pytest.mark.slow
def test_picture_from_results(tmp_path, capsys):
    rows = [
        {
            "model": model,
            "engine": engine,
            "beam_size": beam_size,
            "bleu": 30 + beam_size / 4,
            "words_per_second": 1000.0 / beam_size,
            **dict.fromkeys(("p50_ms", "p99_ms", "memory_mb", "cold_start_s"), 1.0),
        }
        for model in ("teacher", "student")
        for engine in VARIANTS
        for beam_size in (1, 4)
    ]
    results = {"points": rows, "bleu_signature": "signature", "failures": {}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    figure = tmp_path / "figure.svg"
    words = ["engines", "--from", str(tmp_path / "results.json"), "--output-figure", str(figure)]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(sys, "argv", words)
        main()
    assert end.value.code == 0
    assert figure.read_text().count("<svg") == 1
    assert "| student | Marian int8 | 4 | 250 |" in capsys.readouterr().out
