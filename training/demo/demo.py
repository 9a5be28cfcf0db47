"""The demonstration: from text to a SavedModel by the commands of this package."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import tqdm

from tf_transformer.errors import InputError
from training.demo.corpus import write_demonstration

# Settings with which a small model learns the demonstration corpus fast. It must copy numbers: so
# every digit is a piece, and attention sees by relative positions which digits are its neighbors.
_SETTINGS = (
    "vocabulary.split_digits=true",
    "model.num_encoder_layers=2",
    "model.num_decoder_layers=1",
    "model.relative_positions=keys",
    "model.dropout_rate=0",
    "data.batch_tokens=640",
    "optimization.warmup_steps=150",
    "optimization.learning_rate_factor=0.5",
    "optimization.checkpoint_every=100",
    "validation.translate_every=6",
)
_STEPS = 1100
_NUM_AVERAGED = 3
_VOCAB_SIZE = 1200
_NUM_SHOWN = 5
_SIGNATURE = "serving_default"

# A program that uses the SavedModel without this project.
_PROGRAM = """\
import tensorflow as tf, tensorflow_text
translate = tf.saved_model.load({saved_model!r}).signatures[{signature!r}]
english = {sentences!r}
for source, german in zip(english, translate(text=tf.constant(english))["translation"].numpy()):
    print(source, "->", german.decode())
"""


def run_demo(directory: pathlib.Path, seed: int = 1) -> None:
    """Makes the corpus, then trains, averages, evaluates, exports and translates with the export.

    Each stage after the corpus is a command that the user could type; it is printed before it runs.

    Args:
        directory: output folder; an interrupted demonstration is resumed in it.
        seed: seed of the corpus, the weights and the order of the data.

    Raises:
        InputError: a file in the place of the corpus has other text.
        SystemExit: a command failed; it has printed the reason.
    """
    started = time.monotonic()
    data, model, served = directory / "data", directory / "model", directory / "served"
    _announce(1, f"Write an English-German corpus of dates, times, amounts and counts to {data}")
    _write_corpus(data, seed)
    _announce(2, "Train a small Transformer on it")
    _run(
        "train",
        *("--source", data / "train.en", "--target", data / "train.de"),
        *("--validation-source", data / "validation.en"),
        *("--validation-target", data / "validation.de"),
        *("--model-dir", model, "--steps", _STEPS, "--vocab-size", _VOCAB_SIZE, "--seed", seed),
        *("--set", *_SETTINGS),
    )
    _announce(3, f"Make the mean of the last {_NUM_AVERAGED} checkpoints the model's weights")
    _run("average", "--model-dir", model, "--last", _NUM_AVERAGED)
    _announce(4, "Translate sentences that training has not seen, and compare with the reference")
    _run(
        "evaluate",
        *("--model-dir", model, "--source", data / "test.en", "--reference", data / "test.de"),
        *("--json", directory / "evaluation.json"),
    )
    _announce(5, "Export a SavedModel for TF Serving, and compare its answers with the model's")
    _run("export", "--model-dir", model, "--output", served, "--signatures", _SIGNATURE)
    _announce(6, "Translate unseen sentences with the SavedModel, without this project")
    sentences = (data / "test.en").read_text(encoding="utf-8").splitlines()[:_NUM_SHOWN]
    _translate_with(_newest_version(served), sentences, directory / "translate.py")
    minutes = (time.monotonic() - started) / 60
    print(
        f"\nAll that took {minutes:.1f} minutes. See how training went, and export everything that"
    )
    print("a SavedModel can answer (n best, alignments, scores, samples, options), with")
    _print_activation()
    _print_command("tensorboard", "--logdir", model / "logs")
    _print_command("tf-transformer", "export", "--model-dir", model, "--output", served)
    print("Try it in a browser, with the package's extra `web`, at http://localhost:8080, with")
    _print_command("tf-transformer", "web", "--model-dir", model)


def _print_activation() -> None:
    """Prints how a shell finds the commands, unless it finds them already, as after `make demo`."""
    script = pathlib.Path(sys.prefix, "bin", "activate")
    if shutil.which("tf-transformer") is None and script.is_file():
        near = script.is_relative_to(pathlib.Path.cwd())
        _print_command(".", script.relative_to(pathlib.Path.cwd()) if near else script)


def _write_corpus(data: pathlib.Path, seed: int) -> None:
    """Writes the corpus, but replaces no files that differ from it."""
    with tempfile.TemporaryDirectory() as directory:
        corpus = pathlib.Path(directory)
        write_demonstration(corpus, seed=seed)
        for path in corpus.iterdir():
            there = data / path.name
            if os.path.lexists(there) and there.read_bytes() != path.read_bytes():
                raise InputError(
                    f"{there} is not the demonstration's text for this seed; give another --out"
                )
        shutil.copytree(corpus, data, dirs_exist_ok=True)


def _announce(stage: int, what: str) -> None:
    print(f"\n[{stage}/6] {what}", flush=True)


def _print_command(*words: object) -> None:
    print(f"$ {shlex.join(map(str, words))}", flush=True)


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    _print_command("tf-transformer", *words)
    process = subprocess.Popen([sys.executable, "-m", "tf_transformer", *words])
    while True:
        try:
            status = process.wait()
            break
        except KeyboardInterrupt:
            continue  # the command has received Ctrl-C too, and is saving
    if status != 0:
        raise SystemExit(status)


def _newest_version(served: pathlib.Path) -> pathlib.Path:
    return served / str(
        max(int(entry.name) for entry in served.iterdir() if entry.name.isdecimal())
    )


def _translate_with(saved_model: pathlib.Path, sentences: list[str], program: pathlib.Path) -> None:
    text = _PROGRAM.format(saved_model=str(saved_model), signature=_SIGNATURE, sentences=sentences)
    program.write_text(text, encoding="utf-8")
    _print_command("python", "-I", program)
    with subprocess.Popen(
        [sys.executable, "-I", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        output, errors = _communicate(process)
    if process.returncode != 0:
        sys.stderr.write(errors)  # includes TensorFlow's messages
        raise SystemExit(process.returncode)
    print(output, end="")


def _communicate(process: subprocess.Popen) -> tuple[str, str]:
    """Waits for a program's output, and shows the elapsed time on a terminal."""
    with tqdm.tqdm(
        desc="loading the SavedModel", bar_format="{desc}: {elapsed}", leave=False, disable=None
    ) as progress:
        while True:
            try:
                return process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                progress.refresh()
