"""Plans: operations against counted weights, batches against the pipeline's, times by hand."""

import json
import math
import pathlib

import numpy as np
import pytest

from tests.training.preparation.test_prepare import PAIRS, prepare, write_pairs
from tf_transformer.__main__ import main
from tf_transformer.config import TransformerConfig
from tf_transformer.presets import PRESETS
from tf_transformer.storage.weight_shapes import weight_shapes
from training.config import DataConfig
from training.planning import measurement
from training.planning.machines import MACHINES
from training.planning.operations import training_operations
from training.planning.plan import Corpus, batches_of, make_plan
from training.prepared.prepared_folder import PreparedFolder
from training.prepared.prepared_text import PreparedText

SIZES = {"source_vocab_size": 100, "target_vocab_size": 130}
SETTINGS = ["--vocab-size", "400", "--set", "data.max_length=60"]


def preset(name, **changes):
    sizes = {"target_vocab_size": 130} if PRESETS[name].get("decoder_only") else SIZES
    return TransformerConfig.preset(name, **(sizes | changes))


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, {}) for name in PRESETS]
    + [
        ("tiny", {"activation": "swiglu"}),
        ("tiny", {"decoder": {"d_model": 64, "d_ff": 100}}),
        ("tiny", {"decoder_only": True, "source_vocab_size": None}),
    ],
)
def test_operations_are_those_of_all_matrices(name, changes):
    """Six per weight of each matrix, for each position that passes through it."""
    config = preset(name, **changes)
    operations = training_operations(config)
    source = target = 0
    for label, shape in weight_shapes(config).items():
        if len(shape) < 2 or "embedding" in label or "position" in label:
            continue
        of_memory = "cross_attention" in label and ("key" in label or "value" in label)
        if label.startswith("encoder") or of_memory:
            source += math.prod(shape)
        else:
            target += math.prod(shape)
    if config.logits_tied:
        target += config.side("decoder").d_model * config.target_vocab_size
    assert operations.source == 6 * source
    assert operations.target == 6 * target


def test_attention_costs_more_for_longer_sentences():
    operations = training_operations(preset("base"))
    # Scores and sums: two products of `length * d_model` for each position, 6 layers.
    assert operations.source_attention == 6 * 6 * 2 * 512
    assert operations.of_pair(10, 20) == (
        10 * operations.source
        + 20 * operations.target
        + 6 * 6 * 2 * 512 * (10 * 10 + 20 * 20 + 10 * 20)
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prepared")
    source, target = write_pairs(directory, PAIRS)
    prepare([source], [target], directory / "out", *SETTINGS, "--shard-pairs", "100")
    return directory / "out"


@pytest.mark.slow
def test_batches_are_about_those_of_training(prepared):
    """Training also fills some batches with pairs of other buckets, at the end of a group."""
    description = json.loads((prepared / "prepared.json").read_text())
    lengths = np.zeros(61, int)
    for shard in description["shards"]:
        lengths[: len(shard["lengths"])] += shard["lengths"]
    statistics = description["statistics"]
    tokens = (statistics["source_tokens"], statistics["target_tokens"])
    corpus = Corpus(lengths.tolist(), *tokens)
    config = DataConfig(batch_tokens=100, max_length=60, shuffle_buffer=1000)
    text = PreparedText([PreparedFolder(prepared)], config)
    batches = batches_of(corpus, config)
    rows, targets = [], []
    for _, labels in text.training_batches(1).take(100).as_numpy_iterator():
        rows.append(len(labels))
        targets.append((labels != 0).sum())
    assert batches.rows == pytest.approx(np.mean(rows), rel=0.1)
    assert batches.target_tokens == pytest.approx(np.mean(targets), rel=0.1)
    assert batches.number * batches.rows == pytest.approx(corpus.num_pairs)


def test_lengths_beyond_the_maximum_are_left_out():
    corpus = Corpus([0] * 9 + [55] + [0] * 90 + [50], 5500, 5500)
    batches = batches_of(
        corpus, DataConfig(max_length=60, batch_tokens=100)
    )  # a bucket holds the pairs of 9 tokens alone
    assert (batches.number, batches.rows, batches.positions) == (5, 11, 9)


def test_a_fixed_number_of_sentences():
    corpus = Corpus.of_mean_lengths(1000, 20, 20)
    batches = batches_of(corpus, DataConfig(max_length=60, batch_sentences=40))
    assert (batches.number, batches.rows, batches.target_tokens) == (25, 40, 800)


def test_times_and_costs_by_hand():
    config = preset("base")
    batches = batches_of(
        Corpus.of_mean_lengths(1000, 20, 20), DataConfig(max_length=100, batch_tokens=400)
    )
    per_step = batches.rows * training_operations(config).of_pair(20, 20)
    plan = make_plan(
        config, batches, 100, num_weights=10**7, num_trained=10**6, num_devices=4,
        operations_per_second=per_step, bandwidth=1e6, price=2.0,
    )  # fmt: skip
    # A quarter of the operations on each device; three quarters of 4 MB sent and received.
    assert plan.reduction_seconds == pytest.approx(6.0)
    assert plan.seconds_per_step == pytest.approx(0.25 + 6.0)
    assert plan.hours == pytest.approx(625 / 3600)
    assert plan.cost == pytest.approx(625 / 3600 * 4 * 2)
    assert plan.epochs == pytest.approx(100 / batches.number)
    assert plan.state_bytes == 4 * 10**7 + 12 * 10**6


def test_published_speeds():
    """Of the paper's two, that of the more similar model counts, for any size in between."""
    base, big = (TransformerConfig.preset(name, source_vocab_size=37_000, target_vocab_size=37_000)
                 for name in ("base", "big"))  # fmt: skip
    machine = MACHINES["p100"]
    for config, speed in ((base, 7812.5), (big, 3125.0)):
        operations = training_operations(config).of_pair(27, 27) / 27
        assert machine.operations_per_second(config) == pytest.approx(operations * speed)
    small = TransformerConfig.preset("tiny", source_vocab_size=99, target_vocab_size=99)
    assert machine.operations_per_second(small) == machine.operations_per_second(base)


TINY = ["plan", "--pairs", "1000", "--machine", "p100", "--preset", "tiny", "--set"]


@pytest.mark.parametrize(
    ("settings", "num_trained"),
    [
        ([], None),
        # Query, key and value are one product, in four layers of the encoder.
        (["lora.rank=2", "lora.targets=[encoder/*/query_key_value]"], 4 * 2 * (128 + 3 * 128)),
        (["optimization.frozen=['encoder/*', 'decoder/*']"], 8000 * 128),
    ],
)
def test_what_is_not_trained_takes_less_memory(tmp_path, capsys, settings, num_trained):
    output = ["--json", str(tmp_path / "plan")]
    assert main([*TINY, "vocabulary.size=8000", *settings, *output]) == 0
    plan = json.loads((tmp_path / "plan").read_text())
    assert plan["num_trained"] == (num_trained or plan["num_weights"])
    assert plan["state_bytes"] == 4 * plan["num_weights"] + 12 * plan["num_trained"]
    assert ("of them trained" in capsys.readouterr().out) == bool(settings)


def test_lora_is_not_measured(prepared, capsys):
    command = ["plan", "--measure", "--prepared", str(prepared), "--set", "lora.rank=2"]
    assert main(command) == 2
    assert "which LoRA (lora.rank) cannot adapt" in capsys.readouterr().err


PAPER = [
    *("plan", "--pairs", "4500000", "--lengths", "27", "27", "--machine", "p100"),
    *("--devices", "8"),
]


@pytest.mark.parametrize(("name", "steps", "days"), [("base", 100_000, 0.5), ("big", 300_000, 3.5)])
def test_the_paper_is_planned_within_a_fifth(tmp_path, capsys, name, steps, days):
    words = [f"optimization.steps={steps}", "data.batch_tokens=25000", "vocabulary.size=37000"]
    options = ["--preset", name, "--price", "1.5", "--json", str(tmp_path / "plan")]
    assert main([*PAPER, *options, "--set", *words]) == 0
    plan = json.loads((tmp_path / "plan").read_text())
    assert plan["hours"] / 24 == pytest.approx(days, rel=0.2)
    assert plan["cost"] == pytest.approx(plan["hours"] * 8 * 1.5)
    output = capsys.readouterr().out
    assert f"{steps:,}, " in output and "without validation" in output and "cost  " in output
    assert "8 x p100, float32 (Vaswani et al., 2017, " in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pairs", "10", "--price", "1e308", "--devices", "1000000"], "the estimate is infinite"),
        (["--pairs", "10", "--devices", "2", "--bandwidth", "1e-320"], "the estimate is infinite"),
        (["--pairs", "10", "--devices", "9" * 26], "expected at most 1,000,000"),
        (["--pairs", "9" * 26], "expected at most 1,000,000,000,000"),
    ],
)
def test_extreme_numbers(tmp_path, capsys, words, message):
    command = ["plan", "--machine", "p100", "--json", str(tmp_path / "plan.json"), *words]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert not (tmp_path / "plan.json").exists()


def test_the_plan_replaces_nothing_that_is_read(prepared, capsys):
    for path in prepared.iterdir():
        content = path.read_bytes()
        command = ["plan", "--machine", "p100", "--prepared", str(prepared), "--json", str(path)]
        assert main(command) == 2
        assert "is an input file; give another one" in capsys.readouterr().err
        assert path.read_bytes() == content


def test_r_drop_takes_two_passes(tmp_path):
    hours = []
    for weight in (0, 5):
        words = ["--json", str(tmp_path / "plan"), "--set", f"optimization.r_drop={weight}"]
        assert main(["plan", "--pairs", "1000", "--machine", "p100", *words]) == 0
        hours.append(json.loads((tmp_path / "plan").read_text())["hours"])
    assert hours[1] == pytest.approx(2 * hours[0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pairs", "5", "--machine", "x"], "--machine x: expected p100, v100, a100"),
        (["--pairs", "5", "--measure"], "--measure needs --prepared"),
        (
            ["--prepared", "x", "--lengths", "5", "5", "--machine", "p100"],
            "--lengths is valid only with --pairs",
        ),
        (["--pairs", "0", "--machine", "p100"], "--pairs 0: expected more than 0"),
        (["--pairs", "5", "--machine", "p100", "--devices", "0"], "--devices 0: expected more"),
        (["--pairs", "5", "--machine", "p100", "--price", "nan"], "--price nan: expected more"),
        (["--pairs", "5", "--lengths", "0", "5", "--machine", "p100"], "--lengths: expected two"),
        (["--prepared", "none", "--machine", "p100"], "none is not a prepared folder"),
        (["--pairs", "5", "--machine", "p100", "--preset", "none"], "preset"),
        (["--pairs", "5", "--lengths", "500", "5", "--machine", "p100"], "no pair"),
    ],
)
def test_invalid_arguments(capsys, words, message):
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


class ProcessHere:
    """In place of `subprocess.Popen`: measures in this process, which has imported TensorFlow."""

    def __init__(self, command, **_):
        assert command[1:3] == ["-m", measurement.__name__]
        measurement._train(pathlib.Path(command[3]))

    def wait(self, timeout=None):
        return 0

    def kill(self):
        pass


@pytest.mark.representatives("1")
@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_measured_plan(prepared, tmp_path, monkeypatch, capsys, num_workers):
    """One worker measures in this process; `test_a_failed_measurement_is_one_line` starts one."""
    monkeypatch.setattr(measurement, "_WARM_UP", 3)
    if num_workers == 1:
        monkeypatch.setattr(measurement.subprocess, "Popen", ProcessHere)
    model = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1,
             "num_decoder_layers": 1}  # fmt: skip
    command = ["plan", "--prepared", str(prepared), "--measure", "--measured-steps", "3"]
    command += ["--devices", str(num_workers), "--json", str(tmp_path / "plan"), "--set"]
    command += [f"model.{name}={value}" for name, value in model.items()]
    command += ["data.batch_tokens=500", "data.max_length=60", "optimization.steps=1000"]
    assert main(command) == 0
    plan = json.loads((tmp_path / "plan").read_text())
    measured = plan["measured"]
    assert plan["seconds_per_step"] == pytest.approx(measured["seconds_per_step"])
    assert plan["hours"] == pytest.approx(1000 * measured["seconds_per_step"] / 3600)
    assert plan["reduction_seconds"] == 0 and measured["start_seconds"] > 0
    assert "start  " in capsys.readouterr().out


@pytest.mark.parametrize(("given", "expected"), [(None, ["0", "1"]), ("-1", ["-1", "-1"])])
def test_each_process_has_a_gpu_of_its_own(monkeypatch, tmp_path, given, expected):
    visible = []

    class Process:
        def __init__(self, command, env, **_):
            visible.append(env["CUDA_VISIBLE_DEVICES"])

        def wait(self, timeout=None):
            return 0

        def kill(self):
            pass

    monkeypatch.setattr(measurement.subprocess, "Popen", Process)
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    measurement._run_workers(tmp_path, 2)
    assert visible == expected


@pytest.mark.slow
def test_a_failed_measurement_is_one_line(prepared, capsys):
    command = ["plan", "--prepared", str(prepared), "--measure", "--measured-steps", "5", "--set"]
    assert main([*command, "data.batch_tokens=500", "model.decoder_only=true"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("tf-transformer: error: ")
