"""Training from prepared folders: exactly the pairs, by weight, by worker, from any step on."""

import collections
import concurrent.futures
import functools
import gc
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import SMALL_SETTINGS
from tests.training.preparation.test_prepare import (
    END,
    PAIRS,
    encoded,
    prepare,
    records_of,
    write_pairs,
)
from tests.training.prepared.conftest import SETTINGS
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import read_tokenizers
from training.callbacks.monitoring import Report
from training.commands import data_service_cli
from training.config import DataConfig
from training.data.bucketing import bucket_batch_sizes, bucket_boundaries
from training.prepared.data_service import check_service, start_service
from training.prepared.existing_vocabulary import read_vocabulary
from training.prepared.prepared_folder import (
    WORK_NAME,
    PreparedFolder,
    read_description,
    read_models,
)
from training.prepared.prepared_text import PreparedText

pytestmark = pytest.mark.usefixtures("models_built_once")

DATA_SERVICE = [sys.executable, "-m", "tf_transformer", "data-service", "--trust-network"]
DATA = DataConfig(batch_tokens=300, max_length=60, shuffle_buffer=200)  # blocks of 2 shards


def text_of(directory, *weights, **settings):
    names = ("first", "second")[: len(weights)]
    folders = [
        PreparedFolder(directory / name, weight)
        for name, weight in zip(names, weights, strict=True)
    ]
    return PreparedText(folders, DataConfig(**(vars(DATA) | settings)))


def collect(dataset, number):
    return [
        (inputs["source"], inputs["target"], labels)
        for inputs, labels in dataset.take(number).as_numpy_iterator()
    ]


def equal(left, right):
    arrays = [list(itertools.chain.from_iterable(batches)) for batches in (left, right)]
    return len(left) == len(right) and all(map(np.array_equal, *arrays))


def pairs_of(batches):
    return [
        (source[source != 0].tolist(), labels[labels != 0].tolist())
        for sources, _, targets in batches
        for source, labels in zip(sources, targets, strict=True)
    ]


def batches_in_epoch(folder):
    """Of one block, counted by hand."""
    boundaries = bucket_boundaries(60)
    sizes = bucket_batch_sizes(boundaries, 300)
    lengths = [max(map(len, pair)) for pair in records_of(folder)]
    buckets = collections.Counter(np.searchsorted(boundaries, lengths, side="right").tolist())
    return sum(-(-number // sizes[bucket]) for bucket, number in buckets.items())


@pytest.mark.slow
def test_an_epoch_has_exactly_the_pairs(directory):
    text = text_of(directory, 1.0, shuffle_buffer=10_000)
    number = batches_in_epoch(directory / "first")
    expected = sorted(encoded(directory / "first", PAIRS[:500]))
    batches = collect(text.training_batches(1), 3 * number)
    epochs = [pairs_of(batches[start : start + number]) for start in range(0, 3 * number, number)]
    for epoch in epochs:
        assert sorted(epoch) == expected
    assert epochs[0] != epochs[1] != epochs[2]
    assert text.num_pairs == 500 and text.has_source


@pytest.mark.slow
def test_form_of_batches(directory):
    boundaries = bucket_boundaries(60)
    sizes = bucket_batch_sizes(boundaries, 300)
    stream = text_of(directory, 1.0).training_batches(1)
    spec = tf.TensorSpec([None, None], tf.int32)
    assert stream.element_spec == ({"source": spec, "target": spec}, spec)
    for source, target, labels in collect(stream, 40):
        lengths = np.maximum((source != 0).sum(1), (labels != 0).sum(1))
        (bucket,) = set(np.searchsorted(boundaries, lengths, side="right").tolist())
        assert len(source) <= sizes[bucket]
        assert source[:, -1].any() and labels[:, -1].any()
        for row, ids in zip(target, labels, strict=True):
            length = np.count_nonzero(ids)
            assert ids[length - 1] == END
            np.testing.assert_array_equal(row[:length], [2, *ids[: length - 1]])
            assert not row[length:].any()


@pytest.mark.slow
def test_batches_are_a_function_of_seed_and_step(directory):
    text = text_of(directory, 1.0, 0.5)
    number = 2 * batches_in_epoch(directory / "first")  # several epochs, which have fewer shards
    batches = collect(text.training_batches(7), number)
    tf.random.set_seed(99)
    assert equal(batches, collect(text.training_batches(7), number))
    for step in (1, number - 10):
        assert equal(batches[step : step + 8], collect(text.training_batches(7, step), 8))
    assert not equal(batches, collect(text.training_batches(2**40), number))


@pytest.mark.slow
def test_going_on_reads_no_more_than_its_block(directory, tmp_path):
    shutil.copytree(directory / "first", tmp_path / "first")
    text = text_of(tmp_path, 1.0)
    epoch, block, _ = text._position(2000, 1)
    assert epoch > 10
    expected = collect(text.training_batches(1, 2000), 1)
    size = text._shards_in_block
    needed = text._visits(1, epoch).numpy()[size * block : size * (block + 1)]
    for number, path in enumerate(sorted((tmp_path / "first").glob("*.tfrecord"))):
        if number not in needed:
            path.unlink()
    assert equal(expected, collect(text.training_batches(1, 2000), 1))


@pytest.mark.slow
def test_pairs_beyond_the_length_are_left_out(directory):
    text = text_of(directory, 1.0, max_length=20, shuffle_buffer=10_000)
    pairs = encoded(directory / "first", PAIRS[:500])
    expected = [pair for pair in pairs if max(map(len, pair)) <= 20]
    assert 0 < text.num_pairs == len(expected) < 500
    seen = pairs_of(collect(text.training_batches(1), 150))
    assert set(map(str, seen)) == set(map(str, expected))
    with pytest.raises(ValueError, match=re.escape("longer than data.max_length=2;")):
        text_of(directory, 1.0, max_length=2)


# ---- Weights ----


@pytest.mark.representatives("weights1")
@pytest.mark.slow
@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (0.3, 2.0)])
def test_pairs_are_seen_as_often_as_their_weights_say(directory, weights):
    text = text_of(directory, *weights)
    counts = collections.Counter(map(str, pairs_of(collect(text.training_batches(3), 1500))))
    means = [
        np.mean([counts[str(pair)] for pair in encoded(directory / "first", half)])
        for half in (PAIRS[:500], PAIRS[500:])
    ]
    assert means[0] / means[1] == pytest.approx(weights[0] / weights[1], rel=0.15)


def test_epochs_visit_no_shard_twice_and_all_in_turn(directory):
    text = text_of(directory, 1.0, 0.4)
    epochs = [text._visits(1, number).numpy().tolist() for number in range(10)]
    assert all(len(set(epoch)) == len(epoch) for epoch in epochs)
    counts = collections.Counter(itertools.chain.from_iterable(epochs))
    assert [counts[shard] for shard in range(9)] == [10] * 5 + [4] * 4
    assert len({tuple(epoch) for epoch in epochs}) == 10


@pytest.mark.slow
def test_folders_of_usual_shards_are_in_every_epoch(directory, tmp_path):
    """Also with a small weight: `prepare` makes several shards of a short text."""
    files = [[directory / f"second.{language}"] for language in ("en", "de")]
    prepare(*files, tmp_path / "rare", "--vocabulary", str(directory / "first"), *SETTINGS[2:])
    folders = [PreparedFolder(directory / "first", 4.0), PreparedFolder(tmp_path / "rare", 1.0)]
    text = PreparedText(folders, DATA)
    for epoch in range(10):
        visits = text._visits(1, epoch).numpy()
        assert len(visits) == 6 and sum(visits >= 5) == 1


@pytest.mark.parametrize(
    ("name", "weight"), [("out", 1), ("out=2", 2), ("out=0.25", 0.25), ("a=b", 1), ("a=b=3", 3)]
)
def test_names_with_weights(tmp_path, name, weight):
    (tmp_path / "out").mkdir()
    (tmp_path / "a=b").mkdir()
    folder = PreparedFolder.parse(f"{tmp_path}/{name}")
    assert folder.weight == weight and folder.path.is_dir()


@pytest.mark.parametrize("name", ["out=0", "out=-1", "out=x", "out=nan", "out=inf"])
def test_weights_that_are_none(tmp_path, name):
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="expected DIR=WEIGHT with a weight above 0"):
        PreparedFolder.parse(f"{tmp_path}/{name}")


# ---- As a user has it ----


def yaml_with(folder, vocabulary):
    (folder / "settings.yaml").write_text(f"vocabulary: {vocabulary}\n")
    return folder / "settings.yaml"


def train_options(corpus, model_dir, *prepared):
    return [
        *("train", "--prepared", *prepared, "--model-dir", str(model_dir)),
        *("--validation-source", corpus.path("validation.en")),
        *("--validation-target", corpus.path("validation.de")),
        "--set",
        *(f"{name}={value}" for name, value in SMALL_SETTINGS.items() if "vocab" not in name),
    ]


@pytest.mark.slow
def test_train_takes_the_vocabulary_and_goes_on(directory, corpus, tmp_path, capsys):
    folders = [str(directory / "first"), f"{directory / 'second'}=2"]
    command = [*train_options(corpus, tmp_path / "m", *folders), "optimization.steps=4"]
    # One file of settings serves `prepare` and `train`.
    options = ["--config", str(yaml_with(tmp_path, "{size: 400}"))]
    assert main([*command, "optimization.steps=2", *options]) == 0
    assert main(command) == 0
    assert "Trained for 4 steps" in capsys.readouterr().out
    _, target = read_tokenizers(tmp_path / "m")
    assert target.model == (directory / "first/target.spm").read_bytes()
    settings = json.loads((tmp_path / "m/training.json").read_text())["settings"]
    assert settings["vocabulary"]["size"] == 400
    other = train_options(corpus, tmp_path / "m", folders[0])
    assert main(other) == 2
    assert "was trained on another corpus" in capsys.readouterr().err


@pytest.mark.slow
def test_settings_may_repeat_the_vocabulary(directory, tmp_path, capsys):
    """Those of `prepare`; of `train`, see above."""
    first, options = str(directory / "first"), ["--config", str(yaml_with(tmp_path, "{size: 400}"))]
    files = [[path] for path in write_pairs(tmp_path, PAIRS[:300])]
    prepare(*files, tmp_path / "out", "--vocabulary", first, *options)
    other = ["--config", str(yaml_with(tmp_path, "{kind: unigram}"))]
    command = ["prepare", "--target", files[1][0], "--source", files[0][0]]
    command += ["--output", str(tmp_path / "b"), "--vocabulary", first, *other]
    assert main([str(part) for part in command]) == 2
    error = capsys.readouterr().err
    assert "with kind='bpe', which cannot change; leave out vocabulary.kind=" in error


@pytest.mark.slow
def test_what_train_refuses(directory, corpus, tmp_path, capsys):
    def error(*prepared, extra=()):
        assert main([*train_options(corpus, tmp_path / "m", *prepared), *extra]) == 2
        return capsys.readouterr().err

    first = str(directory / "first")
    for extra in (["--vocab-size", "300"], ["--config", str(yaml_with(tmp_path, "{size: 300}"))]):
        assert "with size=400, which cannot change; leave out" in error(first, extra=extra)
    assert "--prepared replaces --source" in error(first, extra=["--source", "x"])
    assert "is not a prepared folder" in error(str(tmp_path))
    (tmp_path / WORK_NAME).mkdir()
    assert "is not finished" in error(str(tmp_path))
    files = [[path] for path in write_pairs(tmp_path, PAIRS[:300])]
    prepare(*files, tmp_path / "out", "--vocab-size", "350")
    assert "has another vocabulary than" in error(first, str(tmp_path / "out"))
    shard = next(pathlib.Path(tmp_path / "out").glob("*.tfrecord"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    assert f"{shard}: damaged, it has {len(whole) - 100:,} bytes" in error(str(tmp_path / "out"))
    shard.unlink()
    assert f"{shard}: no such file" in error(str(tmp_path / "out"))
    assert not (tmp_path / "m").exists()


def test_bytes_that_changed_are_found_in_reading(directory, corpus, tmp_path, capsys):
    shutil.copytree(directory / "first", tmp_path / "copy")
    shard = sorted((tmp_path / "copy").glob("*.tfrecord"))[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 255
    shard.write_bytes(content)
    assert main(train_options(corpus, tmp_path / "m", str(tmp_path / "copy"))) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith(f"tf-transformer: error: {shard}: damaged; copy it again, or remove")
    )


def test_a_description_that_lacks_something(directory, tmp_path):
    shutil.copytree(directory / "first", tmp_path / "copy")
    path = tmp_path / "copy" / "prepared.json"
    description = json.loads(path.read_text())
    del description["tokenizers"], description["shards"][0]["digest"]
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"prepared.json: damaged, it lacks digest, tokenizers$"):
        PreparedText([PreparedFolder(tmp_path / "copy")], DATA)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "../first/shard-00000.tfrecord"}, "expected shards such as shard-00000.tfrecord"),
        (
            {"name": "/etc/passwd"},
            "expected shards such as shard-00000.tfrecord, got '/etc/passwd'",
        ),
        ({"name": ["shard-00000.tfrecord"]}, "expected shards such as shard-00000.tfrecord"),
        ({"pairs": "many"}, "expected counts of at least 0 for shard-00000.tfrecord"),
        ({"pairs": -1}, "expected counts of at least 0 for shard-00000.tfrecord"),
        ({"pairs": True}, "expected counts of at least 0 for shard-00000.tfrecord"),
        ({"bytes": 1e9}, "expected counts of at least 0 for shard-00000.tfrecord"),
        ({"lengths": {"3": 4}}, "expected counts of at least 0 for shard-00000.tfrecord"),
        ({"lengths": [0, 0.5]}, "expected counts of at least 0 for shard-00000.tfrecord"),
        ({"lengths": [0, 5, 10**18]}, r"shard-00000.tfrecord cannot have .*, 1,000,\S+ lengths"),
        ({"pairs": 10**18, "lengths": [10**18]}, r"shard-00000.tfrecord cannot have 1,000,"),
    ],
)
def test_a_description_of_what_cannot_be(directory, tmp_path, changes, reason):
    path = tmp_path / "prepared.json"
    description = json.loads((directory / "first" / "prepared.json").read_text())
    description["shards"][0] |= changes
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=f"prepared.json: damaged, .*{reason}"):
        read_description(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"shards": []},
        {"shards": {}},
        {"shards": [3]},
        {"tokenizers": None},
        {"tokenizers": ["x"]},
        {"statistics": []},
        {"statistics": {"lines": 3}},
    ],
    ids=str,
)
def test_a_description_of_another_kind(directory, tmp_path, changes):
    path = tmp_path / "prepared.json"
    description = json.loads((directory / "first" / "prepared.json").read_text()) | changes
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"prepared.json: damaged, "):
        read_description(tmp_path)


def test_descriptions_and_vocabularies_that_are_no_files(directory, tmp_path):
    (tmp_path / "prepared.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"prepared.json: damaged .*not JSON that can be read"):
        read_description(tmp_path)
    os.mkfifo(tmp_path / "target.spm")
    with pytest.raises(ValueError, match=r"target.spm: expected a regular file, got a pipe"):
        read_models(tmp_path)


def test_a_vocabulary_that_is_damaged(tmp_path):
    for content in (b"none", b"\xff\xfe"):
        (tmp_path / "target.spm").write_bytes(content)
        with pytest.raises(ValueError, match="its vocabulary is not a usable Sentence"):
            read_vocabulary(tmp_path)


@pytest.mark.parametrize(
    "address",
    ["foo", "grpc://localhost", "grpc://localhost:x", "grpc://localhost:65536", "grpc://::1:5050"],
)
def test_addresses_that_are_none(address):
    with pytest.raises(ValueError, match=r"expected grpc://HOST:PORT, with an IPv6 address in"):
        check_service(address)


def test_nothing_listens_at_the_address():
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(OSError, match=r"no tf.data service answers there \(.*onnection refused"):
        check_service(f"grpc://localhost:{port}", seconds=0.1)


@pytest.mark.slow
def test_something_listens_that_is_no_service(directory, corpus, tmp_path, monkeypatch, capsys):
    """A port that accepts connections and stays silent; TensorFlow would wait for its answer."""
    with socket.create_server(("localhost", 0)) as server:
        address = f"grpc://localhost:{server.getsockname()[1]}"
        with pytest.raises(OSError, match=r"no tf.data service answers there \("):
            check_service(address, seconds=0.1)
        check_shortly = functools.partial(check_service, seconds=0.1)
        monkeypatch.setattr("training.prepared.prepared_text.check_service", check_shortly)
        command = train_options(corpus, tmp_path / "m", str(directory / "first"))
        assert main([*command, "--data-service", address]) == 2
    assert "no tf.data service answers there" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_another_grpc_server_is_no_service():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    with pytest.raises(OSError, match=r"no tf.data service answers there \(.*Method not found"):
        check_service(f"grpc://localhost:{port}", seconds=0.1)
    server.stop(None)


def field_1(content: bytes) -> bytes:
    return b"\x0a" + bytes([len(content)]) + content


NO_WORKERS = {
    "no message": (b"\xff" * 20, "expected a list of workers"),
    "a number": (b"\x08\x01", "expected a list of workers"),
    "a group": (b"\x0b\x0c", "expected a list of workers"),
    "a worker that is a number": (field_1(b"\x08\x01"), "expected a list of workers"),
    "a worker that is no message": (field_1(b"\xff\xff\xff"), "expected a list of workers"),
    "not UTF-8": (field_1(field_1(b"\xff\xfe:1")), "expected a list of workers"),
    "an empty address": (field_1(field_1(b"")), "expected HOST:PORT of a worker. Received: ''"),
    "a file": (field_1(field_1(b"unix:/dev/null")), "expected HOST:PORT of a worker"),
    "a control character": (field_1(field_1(b"\x1b[31mx:1")), r"Received: '\x1b[31mx:1'"),
    "another field": (b"\x12\0", "has no worker"),
}


@pytest.mark.parametrize(("response", "reason"), NO_WORKERS.values(), ids=NO_WORKERS)
def test_workers_that_are_none(response, reason, capfd):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    handler = grpc.unary_unary_rpc_method_handler(lambda *_: response)
    service = "tensorflow.data.DispatcherService"
    server.add_registered_method_handlers(service, {"GetWorkers": handler})
    address = f"grpc://localhost:{server.add_insecure_port('localhost:0')}"
    server.start()
    try:
        with pytest.raises(OSError, match=r"no tf.data service answers there") as caught:
            check_service(address, seconds=0.1)
    finally:
        server.stop(None).wait()
    assert reason in str(caught.value) and str(caught.value).isprintable()
    # gRPC's own messages, but for those of other tests' servers that end meanwhile.
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "Got goaway" not in line] == []


def test_a_service_without_workers():
    """Nor one whose worker cannot be reached, by a name that is none."""
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    with pytest.raises(OSError, match=r"no tf.data service answers there \(.* has no worker\)"):
        check_service(dispatcher.target, seconds=0.1)
    worker = service.WorkerServer(
        service.WorkerConfig(dispatcher.target[7:], worker_address="no-such-host.invalid:%port%")
    )
    with pytest.raises(OSError, match=r"no tf.data service answers there \(no-such-host.invalid:"):
        check_service(dispatcher.target, seconds=0.1)
    del worker


@pytest.mark.slow
def test_a_service_at_an_ipv6_address(directory):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6")
    service = start_service(0, "::1")
    address = f"grpc://[::1]:{service.target.rpartition(':')[2]}"
    check_service(address)
    batches = PreparedText([PreparedFolder(directory / "first")], DATA, address).training_batches(1)
    assert len(collect(batches, 3)) == 3


def start_checking_process(address):
    """Starts a process that ends when the service is lost or when its standard input is closed.

    The checks need no TensorFlow, which takes seconds to import.
    """
    script = (
        "import sys, unittest.mock\n"
        "sys.modules['tensorflow'] = unittest.mock.MagicMock()\n"
        "from training.prepared.data_service import exit_if_service_is_lost\n"
        f"with exit_if_service_is_lost({address!r}, 0.2, 0.5):\n"
        "    print('checking', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "checking\n"
    return process


@pytest.mark.slow
def test_a_service_that_ends_ends_training():
    """Training runs in a separate process, because that process is ended."""
    service = start_service(0)
    process = start_checking_process(service.target)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    service.worker._stop()
    service._stop()
    assert process.wait(timeout=60) == 2
    error = process.stderr.read().splitlines()[-1]
    assert "no tf.data service answers there" in error and "run the same command again" in error


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_service_that_is_killed_or_suspended_ends_training(end):
    service = subprocess.Popen([*DATA_SERVICE, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = service.stdout.readline().split()[-1]
        process = start_checking_process(address)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        service.send_signal(end)
        assert process.wait(timeout=60) == 2
    finally:
        service.kill()
        service.wait()
    error = process.stderr.read().splitlines()[-1]
    assert "no tf.data service answers there" in error and "run the same command again" in error


@pytest.mark.slow
def test_the_checks_end_with_training():
    service = start_service(0)
    process = start_checking_process(service.target)
    assert process.communicate("", timeout=60)[0] == ""
    assert process.returncode == 0


@pytest.mark.slow
def test_a_service_that_is_started_again(directory, corpus, tmp_path, monkeypatch, capsys):
    services = [start_service(0)]
    address = services[0].target
    report = Report.on_train_batch_end

    def start_again(self, batch, logs=None):
        report(self, batch, logs)
        if len(services) == 1:
            services[0].worker._stop()
            services[0]._stop()
            services.append(start_service(int(address.rpartition(":")[2])))

    monkeypatch.setattr(Report, "on_train_batch_end", start_again)
    command = train_options(corpus, tmp_path / "m", str(directory / "first"))
    command = [*command, "optimization.steps=40", "--data-service", address]
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"tf-transformer: error: data service {address}: it has lost this")
    # The lost reader gives its number back when it goes, and the new service begins to count where
    # the old one did: it would take the next reader's. A process that ends takes it along.
    gc.collect()
    assert main(command) == 0


@pytest.mark.slow
def test_a_service_ends_with_ctrl_c(monkeypatch, capsys):
    wait = data_service_cli._wait_for_ctrl_c
    printed = []

    def wait_for_ctrl_c():
        printed.extend(capsys.readouterr().out.splitlines())
        check_service(printed[0].split()[-1])
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait()

    monkeypatch.setattr(data_service_cli, "_wait_for_ctrl_c", wait_for_ctrl_c)
    # A shell ignores the signal for what it runs in the background, which programs inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["data-service", "--trust-network", "--port", "0"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    serving, warning = printed
    assert serving.startswith("Serving batches: --data-service grpc://localhost:")
    assert warning.startswith("Every machine of the network can connect, and run code")
    assert capsys.readouterr().err.splitlines()[-1] == "tf-transformer: interrupted"


@pytest.mark.slow
def test_ctrl_c_reaches_a_service_through_any_thread():
    """So it does too where it comes just before the wait: `signal.pause` would sleep on."""
    code = (
        "import signal, threading\n"
        "from training.commands.data_service_cli import _wait_for_ctrl_c\n"
        "def interrupt(): signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "threading.Timer(0.5, interrupt).start()\n"
        "try: _wait_for_ctrl_c()\n"
        "except KeyboardInterrupt: print('heard')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert found.stdout == "heard\n"


def test_ports_that_cannot_be_taken():
    with pytest.raises(ValueError, match=r"^port 99999: expected 0 to 65535$"):
        start_service(99999)
    with (
        socket.create_server(("", 0)) as server,
        pytest.raises(OSError, match="address already in use"),
    ):
        start_service(server.getsockname()[1])


@pytest.mark.slow
def test_a_data_service_gives_the_same_batches(directory):
    service = start_service(0)
    folder = PreparedFolder(directory / "first")
    here, there = (PreparedText([folder], DATA, address) for address in (None, service.target))
    assert equal(
        collect(here.training_batches(1, 30), 20), collect(there.training_batches(1, 30), 20)
    )
