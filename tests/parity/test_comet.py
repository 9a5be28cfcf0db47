"""COMET against its own program, `comet-score`, by models of random weights.

The Python of an environment with unbabel-comet is named by the environment variable COMET_PYTHON;
`make test-comet` makes one.
"""

import json
import os
import pathlib
import re
import subprocess
import sysconfig

import numpy as np
import pytest

from training.evaluation.metrics import MetricSettings, make_metrics

if "COMET_PYTHON" not in os.environ:
    pytest.skip("COMET_PYTHON names no Python with unbabel-comet", allow_module_level=True)

pytestmark = [pytest.mark.parity, pytest.mark.slow]
PYTHON = pathlib.Path(os.environ["COMET_PYTHON"])
SENTENCES = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comet")
    program = pathlib.Path(__file__).with_name("comet_models.py")
    subprocess.run([PYTHON, program, folder], check=True)
    rng = np.random.default_rng(11)
    words = np.array(["haus", "am", "see,", "die", "katze.", "x", "weltraum!", "12", ""])
    for name in ("src", "ref", "ref2", "hyp"):
        lines = [" ".join(rng.choice(words, rng.integers(1, 30))) for _ in range(SENTENCES)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def lines_of(folder, name):
    return (folder / name).read_text().split("\n")[:-1]


def program_scores(folder, model, reference):
    """What `comet-score` prints: the score of the text, and those of the sentences."""
    given = ["-s", "src", "-t", "hyp", *(["-r", reference] if reference else [])]
    given += ["--model", str(folder / model / "checkpoints" / "model.ckpt"), "--gpus", "0"]
    program = PYTHON.with_name("comet-score" + sysconfig.get_config_var("EXE"))
    printed = subprocess.run(
        [program, *given, "--to_json", f"{model}.json"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    sentences = [row["COMET"] for row in json.loads((folder / f"{model}.json").read_text())["hyp"]]
    return re.search(r"^hyp\tscore: (-?[0-9.]+)$", printed, re.M)[1], sentences


def test_scores_are_those_of_the_program(folder):
    sources, hypotheses, *references = (lines_of(folder, x) for x in ("src", "hyp", "ref", "ref2"))
    for model, reference in (("regression", "ref"), ("referenceless", None)):
        score, sentences = program_scores(folder, model, reference)
        settings = MetricSettings(comet_model=str(folder / model), comet_python=PYTHON)
        metric = make_metrics(["comet"], settings)["comet"]
        found = metric.score(hypotheses, references[:1], sources)
        assert metric.format(found.value) == score
        assert metric.sentence_scores(hypotheses, references[:1], sources) == sentences
        assert len(set(sentences)) > SENTENCES / 2
        assert re.fullmatch(
            rf"nrefs:1\|model:{folder / model}\|checkpoint:[0-9a-f]{{16}}\|version:2[.0-9]+",
            found.signature,
        )
        both = metric.sentence_scores(hypotheses, references, sources)
        assert (both == sentences) == (model == "referenceless")
