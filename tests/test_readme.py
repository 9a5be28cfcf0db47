"""The commands and programs of README and of the first pages of the docs, run from their own text.

They are run in the order of the pages, in one directory.
"""

import gzip
import json
import pathlib
import re
import runpy
import shlex
import shutil
import warnings
from collections.abc import Iterator

import pytest
import urllib3
import zstandard

from tests.conftest import SMALL_SETTINGS
from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main, make_parser
from training.demo.corpus import write_demonstration
from training.settings import make_config, read_settings

ROOT = pathlib.Path(__file__).parents[1]
README, QUICK_START, PYTHON, KERAS_HUB, TRAINING, SERVING = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in (
        "README.md",
        *(f"docs/{page}.md" for page in ("quick-start", "python", "keras_hub", "training")),
        "docs/serving.md",
    )
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Of the other pages only the programs: what their commands need is tested elsewhere.
PROGRAMS = [block for block in BLOCK.findall(TRAINING + SERVING) if block[0] == "python"]
BLOCKS = [*BLOCK.findall(README + QUICK_START + PYTHON + KERAS_HUB), *PROGRAMS]
TEXT = "".join(block for _, block in BLOCKS)
SERVERS = {"rest": "localhost:8501", "grpc": "localhost:8500"}


def nested(settings: dict) -> dict:
    """Settings of the command line as those of a file."""
    sections: dict = {}
    for name, value in settings.items():
        section, _, inner = name.partition(".")
        sections.setdefault(section, {})[inner] = value
    return sections


# What the pages say, and what is run in its place, to take seconds. All else is run as it stands.
SMALL = " ".join(f"{name}={value}" for name, value in SMALL_SETTINGS.items())
SIZES = "num_encoder_layers=1, num_decoder_layers=1, d_model=32, d_ff=64, num_heads=2"
TWO_STEPS = {"optimization.steps": 2, "optimization.checkpoint_every": 2}
SHORTER = {
    "--preset tiny --steps 8000": f"--steps 2 --checkpoint-every 1 --set {SMALL}",
    "average --model-dir model --last 10": "average --model-dir model --last 2",
    "--output prepared": "--output prepared --vocab-size 400",
    "--output served\n": "--output served --signatures serving_default\n",
    "--output served  ": "--output served --signatures serving_default  ",
    "--output served_fit": "--output served_fit --signatures serving_default",
    '    "tiny", source_vocab_size=': f'    "tiny", {SIZES}, source_vocab_size=',
    "steps_per_epoch=500,\n    epochs=16": "steps_per_epoch=2,\n    epochs=1",
    "task.fit(english, german, batch_size=64)": "task.fit(english[:8], german[:8])",
    '"served_task", beam_size=4': '"served_task", signatures=["serving_default"]',
    '{"preset": "tiny", "optimization": {"steps": 4000}}': str(nested(SMALL_SETTINGS | TWO_STEPS)),
    'model_dir="model",\n    callbacks': 'model_dir="model-of-python",\n    callbacks',
}


# Commands that are only parsed. `evaluate` is run with another model directory; that this folder is
# one, `translate` and `export` show. tests/training/plots/test_pictures.py runs the others.
PARSED = (
    "evaluate --model-dir model_of_fit ",
    "attention --model-dir model --text 'The museum opens at 3 a.m.' --output attention.png",
    "picture search --model-dir model ",
)


def write_texts(corpus: pathlib.Path, directory: pathlib.Path) -> None:
    """Writes the files that the commands read, under the names of the pages."""
    for side in ("en", "de"):
        lines = {
            name: (corpus / f"{name}.{side}").read_bytes().splitlines(keepends=True)
            for name in ("train", "validation", "test")
        }
        (directory / f"train.{side}").write_bytes(b"".join(lines["train"]))
        (directory / f"val.{side}").write_bytes(b"".join(lines["validation"][:8]))
        (directory / f"test.{side}").write_bytes(b"".join(lines["test"][:8]))
        first, second = (b"".join(lines["train"][part::2]) for part in (0, 1))
        (directory / f"a.{side}.gz").write_bytes(gzip.compress(first))
        (directory / f"b.{side}.zst").write_bytes(zstandard.ZstdCompressor().compress(second))
    (directory / "some.en").write_bytes(b"".join(lines["test"][8:12]))


def commands(block: str) -> Iterator[list[str]]:
    """The words of every command of a block for the shell, without comments."""
    for line in block.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def run_command(program: str, *words: str) -> None:
    """Runs a command of this project; of other programs', checks all but the program."""
    if program == "tf-transformer" and words[0] == "web":  # it would not end
        option, model_dir = words[1:]
        assert option == "--model-dir" and pathlib.Path(model_dir, "config.json").is_file()
    elif program == "tf-transformer" and shlex.join(words).startswith(PARSED):
        assert callable(make_parser().parse_args(words).run)
    elif program == "tf-transformer":
        assert main(words) == 0
    elif program == ".":  # what demo.py prints, too
        assert words == (".venv/bin/activate",)
    elif program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "sh":  # tests/test_examples.py runs it
        assert (ROOT / words[0]).is_file()
    elif program == "tensorboard":
        assert list(pathlib.Path(words[words.index("--logdir") + 1]).rglob("*tfevents*"))
    elif program == "docker":
        mounted = words[words.index("-v") + 1].removeprefix("$PWD/")
        here, _, there = mounted.partition(":")
        named = [word.partition(f"={there}/")[2] for word in words if f"={there}/" in word]
        assert named and all(pathlib.Path(here, name).is_file() for name in named)
    elif program == "curl":
        option, body, address = words
        assert option == "-d"
        answer = urllib3.request("POST", f"http://{address}", body=body.encode())
        assert answer.status == 200, answer.data
        assert len(answer.json()["outputs"]["translation"]) == len(
            json.loads(body)["inputs"]["text"]
        )
    else:
        pytest.fail(f"a page calls `{program}`: say in run_command how it is tested")


@pytest.mark.slow
def test_all_blocks_run_in_order(unverified, corpus, trained, tmp_path, monkeypatch, capfd):
    write_texts(corpus.directory, tmp_path)
    shutil.copytree(trained, tmp_path / "demo-out" / "model")  # in place of `make demo`
    monkeypatch.chdir(tmp_path)
    done = set()
    with serve("rest", Behaviour()) as rest, serve("grpc", Behaviour()) as grpc:
        addresses = {SERVERS["rest"]: rest, SERVERS["grpc"]: grpc}
        for number, (language, block) in enumerate(BLOCKS):
            for long, short in (SHORTER | addresses).items():
                block = block.replace(long, short)
            file = tmp_path / f"block{number}.{language}"
            file.write_text(block, encoding="utf-8")
            if language == "sh":
                for words in commands(block):
                    if tuple(words) not in done:  # the quick start repeats commands of README
                        run_command(*words)
                    done.add(tuple(words))
            elif language == "python":
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", ".*(ran out of data|shuffle)")  # Keras' own
                    runpy.run_path(str(file))
            elif language == "yaml":
                make_config(read_settings(file, {}))
            else:
                pytest.fail(f"a page has a block of {language}: say here how it is tested")
    assert (tmp_path / "model" / "training.png").exists()
    assert len((tmp_path / "some.de").read_text().splitlines()) == 4
    assert "(2, 7, 64)" in capfd.readouterr().out
    for file in ("config.json", "model.weights.h5", "source.spm", "target.spm"):
        expected = (tmp_path / "model" / file).read_bytes()
        assert (tmp_path / "another_model" / file).read_bytes() == expected
    assert len((tmp_path / "some_of_fit.de").read_text().splitlines()) == 4
    assert (tmp_path / "best.keras").exists()
    for served in ("served_task", "served_fit"):
        assert (tmp_path / served / "1" / "saved_model.pb").exists()


def test_there_are_blocks_of_each_kind():
    assert {"sh", "python", "yaml"} <= {language for language, _ in BLOCKS}
    for text in (*SHORTER, *SERVERS.values()):
        assert text in TEXT
    written = [
        shlex.join(words) for kind, text in BLOCKS if kind == "sh" for words in commands(text)
    ]
    for command in PARSED:
        assert any(words.startswith(f"tf-transformer {command}") for words in written), command
    assert len(PROGRAMS) >= 2


def test_best_says_how_many():
    assert re.search(r"--best \d", TEXT)
    assert not re.search(r"--best(?! \d)", TEXT)


@pytest.mark.slow
def test_sentences_are_known_to_the_demonstration(tmp_path):
    """Those that it prints, with right translations, and those to try on its model."""
    write_demonstration(tmp_path)
    source, target = ((tmp_path / f"test.{side}").read_text("utf-8") for side in ("en", "de"))
    unseen = dict(zip(source.splitlines(), target.splitlines(), strict=True))
    printed = re.findall(r"^(.+) -> (.+\.)$", README, re.MULTILINE)
    assert printed == list(unseen.items())[:5]
    for page in (README, QUICK_START, KERAS_HUB, SERVING):
        tried = re.findall(r'--text "([^"]+)"', page)
        for texts in re.findall(
            r'(?:"text": |constant\(|translator\(|generate\(|fit\()(\["[^\]]+\])', page
        ):
            tried += json.loads(texts)
        assert len(tried) >= 2
        assert set(tried) <= set(unseen), set(tried) - set(unseen)


def test_readme_is_an_overview():
    """What it is, two commands, and where everything else is."""
    assert len(README.splitlines()) <= 150
    linked = set(re.findall(r"\]\(docs/([\w.-]+\.md)\)", README))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")}
