"""The demonstration: from text to a served translation, by the tool's own commands."""

import pathlib
import shlex
import subprocess
import sys
import time

from training.demo.corpus import write_demonstration

# Settings of the small model that learns the demonstration's language.
_SETTINGS = (
    "model.num_encoder_layers=2",
    "model.num_decoder_layers=2",
    "model.d_ff=512",
    "model.dropout_rate=0.0",
    "vocabulary.kind=unigram",
    "vocabulary.split_digits=true",
    "vocabulary.character_coverage=1.0",
    "optimization.warmup_steps=300",
    "optimization.learning_rate_factor=0.5",
    "optimization.checkpoint_every=250",
    "data.batch_tokens=1500",
)
_STEPS = 2500
_NUM_AVERAGED = 3
_VOCAB_SIZE = 500
_NUM_SHOWN = 5

# What a user of the SavedModel writes, and nothing of this project.
_FIVE_LINES = """\
import tensorflow as tf, tensorflow_text
translate = tf.saved_model.load({saved_model!r}).signatures["serving_default"]
english = {sentences!r}
for source, german in zip(english, translate(text=tf.constant(english))["translation"].numpy()):
    print(source, "->", german.decode())
"""


def run_demo(directory: pathlib.Path) -> None:
    """Makes the corpus, then trains, averages, evaluates, exports and translates with the export.

    Each stage is a command that the user could type; it is printed before it runs.

    Args:
        directory: where everything is written; a demonstration that was interrupted goes on.

    Raises:
        SystemExit: a command failed; it has said why.
    """
    started = time.monotonic()
    data, model, served = directory / "data", directory / "model", directory / "served"
    print(f"Writing an English-German corpus of dates, times, amounts and counts to {data}")
    write_demonstration(data)
    _run(
        "train",
        *("--source", data / "train.en", "--target", data / "train.de"),
        *("--validation-source", data / "validation.en"),
        *("--validation-target", data / "validation.de"),
        *("--model-dir", model, "--steps", _STEPS, "--vocab-size", _VOCAB_SIZE),
        *("--set", *_SETTINGS),
    )
    _run("average", "--model-dir", model, "--last", _NUM_AVERAGED)
    _run(
        "evaluate",
        *("--model-dir", model, "--source", data / "test.en", "--reference", data / "test.de"),
        *("--json", directory / "evaluation.json"),
    )
    _run("export", "--model-dir", model, "--output", served)
    minutes = (time.monotonic() - started) / 60
    print(f"\nAll that took {minutes:.1f} minutes. Watch the training's curves with")
    print(f"  tensorboard --logdir {model / 'logs'}")
    sentences = (data / "test.en").read_text(encoding="utf-8").splitlines()[:_NUM_SHOWN]
    newest = max(int(entry.name) for entry in served.iterdir() if entry.name.isdigit())
    _translate_with(served / str(newest), sentences)


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    print(f"\n$ {shlex.join(['tf-transformer', *words])}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", "tf_transformer", *words])
    while True:
        try:
            status = process.wait()
            break
        except KeyboardInterrupt:
            continue  # the command got it too, and takes its time to save
    if status != 0:
        raise SystemExit(status)


def _translate_with(saved_model: pathlib.Path, sentences: list[str]) -> None:
    print("Unseen sentences, translated by the SavedModel in a fresh process:", flush=True)
    program = _FIVE_LINES.format(saved_model=str(saved_model), sentences=sentences)
    process = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    if process.returncode != 0:
        sys.stderr.write(process.stderr)
        raise SystemExit(process.returncode)
    print(process.stdout, end="")
