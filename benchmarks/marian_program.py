"""Marian's own program: pymarian, of this Python or of the one that PYMARIAN_PYTHON names.

Its wheel has 600 MB, so an environment of its own is of use:

    python3.11 -m venv marian && marian/bin/pip install pymarian==1.12.42
    export PYMARIAN_PYTHON=$PWD/marian/bin/python
"""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

from tf_transformer.formats.marian.description import DECODER_NAME
from tf_transformer.formats.marian.folder import MODEL_NAME

PYTHON = os.environ.get("PYMARIAN_PYTHON", sys.executable)
_WORKSPACE = "256"  # MB
# Translations have at most this many times the tokens of the longest source in their batch.
_LENGTH_FACTOR = "10"
_PACKED_NAME = "model.bin"


@functools.cache
def is_installed() -> bool:
    """Returns whether the program is found."""
    code = "import importlib.util; raise SystemExit(not importlib.util.find_spec('pymarian'))"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


def run_marian(folder: pathlib.Path, command: str, *options: str) -> list[str]:
    """Runs a command with one thread, in the folder of a model.

    Args:
        folder: where `model.npz` is, or what `pack` made of it, and where relative paths in
            `options` begin.
        command: `train`, `score` or `decode`.
        options: further options, such as the vocabularies.

    Returns:
        The lines that it prints.

    Raises:
        RuntimeError: the program failed.
    """
    model = _PACKED_NAME if (folder / _PACKED_NAME).exists() else MODEL_NAME
    # Imported, its library of 1 GB would be in this process, next to TensorFlow's.
    done = subprocess.run(
        [
            *(PYTHON, "-m", "pymarian", command, "-m", model, "--quiet"),
            *("--cpu-threads", "1", "--workspace", _WORKSPACE, *options),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"pymarian {command}: {done.stderr[:2000]}")
    return done.stdout.splitlines()


def pack(folder: pathlib.Path, gemm_type: str) -> None:
    """Converts the model of a folder to Marian's binary format, and names it in `decoder.yml`.

    Args:
        folder: what `tf-transformer convert --to marian` writes; `model.npz` is removed.
        gemm_type: type of the matrices, such as `intgemm8` for 8-bit integers.

    Raises:
        RuntimeError: the program failed.
    """
    words = [PYTHON, "-m", "pymarian", "convert", "-f", MODEL_NAME, "-t", _PACKED_NAME]
    done = subprocess.run(
        [*words, "--gemm-type", gemm_type], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"pymarian convert: {done.stderr[-2000:]}")
    decoder = yaml.safe_load((folder / DECODER_NAME).read_text())
    (folder / DECODER_NAME).write_text(yaml.safe_dump(decoder | {"models": [_PACKED_NAME]}))
    (folder / MODEL_NAME).unlink()


def translate(
    folder: pathlib.Path,
    sentences: list[str],
    beam_size: int,
    description: str = "decoder.yml",
) -> list[tuple[str, float]]:
    """Translates without length normalization, and almost without a limit of the length.

    Args:
        folder: what `tf-transformer convert --to marian` writes, or Marian's trainer.
        sentences: the sentences.
        beam_size: width of the beam.
        description: name of the file that names the vocabularies.

    Returns:
        Translation and log-probability of each sentence.
    """
    found = _run(
        folder,
        "decode",
        {"input": sentences},
        *("--config", description, "--beam-size", str(beam_size), "--normalize", "0"),
        *("--max-length-factor", _LENGTH_FACTOR, "--n-best", "--input", "{input}"),
    )
    best: dict[int, tuple[str, float]] = {}
    for line in found:
        number, text, *_, log_prob = line.split(" ||| ")
        best.setdefault(int(number), (text, float(log_prob)))
    return [best[index] for index in range(len(sentences))]


def score(
    folder: pathlib.Path, vocabularies: list[str], sources: list[str], targets: list[str]
) -> list[list[float]]:
    """Returns the log-probability of each token of given translations, and of their ends.

    Args:
        folder: the folder of `model.npz`.
        vocabularies: names of the vocabularies of source and target.
        sources: the sentences.
        targets: their translations.
    """
    texts = {"source": sources, "target": targets}
    options = ["--vocabs", *vocabularies, "--train-sets", "{source}", "{target}", "--word-scores"]
    lines = _run(folder, "score", texts, *options)
    return [[float(word) for word in line.partition("WordScores=")[2].split()] for line in lines]


def _run(
    folder: pathlib.Path, command: str, texts: dict[str, list[str]], *options: str
) -> list[str]:
    """Runs a command with texts, whose files replace `{name}` among the options."""
    with tempfile.TemporaryDirectory() as work:
        paths = {name: pathlib.Path(work) / name for name in texts}
        for name, lines in texts.items():
            paths[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return run_marian(folder, command, *(option.format(**paths) for option in options))
