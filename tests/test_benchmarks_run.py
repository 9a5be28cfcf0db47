"""Every benchmark runs to its end with tiny sizes, and prints a table."""

import pathlib
import subprocess
import sys

import pytest

from tests.test_benchmarks import MODULES, ROOT
from tf_transformer.__main__ import main

pytestmark = pytest.mark.exhaustive

_MODEL = "--model-dir {model}"
_PAIRS = "--source {data}/test.en --target {data}/test.de"
# Words after the name; a second entry of the same benchmark is another of its ways.
COMMANDS = {
    "batch_mates": f"{_MODEL} --sentences {{lines}} --dtypes float32 --rows 1 4",
    "beam_prepare": "--directory {work} --pairs 2000 --kills 1 --runs processes direct",
    "bulk": f"{_MODEL} --directory {{work}} --source {{lines}} --lines 40 --kills 1",
    "capitals": f"{_MODEL} --source {{data}}/test.en --reference {{data}}/test.de --beam-size 1",
    "choices": "--vocab-sizes 100 --rows 1 --rounds 1",
    "chunks": f"{_MODEL} --source {{lines}} --sizes 2 4 --rounds 1",
    "cold_start": "{exported} --rounds 1",
    "compiled_answers": f"{_MODEL} --sentences {{lines}} --limit 4 --beams 1 --rows 1",
    "converted": f"{_MODEL} --sentences {{lines}} --limit 4 --formats ctranslate2",
    "decode": f"{_MODEL} --sentences {{lines}} --preset= --batches 1 --beams 1 --threads 1 "
    "--rounds 1 --natural 4 --single 2 --systems {float32}",
    "drafts": "--model-dir {drafting} --source {lines} --sentences 16",
    "engines": f"{_MODEL} --source {{lines}} --reference {{references}} --rounds 1 --single 2 "
    "--beams 1 --engines {float32}",
    "growth": f"{_MODEL} --sentences {{data}}/test.en --preset= --batch 2 --lengths 2 4 "
    "--beams 1 --rounds 1",
    "import_memory": "--layers 1 --d-model 32 --d-ff 64 --heads 2 --vocab-size 300",
    "ingredients": f"{_PAIRS} --vocab-size 400 --rounds 1 --steps 1",
    "kills": "--kills 2",
    "language_id": "--directory {work} --corpus en={data}/train.en de={data}/train.de "
    "--test en={data}/test.en de={data}/test.de --no-speed",
    "large_t5": "--layers 1 --d-model 32 --d-kv 16 --d-ff 64 --heads 2 --vocab-size 400",
    "loops": f"{_MODEL} --source {{lines}} --sentences 2 --rounds 1",
    "load": "--saved-model {exported}/1 --requests 10 --callers 1 2",
    "markup": "--documents 20",
    "norms": f"{_MODEL} --sentences {{data}}/test.en --preset= --batch 40 --beam 1 --rounds 1",
    "prepare": "--directory {work} --pairs 4000 --processes 1 --seconds 1",
    "products": "--shape 8 8 --rows 1 --megabytes 1",
    "report_page": "--sentences 20 --systems 2 --opens 1",
    "row_rounding": "--inputs 8 --outputs 8 --rows 3",
    "same_answers": f"--against HEAD {_MODEL} --source {{lines}} --sentences 4",
    "same_numbers": "--against HEAD",
    "same_speed": "--against HEAD --rounds 1 --presets tiny",
    "sentences": "en={data}/test.en --pysbd {work} --documents 4",
    "terms": f"{_MODEL} {_PAIRS} --sentences 4 --terms 1 --rounds 1",
    "train": f"{_PAIRS} --presets tiny --systems tf_transformer --dtypes float32 --threads 1 "
    "--rounds 1 --steps 1 --batches 2 --batch-tokens 512 --vocab-size 400 --memory 0",
    "utilities": "--text {data}/test.de --candidates 4 --sentences 1",
    "ways": f"{_MODEL} --source {{lines}} --sentences 4 --batch-size 2 --adapters 1 --rank 2 "
    "--samples 2 --rounds 1",
    "web": "--requests 4 --callers 1 --rounds 1",
    "where_time_goes": f"{_MODEL} --sentences {{data}}/test.en --preset= --batch 2 --beam 1",
    "where_training_time_goes": f"{_PAIRS} --preset tiny --vocab-size 400 --steps 1",
    "workers": "--prepared {prepared} --validation-source {data}/validation.en "
    "--validation-target {data}/validation.de --workers 1 --steps 2",
}
# Packages that some need beside those of the extra `dev`.
NEEDS = {"beam_prepare": "apache_beam", "sentences": "pysbd"}


@pytest.fixture(scope="module")
def drafting(talkative, corpus, tmp_path_factory) -> pathlib.Path:
    """A model directory with draft heads of one step of training."""
    model_dir = tmp_path_factory.mktemp("drafting") / "model"
    options = ["--init-from", str(talkative), "--draft-heads", "2", "--steps", "1"]
    assert main(["train", "--model-dir", str(model_dir), *corpus.options, *options]) == 0
    return model_dir


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory) -> pathlib.Path:
    """The training text as a prepared folder."""
    folder = tmp_path_factory.mktemp("prepared") / "folder"
    options = ["--source", corpus.path("train.en"), "--target", corpus.path("train.de")]
    assert main(["prepare", *options, "--vocab-size", "400", "--output", str(folder)]) == 0
    return folder


def test_every_benchmark_has_a_command():
    programs = {
        module.removeprefix("benchmarks.").removesuffix(".__main__")
        for module in MODULES
        if "ArgumentParser("
        in (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    }
    assert programs == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_prints_a_table(name, request, corpus, talkative, exported, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    for number, side in enumerate(("en", "de")):
        lines = pathlib.Path(corpus.path(f"test.{side}")).read_text(encoding="utf-8").splitlines()
        (tmp_path / str(number)).write_text("\n".join(lines[:16]) + "\n", encoding="utf-8")
    places = {
        "data": corpus.directory,
        "exported": exported,
        "float32": "SavedModel float32",
        "lines": tmp_path / "0",
        "model": talkative,
        "references": tmp_path / "1",
        "work": tmp_path / "work",
    }
    for fixture in ("drafting", "prepared"):
        if f"{{{fixture}}}" in COMMANDS[name]:
            places[fixture] = request.getfixturevalue(fixture)
    words = [word.format_map(places) for word in COMMANDS[name].split()]
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("|") > 4
