"""Runs the command line and collects prepared folders, trained weights, translations, scores."""

import contextlib
import io
import json
import pathlib
import random
import shutil

import h5py
import numpy as np
import sentencepiece

from benchmarks.same_numbers.numbers import Numbers, texts
from tf_transformer.__main__ import main as tf_transformer

MODEL = (
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.d_model=32",
    "model.d_ff=64",
    "model.num_heads=2",
    "model.dropout_rate=0.1",
    "model.max_length=40",
)
# A high learning rate from the first step, so that a single step changes the weights visibly.
SETTINGS = (
    "vocabulary.size=330",
    "data.batch_tokens=512",
    "optimization.warmup_steps=2",
    "optimization.learning_rate_factor=0.2",
    "validation.translate_every=0",
)
# Settings of the training runs that both versions do.
OF_PREPARED = (
    "model.norm_position=post",
    "model.attention_dropout_rate=0.1",
    "model.feed_forward_dropout_rate=0.1",
    "data.word_dropout=0.1",
    "optimization.micro_batches=2",
    "optimization.clip_norm=1.0",
    "optimization.average_decay=0.9",
    "optimization.smoothed_over=others",
)
OF_LANGUAGE_MODEL = ("model.decoder_only=true", "data.subword_dropout=0.1")
IN_BFLOAT16 = ("optimization.dtype=mixed_bfloat16", "model.relative_positions=keys_values")
# Steps that the earlier version trains, and from which both versions resume.
STEPS = {"translator": 150, "language model": 60}
# Without int8: since 968548d its weights have 64 levels instead of 127, so that products are exact
# on every x86-64 processor; earlier versions refuse to run on some.
DTYPES = ("float32", "bfloat16")
LINES = (
    "the red house 12 sees the old dog 345.",
    "the big bird 7 has the new boat 88.",
    "",
    "The SMALL tree finds nothing, and likes it!",
    "café 狗 🐶",
    "the old dog 1 likes the old dog 2. " * 9,  # longer than the model's limit
)
PROMPTS = ("das rote Haus 12", "das", "Der Café-HUND mag")


def run(*words: str | pathlib.Path) -> str:
    """Runs a command in this process and returns its standard output.

    Raises:
        RuntimeError: the command failed.
    """
    stream = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(stream):
        status = tf_transformer([str(word) for word in words])
    stream.flush()
    if status:
        raise RuntimeError(f"{words[0]} ended with status {status}")
    return stream.buffer.getvalue().decode()


def write(files: pathlib.Path) -> None:
    """Writes a corpus, a prepared folder, and two trained models with their checkpoints."""
    _write_corpus(files, "train", 300)
    _write_corpus(files, "validation", 20)
    for name, lines in (("lines.txt", LINES), ("prompts.txt", PROMPTS)):
        (files / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    _prepare(files, files / "prepared")
    for name, steps in STEPS.items():
        _train(files, files / name, steps, kind=name)


def earlier_models(files: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the models that `write` trained by name."""
    return {name: files / name for name in STEPS}


def _write_corpus(directory, part, count):
    draw = random.Random(part)
    adjectives = {"red": "rote", "small": "kleine", "old": "alte", "big": "große", "new": "neue"}
    nouns = {"house": "Haus", "tree": "Baum", "dog": "Hund", "boat": "Boot", "bird": "Vogel"}
    verbs = {"sees": "sieht", "has": "hat", "finds": "findet", "likes": "mag"}
    lines = {"en": [], "de": []}
    for _ in range(count):
        words = [draw.choice(list(x)) for x in (adjectives, nouns, verbs, adjectives, nouns)]
        first, second = draw.randrange(1000), draw.randrange(100)
        lines["en"].append(
            "the {} {} {first} {} the {} {} {second}.\n".format(*words, first=first, second=second)
        )
        words = [(adjectives | nouns | verbs)[word] for word in words]
        lines["de"].append(
            "das {} {} {first} {} das {} {} {second}.\n".format(*words, first=first, second=second)
        )
    for language, sentences in lines.items():
        (directory / f"{part}.{language}").write_text("".join(sentences), encoding="utf-8")


def _prepare(files, output):
    corpus = ("--source", files / "train.en", "--target", files / "train.de")
    run("prepare", *corpus, "--output", output, "--set", "vocabulary.size=330")


def _train(files, model_dir, steps, kind="translator", settings=(), prepared=None):
    words = ["--model-dir", model_dir, "--steps", steps, "--deterministic"]
    words += ["--validation-target", files / "validation.de"]
    if kind == "language model":
        settings = (*OF_LANGUAGE_MODEL, *settings)
    else:
        words += ["--validation-source", files / "validation.en"]
    if prepared:
        words += ["--prepared", prepared]
    else:
        words += ["--target", files / "train.de"]
        words += ["--source", files / "train.en"] if kind == "translator" else []
    run("train", *words, "--set", *MODEL, *SETTINGS, *settings)


def dump_training(numbers: Numbers, files: pathlib.Path, output: pathlib.Path) -> None:
    """Collects prepared shards, and weights of new runs and of runs that use the given files."""
    _prepare(files, output / "prepared")
    for path in sorted((output / "prepared").glob("*.tfrecord")):
        numbers.add("prepared folder", path.name, {"": np.frombuffer(path.read_bytes(), "uint8")})

    def train(case, name, steps, **options):
        _train(files, output / name, steps, **options)
        weights = _weights(output / name)
        numbers.add(f"trained weights, {case}", name, weights)

    train("1 step", "text", 1)
    numbers.add("vocabulary", "text", _pieces(output / "text" / "target.spm"))
    train("3 steps", "mixed_bfloat16", 3, settings=IN_BFLOAT16)
    train("3 steps", "language model", 3, kind="language model")
    prepared = files / "prepared"
    train("3 steps", "prepared before", 3, settings=OF_PREPARED, prepared=prepared)
    shutil.copytree(files / "translator", output / "resumed")
    train("resumed from before", "resumed", STEPS["translator"] + 2)


def _weights(model_dir):
    found = {}
    with h5py.File(model_dir / "model.weights.h5") as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found


def _pieces(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = range(model.vocab_size())
    return {
        "pieces": texts(map(model.id_to_piece, pieces)),
        "scores": [model.get_score(piece) for piece in pieces],
    }


def dump_outputs(
    numbers: Numbers, name: str, model_dir: pathlib.Path, files: pathlib.Path, output: pathlib.Path
) -> None:
    """Collects the translations or completions of a model directory, and its scores.

    Args:
        numbers: the collection.
        name: name of the model in it.
        model_dir: the model directory.
        files: folder of the corpus.
        output: folder to write to.
    """
    description = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    is_translator = not description["model"]["decoder_only"]
    if is_translator:
        command = ("translate", "--input", files / "lines.txt", "--n-best", "3")
    else:
        command = ("complete", "--input", files / "prompts.txt", "--max-tokens", "15")
    for dtype in DTYPES:
        answers = run(*command, "--model-dir", model_dir, "--dtype", dtype)
        numbers.add(f"{command[0]}, {dtype}", name, {"lines": texts(answers.splitlines())})
    copy = output / "evaluated"  # `evaluate` writes scores into the model directory
    shutil.copytree(model_dir, copy, ignore=shutil.ignore_patterns("*checkpoints", "logs"))
    source = ("--source", files / "validation.en") if is_translator else ()
    words = (*source, "--reference", files / "validation.de", "--json", copy / "evaluation.json")
    run("evaluate", "--model-dir", copy, *words)
    scores = json.loads((copy / "evaluation.json").read_text(encoding="utf-8"))
    for score, value in scores.items():
        if isinstance(value, int | float):
            numbers.add("evaluate", f"{name}, {score}", {"": value})
