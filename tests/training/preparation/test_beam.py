"""Preparing by Apache Beam: the same bytes as by processes, whatever the runner."""

import gzip
import json
import logging
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from concurrent import futures

import grpc
import numpy as np
import pytest
import zstandard

pytest.importorskip("apache_beam")

import apache_beam

from tests.inline_beam import execute
from tests.training.preparation.test_prepare import (
    PAIRS,
    SETTINGS,
    contents,
    fails,
    prepare,
    records_of,
    write_lines,
    write_pairs,
)
from tf_transformer.__main__ import main
from tf_transformer.apache_beam.direct_runner import loopback_only
from tf_transformer.apache_beam.plain_texts import decompress_files
from training.preparation.beam_shuffle import random_keys
from training.preparation.duplicates import ranges_of

# One worker in this process.
IN_MEMORY = [
    *("--runner", "direct", "--", "--direct_num_workers=1"),
    "--direct_running_mode=in_memory",
]
DIRECT = ["--runner", "direct"]
# Pairs with faults, duplicates, and a range of lines of which nothing is kept.
ROWS = [*PAIRS[:250], ("", "x"), *PAIRS[100:200], *[("x", "")] * 60, *PAIRS[:50], *PAIRS[250:300]]
EXTRA = [*SETTINGS, "--shard-pairs", "30"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """`ROWS` as a compressed and a plain file, prepared by processes."""
    directory = tmp_path_factory.mktemp("corpus")
    source, target = write_pairs(directory, ROWS)
    compressed = gzip.compress(pathlib.Path(source).read_bytes())
    (directory / "train.en.gz").write_bytes(compressed)
    prepare([f"{source}.gz"], [target], directory / "out", *EXTRA)
    return directory


def by_beam(corpus, output, *extra):
    return prepare([corpus / "train.en.gz"], [corpus / "train.de"], output, *EXTRA, *extra)


# ---- The same bytes ----


@pytest.mark.parametrize("pairs_per_range", [7, 10**6])
def test_the_bytes_are_those_of_processes(
    corpus, tmp_path, monkeypatch, inline_beam, pairs_per_range
):
    monkeypatch.setattr("training.preparation.beam_runner._PAIRS_PER_RANGE", pairs_per_range)
    description = by_beam(corpus, tmp_path / "out", *DIRECT)
    assert contents(tmp_path / "out") == contents(corpus / "out")
    assert description["statistics"]["duplicates"] >= 150
    assert any(shard["pairs"] == 0 for shard in description["shards"])


@pytest.mark.slow
def test_files_of_all_kinds(corpus, tmp_path, inline_beam):
    """The same file twice, several files, columns, and a language model."""
    tsv = "".join(f"{target}\t{source}\r\n" for source, target in PAIRS[:90])
    (tmp_path / "b.tsv.zst").write_bytes(zstandard.compress(tsv.encode()))
    both, plain = str(tmp_path / "b.tsv.zst"), write_pairs(tmp_path, PAIRS[60:120], "c")
    for sources, options in (
        ([f"{both}:2", plain[0], f"{both}:2"], []),
        (None, []),
        ([f"{both}:2", plain[0], f"{both}:2"], ["--keep-duplicates"]),
    ):
        words = [sources, [f"{both}:1", plain[1], f"{both}:1"]]
        extra = ["--vocabulary", str(corpus / "out"), "--shard-pairs", "25", *options]
        prepare(*words, tmp_path / "processes", *extra)
        prepare(*words, tmp_path / "beam", *extra, *DIRECT)
        assert contents(tmp_path / "beam") == contents(tmp_path / "processes")
        for name in ("processes", "beam"):
            shutil.rmtree(tmp_path / name)


@pytest.mark.slow
def test_processes_of_the_direct_runner(corpus, tmp_path, capfd):
    by_beam(corpus, tmp_path / "out", "--processes", "2", "--runner", "direct")
    assert contents(tmp_path / "out") == contents(corpus / "out")
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_cluster_of_dask(corpus, tmp_path):
    """With a scheduler and two workers of its own, and again with those that Dask starts."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as cluster:
        options = ["--runner", "dask", "--", "--dask_client_address", cluster.scheduler_address]
        by_beam(corpus, tmp_path / "cluster", *options)
    assert contents(tmp_path / "cluster") == contents(corpus / "out")
    by_beam(corpus, tmp_path / "own", "--runner", "dask", "--", "--dask_npartitions=3")
    assert contents(tmp_path / "own") == contents(corpus / "out")


@pytest.mark.slow
def test_killed_and_resumed_by_processes_and_by_beam(corpus, tmp_path):
    """Either resumes what the other has begun."""
    command = [
        *(sys.executable, "-m", "tf_transformer", "prepare", "--output", tmp_path / "out"),
        *("--source", corpus / "train.en.gz", "--target", corpus / "train.de", *EXTRA),
    ]
    begun = time.monotonic()
    by_beam(corpus, tmp_path / "first", "--runner", "direct", "--processes", "2")
    duration = time.monotonic() - begun
    draw, kills = random.Random(2), 0
    for runner in (["--runner", "direct"], [], IN_MEMORY, ["--runner", "direct"], IN_MEMORY):
        process = subprocess.Popen([*command, "--processes", "2", *runner])
        try:
            process.wait(duration * draw.uniform(0.3, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    by_beam(corpus, tmp_path / "out", *IN_MEMORY)
    assert contents(tmp_path / "out") == contents(corpus / "out")
    assert kills >= 1


# ---- Shuffling ----


@pytest.mark.parametrize("extra", [[], ["--keep-duplicates"]])
def test_all_pairs_are_shuffled(corpus, tmp_path, inline_beam, extra):
    """In the order of their keys, in shards of equal ranges of keys; resumed, too."""
    by_beam(corpus, tmp_path / "plain", *extra, *DIRECT)
    shuffled = by_beam(corpus, tmp_path / "out", *extra, "--shuffle", "5", *DIRECT)
    assert shuffled["shuffle"] == 5
    num_shards = len(shuffled["shards"])
    expected = []
    for index, shard in enumerate(records_by_shard(corpus, extra)):
        keys = random_keys(5, index, len(shard))
        expected += [
            (key, record) for key, record in zip(keys.tolist(), shard, strict=True) if record
        ]
    expected.sort(key=lambda pair: pair[0])
    found = records_of(tmp_path / "out")
    assert found == [record for _, record in expected]
    assert found != records_of(tmp_path / "plain")
    sizes = np.bincount(
        ranges_of(np.array([key for key, _ in expected], np.uint64), num_shards),
        minlength=num_shards,
    )
    assert [shard["pairs"] for shard in shuffled["shards"]] == sizes.tolist()
    names = ("lines", "kept", "duplicates", "source_tokens", "target_tokens", "faults")
    plain = json.loads((tmp_path / "plain/prepared.json").read_text())
    for name in names:
        assert shuffled["statistics"][name] == plain["statistics"][name]


def records_by_shard(corpus, extra):
    """The tokenized pairs of each shard; None for those that equal an earlier pair."""
    output = corpus / "unfiltered"
    if not output.exists():
        by_beam(corpus, output, "--keep-duplicates")
    pairs = iter(records_of(output))
    seen: set = set()
    for shard in json.loads((output / "prepared.json").read_text())["shards"]:
        found = [next(pairs) for _ in range(shard["pairs"])]
        if not extra:
            texts = [tuple(map(tuple, pair)) for pair in found]
            found = [
                None if text in seen or seen.add(text) else pair
                for text, pair in zip(texts, found, strict=True)
            ]
        yield found


def test_the_order_depends_on_the_seed_only(corpus, tmp_path, capsys, inline_beam):
    by_beam(corpus, tmp_path / "a", "--shuffle", "5", *DIRECT)
    by_beam(corpus, tmp_path / "c", "--shuffle", "6", *DIRECT)
    assert records_of(tmp_path / "c") != records_of(tmp_path / "a")
    words = [[corpus / "train.en.gz"], [corpus / "train.de"], tmp_path / "c", *EXTRA]
    for extra in (["--shuffle", "5", *DIRECT], DIRECT):
        assert "another order of the pairs (--shuffle)" in fails(capsys, *words, *extra)


@pytest.mark.slow
def test_processes_shuffle_alike(corpus, tmp_path, monkeypatch):
    by_beam(corpus, tmp_path / "b", "--shuffle", "5", "--runner", "direct", "--processes", "2")
    monkeypatch.setattr("tf_transformer.apache_beam.pipelines._execute", execute)
    by_beam(corpus, tmp_path / "a", "--shuffle", "5", *DIRECT)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_keys_are_those_of_philox():
    """The same in every version of NumPy, and different for each seed and shard.

    Golden: `numpy.random.Philox(key=numpy.array([5, 0], "uint64")).random_raw(2)` of NumPy 2.4.6.
    """
    assert random_keys(5, 0, 2).tolist() == [13535223855206698129, 10893183200674769480]
    keys = np.concatenate([random_keys(seed, index, 1000) for seed in (0, 1) for index in (0, 1)])
    assert len(np.unique(keys)) == 4000
    assert np.histogram(keys / 2**64, 4, (0, 1))[0] == pytest.approx(1000, rel=0.15)


# ---- Errors ----


@pytest.mark.slow
@pytest.mark.parametrize("runner", [IN_MEMORY, ["--runner", "direct"], ["--runner", "dask"]])
def test_an_error_of_a_worker_is_one_line(corpus, tmp_path, capfd, runner):
    cut = tmp_path / "cut.en.gz"
    cut.write_bytes((corpus / "train.en.gz").read_bytes()[:-200])
    error = fails(capfd, [cut], [corpus / "train.de"], tmp_path / "out", *runner)
    assert "cut.en.gz: truncated or damaged gzip file" in error


def test_a_text_that_changes_while_it_is_read(corpus, tmp_path, monkeypatch, capsys, inline_beam):
    """Restored, the same command resumes."""
    source, target = write_pairs(tmp_path, ROWS)
    genuine = decompress_files

    def change(*arguments):
        pathlib.Path(target).write_bytes(text.swapcase())
        return genuine(*arguments)

    text = pathlib.Path(target).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("training.preparation.beam_runner.decompress_files", change)
        error = fails(capsys, [source], [target], tmp_path / "out", *EXTRA, *DIRECT)
    assert "train.de has changed while it was read; restore it and run" in error
    pathlib.Path(target).write_bytes(text)
    prepare([source], [target], tmp_path / "out", *EXTRA, *DIRECT)
    assert records_of(tmp_path / "out") == records_of(corpus / "out")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--shuffle", "1"], "--shuffle needs --runner"),
        (["--shuffle", "-1", "--runner", "direct"], "expected a seed of 0 to 2"),
        (["--", "--streaming"], "--streaming: options of Apache Beam need --runner"),
        (["--runner", "direct", "--", "--foo"], "options of --runner direct: .*--foo"),
        (["--runner", "dask", "--", "--foo", "1"], "options of --runner dask: .*--foo"),
        (["--runner", "direct", "--", "--direct_num_workers=x"], "invalid int value: 'x'"),
    ],
)
def test_invalid_options(tmp_path, capsys, extra, message):
    file = write_lines(tmp_path / "text", ["x"])
    command = ["prepare", "--target", file, "--output", str(tmp_path / "out"), *extra]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def test_without_apache_beam(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    file = write_lines(tmp_path / "text", ["x"])
    command = ["prepare", "--target", file, "--output", str(tmp_path / "out"), "--runner", "direct"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "Apache Beam is not installed" in error and "pip install 'tf-transformer[beam]'" in error


@pytest.mark.parametrize(
    ("runner", "options"),
    [
        ("flink", ["--flink_master=host:8081", "--parallelism=4"]),
        ("spark", ["--spark_master_url=spark://host:7077"]),
        ("portable", ["--job_endpoint=host:8099", "--environment_type=LOOPBACK"]),
    ],
)
def test_pipelines_of_clusters_are_made(corpus, tmp_path, monkeypatch, capsys, runner, options):
    """They are not run: their job servers are not at hand."""
    made = []

    def run(self):
        made.append((type(self.runner).__name__, self.to_runner_api(), self.options))
        raise RuntimeError("made")

    monkeypatch.setattr(apache_beam.Pipeline, "run", run)
    words = [[corpus / "train.en.gz"], [corpus / "train.de"], tmp_path / "out", *EXTRA]
    error = fails(capsys, *words, "--runner", runner, "--", *options)
    assert "the pipeline of Apache Beam failed: RuntimeError: made; run the same" in error
    ((name, pipeline, given),) = made
    assert name == f"{runner.capitalize()}Runner"
    assert any("_count" in label for label in names_of(pipeline))
    flag, _, value = options[0].lstrip("-").partition("=")
    assert str(given.get_all_options()[flag]) == value


def names_of(pipeline):
    return [transform.unique_name for transform in pipeline.components.transforms.values()]


def test_dataflow_says_what_it_needs(corpus, tmp_path, capsys):
    """A region or, without its extra, apache_beam[gcp]."""
    words = [[corpus / "train.en.gz"], [corpus / "train.de"], tmp_path / "out", *EXTRA]
    error = fails(capsys, *words, "--runner", "dataflow")
    assert re.search(r"Apache Beam failed: .*(region|apache_beam\[gcp\])", error)


# ---- Nobody is let in ----


def test_servers_listen_on_this_machine_only():
    addresses = {}
    for is_local in (True, False):
        server = grpc.server(futures.ThreadPoolExecutor(1))
        if is_local:
            with loopback_only():
                port = server.add_insecure_port("[::]:0")
        else:
            port = server.add_insecure_port("[::]:0")
        server.start()
        addresses[is_local] = listening_on(port)
        with socket.create_connection(("localhost", port), 5):
            pass
        server.stop(None)
    assert addresses[True] and addresses[True] <= LOOPBACK
    assert not addresses[False] & LOOPBACK


# 127.0.0.1, ::1 and ::ffff:127.0.0.1, as in /proc/net/tcp and tcp6.
LOOPBACK = {
    "0100007F",
    "00000000000000000000000001000000",
    "0000000000000000FFFF00000100007F",
}


def listening_on(port):
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(name).read_text().splitlines()[1:]:
            address, number = line.split()[1].split(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                found.add(address)
    return found
