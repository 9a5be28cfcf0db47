"""What `TF_CONFIG` may be, and that faults in it are named."""

import argparse
import json
import typing

import pytest

from training.commands import train_cli
from training.distributed.cluster import Cluster, StrategyKind, choose_strategy, read_cluster

BOTH = ["a:1", "b:2"]
FIRST = {"type": "worker", "index": 0}


def test_who_is_who():
    assert read_cluster("") == read_cluster("{}") == Cluster()
    assert read_cluster(json.dumps({"cluster": {}, "task": FIRST})) == Cluster()
    text = json.dumps({"cluster": {"worker": BOTH}, "task": FIRST | {"index": 1}})
    assert read_cluster(text) == Cluster(("a:1", "b:2"), "b:2")
    jobs = {"worker": BOTH, "chief": ["[::1]:65535"]}
    text = json.dumps({"cluster": jobs, "task": {"type": "chief", "index": 0}})
    assert read_cluster(text) == Cluster(("[::1]:65535", "a:1", "b:2"), "[::1]:65535")


def managed(task, **jobs):
    """As Google's managed training jobs set it, with fields that TensorFlow does not need."""
    jobs = {
        "chief": ["cmle-training-workerpool0-0a1b-0:2222"],
        "worker": [f"cmle-training-workerpool1-0a1b-{index}:2222" for index in (0, 1)],
    } | jobs
    extra = {"environment": "cloud", "job": {"python_module": "", "args": ["train"]}}
    return json.dumps({"cluster": jobs, "task": task | {"trial": "1", "cloud": "x-tp"}} | extra)


def test_a_managed_job():
    cluster = read_cluster(managed({"type": "worker", "index": 1}))
    assert cluster.address == "cmle-training-workerpool1-0a1b-1:2222"
    assert cluster.addresses[0] == "cmle-training-workerpool0-0a1b-0:2222"
    assert choose_strategy("auto", None, cluster) == ("multi_worker", None)


@pytest.mark.parametrize(
    ("task", "jobs", "fault"),
    [
        (
            {"type": "evaluator", "index": 0},
            {},
            "type 'evaluator' is not in the cluster",
        ),
        ({"type": "worker", "index": 0}, {"ps": ["c:2222"]}, "only chief and worker, not 'ps'"),
    ],
)
def test_a_managed_job_with_other_roles(task, jobs, fault):
    with pytest.raises(ValueError, match=fault):
        read_cluster(managed(task, **jobs))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "Expecting property name"),
        ("[]", "not an object"),
        ({"cluster": [1]}, "the cluster is not an object"),
        ({"cluster": {"worker": "a:1,b:2"}, "task": FIRST}, "'worker' is not a list"),
        ({"cluster": {"worker": []}, "task": FIRST}, "'worker' is not a list"),
        ({"cluster": {"worker": ["a:1", "b"]}, "task": FIRST}, "'b' is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", "b:0"]}, "task": FIRST}, "'b:0' is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", "b:65536"]}, "task": FIRST}, "is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", 2]}, "task": FIRST}, "2 is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": FIRST}, "there is a duplicate address"),
        ({"cluster": {"worker": BOTH, "ps": ["c:3"]}, "task": FIRST}, "only chief and worker, not"),
        ({"cluster": {"worker": BOTH, "chief": ["c:3", "d:4"]}, "task": FIRST}, "more than one"),
        ({"cluster": {"worker": BOTH}}, "there is no task"),
        ({"cluster": {"worker": BOTH}, "task": {"index": 0}}, "type None is not in the cluster"),
        ({"cluster": {"worker": BOTH}, "task": FIRST | {"type": "evaluator"}}, "type 'evaluator'"),
        ({"cluster": {"worker": BOTH}, "task": FIRST | {"index": 2}}, "index 2 is not one of 0 to"),
        ({"cluster": {"worker": BOTH}, "task": FIRST | {"index": "0"}}, "index '0' is not one of"),
        ({"cluster": {"worker": BOTH}, "task": {"type": "worker"}}, "index None is not one of"),
    ],
)
def test_faults_are_named(text, fault):
    text = text if isinstance(text, str) else json.dumps(text)
    with pytest.raises(ValueError) as raised:
        read_cluster(text)
    message = str(raised.value)
    assert message.startswith("the environment variable TF_CONFIG: ")
    assert fault in message and message.endswith(f"Received: {text}") and "\n" not in message


TWO_WORKERS = Cluster(("a:1", "b:1"), "a:1")


@pytest.mark.parametrize(
    ("kind", "devices", "cluster", "chosen"),
    [
        ("auto", None, Cluster(), ("mirrored", None)),
        ("auto", 3, TWO_WORKERS, ("multi_worker", 3)),
        ("auto", 3, Cluster(("a:1",), "a:1"), ("mirrored", 3)),
        ("multi_worker", None, Cluster(("a:1",), "a:1"), ("multi_worker", None)),
        ("mirrored", 2, Cluster(), ("mirrored", 2)),
        ("one_device", None, Cluster(), ("one_device", 1)),
    ],
)
def test_the_strategy(kind, devices, cluster, chosen):
    assert choose_strategy(kind, devices, cluster) == chosen


@pytest.mark.parametrize(
    ("kind", "devices", "cluster", "message"),
    [
        ("multi_worker", None, Cluster(), "expected the workers' addresses .* TF_CONFIG"),
        ("x", None, Cluster(), "`strategy` must be one of"),
        ("mirrored", None, TWO_WORKERS, "--strategy mirrored: TF_CONFIG names 2 workers"),
        (
            "one_device",
            2,
            Cluster(),
            "--strategy one_device: expected no --devices, or 1. Received: 2",
        ),
    ],
)
def test_strategies_that_cannot_be(kind, devices, cluster, message):
    with pytest.raises(ValueError, match=message):
        choose_strategy(kind, devices, cluster)


def test_logical_devices_are_limited(monkeypatch):
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: [])
    from training.distributed.strategy import make_strategy

    with pytest.raises(ValueError, match=r"--devices 1000: .* at most 64 logical CPU devices"):
        make_strategy("auto", 1000)


@pytest.mark.parametrize(("asked_for", "used"), [(None, 3), (2, 2), (1, 1)])
def test_gpus_are_all_of_them_or_the_first(monkeypatch, caplog, asked_for, used):
    import tensorflow as tf

    from training.distributed.strategy import make_strategy

    gpus = [tf.config.PhysicalDevice(f"GPU:{index}", "GPU") for index in range(3)]
    visible: list[object] = []
    names = {gpu: {"device_name": f"Card {gpu.name[-1]}"} for gpu in gpus}
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *given: visible.append(given))
    monkeypatch.setattr(tf.config.experimental, "get_device_details", names.get)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda devices: devices)
    caplog.set_level("INFO")
    strategy = make_strategy("mirrored", asked_for)
    assert visible == [(gpus[:used], "GPU")]
    assert caplog.messages == ["Training on " + ", ".join(f"Card {i}" for i in range(used))]
    if used > 1:
        assert strategy == [f"GPU:{index}" for index in range(used)]
    with pytest.raises(ValueError, match="--devices 4: this machine has 3 GPUs"):
        make_strategy("mirrored", 4)


@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.parametrize("has_driver", [False, True])
def test_a_gpu_that_tensorflow_does_not_find(monkeypatch, caplog, tmp_path, has_driver, is_hidden):
    from training.distributed import strategy

    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: [])
    monkeypatch.setattr(strategy, "_DRIVER", tmp_path if has_driver else tmp_path / "none")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if is_hidden:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    strategy.make_strategy()
    is_told = has_driver and not is_hidden
    assert [message[-31:] for message in caplog.messages] == is_told * [
        "pip install 'tf-transformer[cuda]'"[-31:]
    ]


def test_the_command_has_the_same_words():
    """It repeats them, since it must not import what a machine with the client alone lacks."""
    commands = argparse.ArgumentParser().add_subparsers()
    train_cli.add_commands(commands)
    (choices,) = (
        action.choices for action in commands.choices["train"]._actions if action.dest == "strategy"
    )
    assert choices == typing.get_args(StrategyKind)
