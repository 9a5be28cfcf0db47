"""examples/tfx: `run_fn` with a stand-in for TFX's arguments, and with TFX's own executors."""

import importlib
import importlib.util
import json
import pathlib
import signal
import sys
import types

import pytest
import tensorflow as tf

from tests.conftest import SMALL_SETTINGS, small_config
from tf_transformer.storage.model_dir import weights_digest
from training.callbacks.callbacks import StopAtStep

FOLDER = pathlib.Path(__file__).parents[1] / "examples" / "tfx"
STEPS = 10


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings():
    nested: dict = {}
    for name, value in (SMALL_SETTINGS | {"optimization.checkpoint_every": 5}).items():
        part, _, field = name.partition(".")
        nested.setdefault(part, {})[field] = value
    return nested


@pytest.fixture(scope="module")
def examples(corpus, tmp_path_factory):
    """An artifact of TFX: TFRecords in a folder for each split."""
    folder = tmp_path_factory.mktemp("examples")
    for split, name in (("train", "train"), ("eval", "validation")):
        (folder / f"Split-{split}").mkdir()
        path = folder / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"
        sides = [lines(corpus, name, side) for side in ("en", "de")]
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for source, target in zip(*sides, strict=True):
                writer.write(example(source=source, target=target))
    return folder


def lines(corpus, name, side):
    return pathlib.Path(corpus.path(f"{name}.{side}")).read_text(encoding="utf-8").splitlines()


def example(**texts):
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def fn_args(examples, folder, work_dir):
    """What the Trainer gives to `run_fn`, with the fields of TFX 1.21's `FnArgs`."""
    unused = (
        *("working_dir", "schema_path", "schema_file", "transform_graph_path", "transform_output"),
        *("data_accessor", "base_model", "hyperparameters", "eval_steps"),
    )
    return types.SimpleNamespace(
        **dict.fromkeys(unused),
        train_files=[f"{examples}/Split-train/*"],
        eval_files=[f"{examples}/Split-eval/*"],
        train_steps=STEPS,
        serving_model_dir=f"{folder}/model/Format-Serving",
        eval_model_dir=f"{folder}/model/Format-TFMA",
        model_run_dir=f"{folder}/model_run",
        custom_config={"settings": settings(), "work_dir": str(work_dir)},
    )


@pytest.mark.exhaustive
@pytest.mark.slow
def test_run_fn_trains_resumes_and_exports(corpus, examples, tmp_path, monkeypatch):
    """Stopped by SIGTERM in one execution, it goes on in the next, as an uninterrupted run."""
    import training

    trainer, quality = load("trainer"), load("quality")
    with monkeypatch.context() as patch:

        def terminate(self, batch, logs=None, method=StopAtStep.on_train_batch_end):
            method(self, batch, logs)
            if self.step == 7:
                signal.raise_signal(signal.SIGTERM)

        patch.setattr(StopAtStep, "on_train_batch_end", terminate)
        with pytest.raises(RuntimeError, match="stopped by SIGTERM, and saved at step 7"):
            trainer.run_fn(fn_args(examples, tmp_path / "first", tmp_path / "work"))
    assert not (tmp_path / "first" / "model").exists()
    trainer.run_fn(fn_args(examples, tmp_path / "second", tmp_path / "work"))
    (run,) = (tmp_path / "work").iterdir()
    assert list((tmp_path / "second" / "model_run" / "logs").rglob("events*"))

    config = small_config(optimization__steps=STEPS, optimization__checkpoint_every=5)
    training.train(config, model_dir=tmp_path / "whole", **corpus.arguments)
    assert weights_digest(run / "model") == weights_digest(tmp_path / "whole")

    served = tmp_path / "second" / "model" / "Format-Serving"
    sources, references = (lines(corpus, "validation", side) for side in ("en", "de"))
    assert 0 <= quality.bleu(served, sources, references) < 50
    translations = [
        text.decode()
        for text in tf.saved_model.load(str(served))
        .signatures["serving_default"](text=tf.constant(sources))["translation"]
        .numpy()
    ]
    assert quality.bleu(served, sources, translations) == pytest.approx(100)


def test_other_examples_are_another_run(examples, tmp_path):
    trainer = load("trainer")
    patterns = {"train": [f"{examples}/Split-train/*"], "eval": [f"{examples}/Split-eval/*"]}
    first = trainer.write_texts(patterns, tmp_path)
    assert trainer.write_texts(patterns, tmp_path) == first
    fewer = patterns | {"train": patterns["eval"]}
    second = trainer.write_texts(fewer, tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert (second / "train.source").read_bytes() == (second / "eval.source").read_bytes()


def test_a_line_feed_in_an_example_is_a_space(tmp_path):
    path = tmp_path / "data.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example(source="a\nb", target="c"))
    assert list(load("trainer").read_pairs([str(path)])) == [(b"a b", b"c")]


def test_steps_of_tfx_override_the_settings():
    trainer = load("trainer")
    given = {"preset": "tiny", "optimization": {"steps": 1, "seed": 3}}
    assert trainer.with_steps(given, 5)["optimization"] == {"steps": 5, "seed": 3}
    assert trainer.with_steps(given, None) == given


@pytest.fixture
def pipeline(monkeypatch):
    """The module: TFX looks for it by its name."""
    pytest.importorskip("tfx")
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("pipeline")
    for name in ("pipeline", "validator", "quality", "trainer"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_executors_of_tfx(pipeline, examples, tmp_path):
    """Trainer, validator and Pusher, as a pipeline calls them, with artifacts."""
    from tfx.components.pusher.executor import Executor as PusherExecutor
    from tfx.components.trainer.executor import GenericExecutor
    from tfx.types import artifact_utils, standard_artifacts

    def artifact(kind, name):
        made = kind()
        made.uri = str(tmp_path / name)
        (tmp_path / name).mkdir(exist_ok=True)
        return made

    given = standard_artifacts.Examples()
    given.uri = str(examples)
    given.split_names = artifact_utils.encode_split_names(["train", "eval"])
    model = artifact(standard_artifacts.Model, "model")
    model_run = artifact(standard_artifacts.ModelRun, "model_run")
    GenericExecutor().Do(
        {"examples": [given]},
        {"model": [model], "model_run": [model_run]},
        {
            "module_file": str(FOLDER / "trainer.py"),
            "train_args": json.dumps({"num_steps": STEPS}),
            "eval_args": "{}",
            "custom_config": json.dumps({"settings": settings()}),
        },
    )
    assert (tmp_path / "model" / "Format-Serving" / "saved_model.pb").exists()
    for min_bleu, is_blessed in ((0.0, True), (99.0, False)):
        blessing = artifact(standard_artifacts.ModelBlessing, f"blessing-{min_bleu}")
        pipeline.BleuValidator.EXECUTOR_SPEC.executor_class().Do(
            {"examples": [given], "model": [model]},
            {"blessing": [blessing]},
            {"min_bleu": min_bleu},
        )
        pushed = artifact(standard_artifacts.PushedModel, f"pushed-{min_bleu}")
        served = tmp_path / f"served-{min_bleu}"
        destination = {"filesystem": {"base_directory": str(served)}}
        PusherExecutor().Do(
            {"model": [model], "model_blessing": [blessing]},
            {"pushed_model": [pushed]},
            {"push_destination": json.dumps(destination)},
        )
        assert list(served.glob("*/saved_model.pb")) != [] if is_blessed else not served.exists()


def test_the_pipeline_is_connected(pipeline, tmp_path):
    made = pipeline.make_pipeline(
        str(tmp_path), str(tmp_path / "out"), steps=5, min_bleu=1.0, settings={}
    )
    names = [type(component).__name__ for component in made.components]
    assert sorted(names) == ["BleuValidator", "CsvExampleGen", "Pusher", "Trainer"]
