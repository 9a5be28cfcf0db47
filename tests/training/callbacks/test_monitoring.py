"""The cockpit: what TensorBoard reads, against numbers computed otherwise; scores that decide."""

import html
import json
import math
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugin_util import markdown_to_safe_html
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.util.tensor_util import make_ndarray
from tensorflow.python.framework import ops as tf_ops

from tests.conftest import small_config
from tests.training.test_trainer import _command, weights_of
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import load_model, read_tokenizers
from tf_transformer.storage.trained_models import TrainedModels
from training.callbacks.tensorboard_log import _in_table
from training.callbacks.validation import Validation
from training.data.pipeline import ParallelText
from training.data.text_pair import TextPair
from training.evaluation.evaluation import evaluate
from training.evaluation.settings import EvaluationTexts, SearchSettings
from training.trainer import train

pytestmark = pytest.mark.usefixtures("models_built_once")

WATCHED = {
    "validation__translate_every": 1,
    "validation__sentences": 10,
    "validation__beam_size": 1,
    "validation__report_every": 5,
    "validation__keep_best": 2,
    "validation__histograms": True,
    "optimization__keep_checkpoints": 1,
}


def read_events(directory):
    """Every tag's plugin and values by step."""
    accumulator = EventAccumulator(
        str(directory), size_guidance={"tensors": 0, "graph": 0, "scalars": 0}
    )
    accumulator.Reload()
    tags = {}
    for tag in accumulator.Tags()["tensors"]:
        plugin = accumulator.SummaryMetadata(tag).plugin_data.plugin_name
        values = {e.step: make_ndarray(e.tensor_proto) for e in accumulator.Tensors(tag)}
        tags[tag] = (plugin, values)
    return accumulator, tags


def scalars(directory):
    return {
        tag: {step: float(value) for step, value in values.items()}
        for tag, (plugin, values) in read_events(directory)[1].items()
        if plugin == "scalars"
    }


@pytest.fixture(scope="module")
def watched(corpus, tmp_path_factory):
    """A model directory after 30 steps with everything that can be watched."""
    model_dir = tmp_path_factory.mktemp("watched") / "model"
    train(small_config(**WATCHED), model_dir=model_dir, profile=(12, 13), **corpus.arguments)
    return model_dir


@pytest.mark.exhaustive
@pytest.mark.slow
def test_watching_does_not_change_the_weights(trained, watched):
    for ours, theirs in zip(weights_of(watched), weights_of(trained), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_training_scalars(corpus, watched):
    found = scalars(watched / "logs" / "training")
    for name, values in found.items():
        expected = [5, 10, 15, 20, 25, 30]
        assert sorted(values) == expected, name
        assert all(math.isfinite(value) for value in values.values()), name
    config = small_config(**WATCHED)
    text = corpus.pair("train").tokenized(read_tokenizers(watched), config.data)
    batches = list(text.training_batches(config.optimization.seed).take(10))[5:10]
    seconds = 5 * found["speed/step_seconds"][10]
    for side, parts in (
        ("source", [inputs["source"].numpy() for inputs, _ in batches]),
        ("target", [labels.numpy() for _, labels in batches]),
    ):
        tokens = found[f"speed/{side}_tokens_per_second"][10] * seconds
        assert tokens == pytest.approx(sum(np.count_nonzero(part) for part in parts), rel=1e-4)
    entries = [side for inputs, labels in batches for side in (inputs["source"], labels)]
    padding = sum(np.sum(ids.numpy() == 0) for ids in entries) / sum(
        ids.numpy().size for ids in entries
    )
    assert found["speed/padding"][10] == pytest.approx(padding, rel=1e-4)
    # Of the next update, the 11th: 0.3 * 32^-0.5 * 11 * 100^-1.5.
    rate = 0.3 * 32**-0.5 * 11 * 100**-1.5
    assert found["optimizer/learning_rate"][10] == pytest.approx(rate, rel=1e-5)
    assert set(found["optimizer/skipped_updates"].values()) == {0.0}
    reader = tf.train.load_checkpoint(str(watched / "checkpoints" / "step-30"))
    optimizer = [
        reader.get_tensor(name)
        for name, shape in reader.get_variable_to_shape_map().items()
        if name.startswith("optimizer/") and not shape
    ]
    assert any(
        value == pytest.approx(found["optimizer/gradient_norm"][30], rel=1e-6)
        for value in optimizer
    )
    for name in ("loss/without_smoothing", "loss", "memory/process_peak_GiB"):
        assert all(value > 0 for value in found[name].values())


@pytest.mark.slow
def test_validation_scalars_are_those_of_the_saved_model(corpus, watched):
    found = scalars(watched / "logs" / "validation")
    assert all(sorted(values) == [10, 20, 30] for values in found.values())
    model, *tokenizers = load_model(watched)
    pair = corpus.pair("validation")
    files = [pair.source, pair.target]
    text = ParallelText(*files, *tokenizers, small_config().data)
    plain, smoothed, tokens, right = 0.0, 0.0, 0, 0
    for inputs, labels in text.batches():
        logits = np.asarray(model(inputs), np.float64)
        labels = labels.numpy()
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        real = labels != 0
        likelihood = np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]
        plain -= likelihood[real].sum()
        smoothed -= (0.9 * likelihood + 0.1 * log_probs.mean(-1))[real].sum()
        tokens += real.sum()
        right += (logits.argmax(-1) == labels)[real].sum()
    assert found["loss/without_smoothing"][30] == pytest.approx(plain / tokens, rel=1e-4)
    assert found["perplexity"][30] == pytest.approx(math.exp(plain / tokens), rel=1e-4)
    assert found["loss"][30] == pytest.approx(smoothed / tokens, rel=1e-4)
    assert found["accuracy"][30] == pytest.approx(right / tokens, abs=1e-4)


@pytest.mark.slow
def test_bleu_and_chrf_are_those_of_evaluate(corpus, talkative, tmp_path):
    """On a model that says something: judged while trained, and as `evaluate` judges it."""
    config = small_config(
        optimization__steps=300, optimization__checkpoint_every=300, **{
            name: WATCHED[name] for name in ("validation__translate_every",)
        }, validation__beam_size=1,
    )  # fmt: skip
    model_dir = tmp_path / "model"
    shutil.copytree(talkative, model_dir)
    train(config, model_dir=model_dir, **corpus.arguments)  # only judges
    evaluation, translations = evaluate(
        TrainedModels((model_dir,)),
        EvaluationTexts(
            source=corpus.pair("validation").source,
            references=[corpus.pair("validation").target],
        ),
        SearchSettings(beam_size=1, length_penalty=0.6),
    )
    bleu, chrf = (evaluation.scores[name] for name in ("bleu", "chrf"))
    assert chrf.value > 1
    found = scalars(model_dir / "logs" / "validation")
    assert found["quality/BLEU"][300] == pytest.approx(bleu.value, abs=1e-4)
    assert found["quality/chrF"][300] == pytest.approx(chrf.value, abs=1e-4)
    scores = json.loads((model_dir / "validation_scores.json").read_text())["scores"][-1]
    assert scores["bleu"] == bleu.value
    assert scores["bleu_signature"] == bleu.signature
    texts = read_events(model_dir / "logs" / "validation")[1]["translations"][1][300].item()
    assert _in_table(translations[0]) in texts.decode()


@pytest.mark.parametrize(
    "text", ["<2de> A man", "AT&amp;T & #1", r"a\`b` *c* _d_ [e](f) <b>g</b> | h", "1. 2"]
)
def test_a_cell_shows_the_text_as_it_is(text):
    page = markdown_to_safe_html(f"| a |\n|---|\n| {_in_table(text)} |")
    cell = re.search("<td>(.*)</td>", page)[1]
    assert "<" not in cell and html.unescape(cell) == text


@pytest.mark.slow
def test_texts_pictures_graph_settings_histograms_profile(watched):
    accumulator, tags = read_events(watched / "logs" / "validation")
    plugin, texts = tags["translations"]
    assert plugin == "text"
    assert sorted(texts) == [10, 20, 30]
    assert texts[10].item().decode().count("\n") == 9
    for part in ("encoder", "decoder", "cross"):
        plugin, pictures = tags[f"attention/{part}"]
        assert plugin == "images"
        sizes = {
            tf.io.decode_png(picture.ravel()[2]).shape.as_list()[0] for picture in pictures.values()
        }
        assert len(sizes) == 1  # the same axes at every step
    metadata = accumulator.SummaryMetadata("_hparams_/session_start_info").plugin_data
    values = hparams_metadata.parse_session_start_info_plugin_data(metadata.content).hparams
    assert values["optimization.warmup_steps"].number_value == 100
    assert values["model.norm_position"].string_value == "pre"
    metadata = accumulator.SummaryMetadata("_hparams_/experiment").plugin_data
    metrics = hparams_metadata.parse_experiment_plugin_data(metadata.content).metric_infos
    assert "quality/BLEU" in {metric.name.tag for metric in metrics}

    accumulator, tags = read_events(watched / "logs" / "training")
    assert len(accumulator.Graph().node) > 50
    weights = {tag for tag, (plugin, _) in tags.items() if plugin == "histograms"}
    assert len(weights) == len(load_model(watched)[0].trainable_variables)
    assert list((watched / "logs" / "training").rglob("*.xplane.pb"))


@pytest.mark.slow
def test_best_outlive_the_last(watched):
    records = json.loads((watched / "validation_scores.json").read_text())["scores"]
    ranked = sorted(records, key=lambda record: (-record["bleu"], record["step"]))
    kept = {path.stem for path in (watched / "best_checkpoints").glob("*.index")}
    assert kept == {f"step-{record['step']}" for record in ranked[:2]}
    assert [path.stem for path in (watched / "checkpoints").glob("*.index")] == ["step-30"]


@pytest.mark.slow
def test_average_of_the_best(watched, tmp_path, capsys):
    model_dir = tmp_path / "model"
    shutil.copytree(watched, model_dir)
    steps = sorted(
        int(path.stem.partition("-")[2]) for path in (watched / "best_checkpoints").glob("*.index")
    )
    assert main(["average", "--model-dir", str(model_dir), "--best", "2"]) == 0
    assert f"at steps {steps[0]}, {steps[1]}" in capsys.readouterr().out
    readers = [
        tf.train.load_checkpoint(str(watched / "best_checkpoints" / f"step-{n}")) for n in steps
    ]
    for number, weight in enumerate(load_model(model_dir)[0].weights):
        name = f"weights/{number}/.ATTRIBUTES/VARIABLE_VALUE"
        mean = (readers[0].get_tensor(name) + readers[1].get_tensor(name)) / 2
        np.testing.assert_allclose(weight.numpy(), mean, atol=1e-6)
    assert main(["average", "--model-dir", str(model_dir), "--best", "9"]) == 0
    assert "--best 9: no more checkpoints than these 3 have a score" in capsys.readouterr().out


SERIES = {1: 1.0, 2: 3.0, 3: 2.0, 4: 2.5, 5: 2.0, 6: 4.0, 7: 1.0, 8: 1.0}


@pytest.mark.slow
def test_stops_early_and_says_so_again(corpus, tmp_path, monkeypatch):
    judged = []

    def translate(self, step):
        judged.append(step)
        return {"bleu": SERIES[step]}

    monkeypatch.setattr(Validation, "_translate", translate)

    def run(patience):
        config = small_config(
            optimization__steps=8,
            optimization__checkpoint_every=1,
            optimization__keep_checkpoints=1,
            validation__translate_every=1,
            validation__patience=patience,
        )
        return train(config, model_dir=tmp_path, **corpus.arguments)

    result = run(2)
    assert result.step == 4
    reason = "BLEU 3 at step 2 was not surpassed in 2 validations since"
    assert result.early_stop == reason
    before = weights_of(tmp_path)
    again = run(2)
    assert (again.step, again.early_stop) == (4, reason)
    assert judged == [1, 2, 3, 4]
    for ours, theirs in zip(before, weights_of(tmp_path), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (tmp_path / "best_checkpoints" / "step-2.index").exists()
    result = run(4)  # with more patience it goes on, finds a better one and comes to its end
    assert (result.step, result.early_stop) == (8, None)
    assert {path.stem for path in (tmp_path / "best_checkpoints").glob("*.index")} == {"step-6"}


@pytest.mark.slow
def test_language_model_is_judged_by_its_loss(corpus, tmp_path):
    names = {"corpus": "train", "validation": "validation"}
    arguments = {key: TextPair(None, corpus.path(f"{name}.de")) for key, name in names.items()}
    changes = WATCHED | {"model__decoder_only": True, "optimization__steps": 6}
    changes |= {"optimization__checkpoint_every": 2}
    train(small_config(**changes), model_dir=tmp_path, **arguments)
    records = json.loads((tmp_path / "validation_scores.json").read_text())
    assert records["best_by"] == "loss"
    best = min(records["scores"], key=lambda record: record["loss"])["step"]
    assert (tmp_path / "best_checkpoints" / f"step-{best}.index").exists()
    assert "speed/source_tokens_per_second" not in scalars(tmp_path / "logs" / "training")


@pytest.mark.parametrize("changes", [{"model__decoder_only": True}, {}])
def test_refuses_bleu_without_translations(changes):
    with pytest.raises(ValueError, match=r"'validation\.best_by: bleu' needs translations"):
        small_config(validation__best_by="bleu", validation__translate_every=0, **changes)


@pytest.mark.parametrize("steps", ["5", "0:3", "9:4", "3:31", "a:b"])
def test_refuses_other_steps_to_profile(corpus, tmp_path, capsys, steps):
    command = _command(corpus, tmp_path / "model", "--profile", steps)[3:]
    assert main(command) == 2
    assert "expected FIRST:LAST, two of the steps 1 to 30" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
def test_killed_and_continued_is_bit_identical(corpus, tmp_path):
    """Killed after a save and before its scores were written; in a process with exact ops."""
    script = [
        sys.executable,
        "-m",
        "tests.training.callbacks.resume_watched",
        str(corpus.directory),
        str(tmp_path),
    ]
    finished = subprocess.run(script, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout.splitlines()[-1])
    assert result == {"variables": True, "scores": True, "best": True}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_two_devices_are_judged_like_one(corpus, tmp_path):
    changes = {
        "validation__translate_every": 1, "optimization__steps": 10, "model__dropout_rate": 0.0,
        "validation__report_every": 10,
    }  # fmt: skip
    found = []
    for devices in ("1", "2"):
        model_dir = tmp_path / devices
        command = _command(corpus, model_dir, "--devices", devices, **changes)
        subprocess.run(
            command, check=True, capture_output=True, env=os.environ | {"PYTHONWARNINGS": "ignore"}
        )
        found.append(
            scalars(model_dir / "logs" / "training") | {
                f"val_{tag}": values
                for tag, values in scalars(model_dir / "logs" / "validation").items()
            }
        )  # fmt: skip
    for name, values in found[0].items():
        if not name.startswith(("memory", "speed/s", "speed/t")):
            assert found[1][name][10] == pytest.approx(values[10], rel=1e-3, abs=1e-6), name
    one, two = (
        run["speed/target_tokens_per_second"][10] * run["speed/step_seconds"][10] for run in found
    )
    assert one == pytest.approx(two, rel=1e-4)  # tokens a step, of both devices together


@pytest.mark.exhaustive
@pytest.mark.slow
def test_steps_between_reports_read_nothing_from_the_device(corpus, tmp_path, monkeypatch):
    """Twice the steps with as many reports: as many values are fetched."""
    tensor_class = tf_ops._EagerTensorBase
    fetch = tensor_class._numpy
    fetched = []

    def counting_fetch(self):
        if self.dtype != tf.bool:  # Keras asks after each step whether the data has ended
            fetched.append(self)
        return fetch(self)

    monkeypatch.setattr(tensor_class, "_numpy", counting_fetch)
    counts = []
    for steps in (20, 40):
        config = small_config(
            optimization__steps=steps,
            optimization__checkpoint_every=steps,
            validation__report_every=steps // 2,
        )
        fetched.clear()
        train(config, model_dir=tmp_path / str(steps), **corpus.arguments)
        counts.append(len(fetched))
    assert counts[0] == counts[1] > 20


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_terminal_shows_why_the_first_step_takes_long(corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    train(small_config(optimization__steps=2), model_dir=tmp_path, **corpus.arguments)
    shown = capsys.readouterr().err.split("\r")
    bars = [line for line in shown if line.startswith("step ")]
    assert "building the graph" in [line for line in bars if line.startswith("step 0 of 2 ")][-1]
    # Steps that follow each other fast are not all drawn.
    assert bars[-1].startswith(("step 1 of 2 ", "step 2 of 2 "))
    assert "building the graph" not in bars[-1]
