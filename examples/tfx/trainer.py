"""The `run_fn` of TFX's Trainer: trains on the pipeline's examples and exports a SavedModel.

The examples are TFRecords of `tf.train.Example` with two features, `source` and `target`, one
string each, as CsvExampleGen makes them from a table. They are written to text files, on which
`training.train` works.

`custom_config` of the Trainer:

- `settings`: the settings of the model, nested as in a YAML file of `tf-transformer train`.
- `work_dir`: a local folder that outlives the execution, so that a repeated one resumes; without
  it, the execution's own folder.
- `backup`: URL on object storage, see `tf-transformer train --backup`; a subfolder per corpus is
  added.
"""

import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

import export
import training
from tf_transformer import Translator

_FEATURES = {name: tf.io.FixedLenFeature([], tf.string) for name in ("source", "target")}


def run_fn(fn_args: Any) -> None:
    """Trains, and writes the SavedModel to `fn_args.serving_model_dir`.

    Args:
        fn_args: TFX's `FnArgs`. Used are `train_files`, `eval_files`, `train_steps`,
            `model_run_dir`, `serving_model_dir` and `custom_config`.

    Raises:
        RuntimeError: training was stopped by a signal, after saving; run the component again.
    """
    custom = fn_args.custom_config or {}
    corpus = write_texts(
        {"train": fn_args.train_files, "eval": fn_args.eval_files},
        pathlib.Path(custom.get("work_dir") or fn_args.model_run_dir),
    )
    result = training.train(
        training.make_config(with_steps(custom.get("settings", {}), fn_args.train_steps)),
        corpus=training.TextPair(corpus / "train.source", corpus / "train.target"),
        validation=training.TextPair(corpus / "eval.source", corpus / "eval.target"),
        model_dir=corpus / "model",
        backup=f"{custom['backup']}/{corpus.name}" if custom.get("backup") else None,
    )
    if result.stopped_by is not None:
        raise RuntimeError(f"stopped by {result.stopped_by.name}, and saved at step {result.step}")
    if result.is_chief:
        write_saved_model(corpus / "model", fn_args.serving_model_dir)
        copy_folder(corpus / "model" / "logs", os.path.join(fn_args.model_run_dir, "logs"))


def with_steps(settings: Mapping[str, Any], steps: int | None) -> dict[str, Any]:
    """Returns the settings with the number of steps that TFX's `TrainArgs` gives, if any."""
    optimization = dict(settings.get("optimization", {}))
    return {**settings, "optimization": optimization | ({"steps": steps} if steps else {})}


def write_texts(patterns: Mapping[str, list[str]], work_dir: pathlib.Path) -> pathlib.Path:
    """Writes the examples as parallel text, one pair per line.

    Args:
        patterns: for each split, file names or patterns of TFRecords.
        work_dir: the folder that the texts' folder is in.

    Returns:
        The folder of `SPLIT.source` and `SPLIT.target`. It is named by the digest of its texts, so
        that the same examples resume a run, and new ones begin another.
    """
    work_dir.mkdir(parents=True, exist_ok=True)
    digest = hashlib.blake2b(digest_size=16)
    with tempfile.TemporaryDirectory(dir=work_dir) as name:
        folder = pathlib.Path(name, "texts")
        folder.mkdir()
        for split, split_patterns in patterns.items():
            with (
                open(folder / f"{split}.source", "wb") as sources,
                open(folder / f"{split}.target", "wb") as targets,
            ):
                for source, target in read_pairs(split_patterns):
                    sources.write(source + b"\n")
                    targets.write(target + b"\n")
                    digest.update(source + b"\n" + target + b"\n")
            digest.update(split.encode() + b"\n")
        corpus = work_dir / digest.hexdigest()
        if not corpus.exists():
            folder.rename(corpus)
    return corpus


def read_pairs(patterns: list[str]) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of all examples, in the order of the files' names."""
    for path in sorted(path for pattern in patterns for path in tf.io.gfile.glob(pattern)):
        compression = "GZIP" if path.endswith(".gz") else ""
        examples = tf.data.TFRecordDataset(path, compression).batch(1024)
        for batch in examples.map(lambda records: tf.io.parse_example(records, _FEATURES)):
            for pair in zip(batch["source"].numpy(), batch["target"].numpy(), strict=True):
                source, target = (b" ".join(text.splitlines()) for text in pair)
                yield source, target


def write_saved_model(model_dir: pathlib.Path, serving_model_dir: str) -> None:
    """Exports and verifies the model, and copies the SavedModel to where TFX expects it."""
    translator = Translator.load(model_dir)
    with tempfile.TemporaryDirectory() as name:
        version = export.export_translator(translator, pathlib.Path(name, "served"))
        copy_folder(version, serving_model_dir)


def copy_folder(source: pathlib.Path, target: str) -> None:
    """Copies a local folder through TensorFlow's file systems, so that `target` may be `gs://...`."""
    for path in source.rglob("*"):
        if path.is_file():
            copy = os.path.join(target, path.relative_to(source))
            tf.io.gfile.makedirs(os.path.dirname(copy))
            with open(path, "rb") as file, tf.io.gfile.GFile(copy, "wb") as written:
                shutil.copyfileobj(file, written)
