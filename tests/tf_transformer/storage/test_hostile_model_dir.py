"""Model directories that came from elsewhere: refused in one line, quickly, with little memory."""

import json
import os
import shutil
import socket
import subprocess
import sys

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tf_transformer.storage import test_model_dir
from tests.tf_transformer.storage.test_model_dir import refuses, replace_file, rewrite_config
from tf_transformer.__main__ import main
from tf_transformer.inference.inspection import inspect_attention
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.json_files import MAX_BYTES
from tf_transformer.storage.model_dir import load_model, read_config, weights_digest
from tf_transformer.storage.regular_files import stored_bytes
from tf_transformer.storage.score_log import append_score, read_scores
from tf_transformer.storage.weight_shapes import weight_shapes
from training.checkpointing.validation_history import read_best_by, read_validation_scores
from training.evaluation.runs import read_run
from training.plots.recorded_search import record_search
from training.plots.training_curves import plot_training
from training.recorded_config import read_training_config

# Fixtures: the files of a sound model directory, and a copy of them.
model, contents, model_dir = (
    test_model_dir.model,
    test_model_dir.contents,
    test_model_dir.model_dir,
)

WEIGHTS = "model.weights.h5"
KERNEL = "encoder/layer_0/feed_forward/inner/kernel"


# ---- Weights that are no numbers ----


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(model_dir, value):
    with h5py.File(model_dir / WEIGHTS, "r+") as file:
        file[KERNEL][3, 2] = value
    reason = f"1 of the 96 numbers in {KERNEL} are NaN or infinite"
    with refuses(model_dir / WEIGHTS, reason):
        load_model(model_dir)


@pytest.mark.representatives("3e+38")
@pytest.mark.slow
@pytest.mark.parametrize("value", [1e20, 3e38])
def test_finite_weights_with_which_nothing_finite_is_computed(model_dir, value):
    def enlarge(file):
        for name in weight_shapes(read_config(model_dir)):
            file[name][...] = value

    rewrite_weights(model_dir, enlarge)
    translator = Translator.load(model_dir)
    message = r"the model's logits are NaN or infinite for 1 of 2 inputs; .*Use earlier weights"
    with pytest.raises(ValueError, match=message):
        translator(["a red house", ""])
    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        inspect_attention(translator, "a house")
    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        record_search(translator, "a house")


@pytest.mark.slow
def test_the_command_says_that_nothing_finite_is_computed(model_dir, tmp_path, capsys):
    rewrite_weights(
        model_dir,
        lambda file: file["target_embedding/embeddings"].write_direct(
            np.full(file["target_embedding/embeddings"].shape, 3e38, np.float32)
        ),
    )
    text = tmp_path / "text"
    text.write_text("a house\n")
    arguments = ["--model-dir", str(model_dir), "--input", str(text)]
    assert main(["translate", *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    expected = f"the model directory {model_dir}: the model's logits are NaN or infinite for 1 of 1"
    assert error.startswith(f"tf-transformer: error: {expected} inputs; ")


# ---- config.json ----


@pytest.mark.parametrize(
    "changes",
    [
        {"max_length": 10**12},
        {"max_length": 2**20 + 1},
        {"d_model": 10**7},
        {"d_ff": 10**9},
        {"num_encoder_layers": 10**6},
        {"num_decoder_layers": 10**6},
        {"source_vocab_size": 10**10},
        {"target_vocab_size": 10**10},
        {"max_relative_distance": 10**10},
        {"decoder": {"d_model": 10**8}},
        {"decoder": {"cross_num_heads": 10**8}},
        {"num_heads": 2**63 - 1},
    ],
    ids=str,
)
def test_sizes_that_nobody_computes_with(model_dir, changes):
    rewrite_config(model_dir, lambda description: description["model"].update(changes))
    with refuses(model_dir / "config.json", r"`\S+` must be less than or equal to \d+\. Rec"):
        read_config(model_dir)


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 2**16},
        {"num_encoder_layers": 2**10},
        {"num_decoder_layers": 2**10, "d_ff": 2**18},
        {"positions": "learned", "max_length": 2**20, "d_model": 2**15},
    ],
    ids=str,
)
def test_sizes_that_the_weights_do_not_have(model_dir, monkeypatch, changes):
    """No model is made before names, shapes and the file's size have been compared."""
    monkeypatch.setattr("tf_transformer.storage.model_dir.make_model", None)
    rewrite_config(model_dir, lambda description: description["model"].update(changes))
    with refuses(model_dir / WEIGHTS, r"damaged, or of another model \("):
        load_model(model_dir)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 200_000 + "]" * 200_000, "not JSON that can be read"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "not JSON that can be read"),
        ('{"format_version": 2, "model": {"d_model": NaN}}', "not JSON .NaN is no JSON number"),
        ('{"format_version": -Infinity}', "not JSON .-Infinity is no JSON number"),
        ('{"format_version": 1e999}', "not JSON .a number of 5 characters is too large"),
        ('{"format_version": %s}' % ("1" * 10_000), "not JSON .Exceeds the limit"),
        ('{"format_version": %s}' % 10**400, "not JSON .an integer of 401 characters is too large"),
        ('{"format_version": -%s}' % 2**64, "not JSON .an integer of 21 characters is too large"),
        ('{"format_version": "%s"}' % ("x" * 10_000), "this version reads .*'xxxxxxxx"),
        ('{"format_version": 2, "model": "%s"}' % ("x" * 10_000), "expected the model's settings"),
        ('{"format_version": 2, "model": {"%s": 1}}' % ("x" * 10_000), "unknown setting"),
        (
            '{"format_version": 2, "model": {"target_vocab_size": 8, "source_vocab_size": "%s"}}'
            % ("x" * 10_000),
            "`source_vocab_size` must be a valid integer",
        ),
        (" " * (MAX_BYTES + 1), r"expected at most 1,048,576 bytes, got 1,048,577$"),
    ],
    ids=lambda value: value[:30],
)
def test_json_that_is_none(model_dir, text, reason):
    replace_file(model_dir / "config.json", text)
    with refuses(model_dir / "config.json", reason) as raised:
        load_model(model_dir)
    assert len(str(raised.value)) < 600 + len(str(model_dir))
    assert "\n" not in str(raised.value)


# ---- Files that are none ----


def make_special(path, kind):
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        directory = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as server:  # its own path may be too long
            server.bind(f"/proc/self/fd/{directory}/{path.name}")
        os.close(directory)


KINDS = ["pipe", "device", "folder", "socket"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["config.json", "source.spm", "target.spm", WEIGHTS])
def test_files_that_are_not_regular(model_dir, name, kind):
    make_special(model_dir / name, kind)
    with pytest.raises(ValueError, match=f"expected a regular file, got a {kind}") as raised:
        load_model(model_dir)
    assert str(model_dir / name) in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_training_that_are_not_regular(model_dir, kind):
    for name in ("scores.jsonl", "training.json", "validation_scores.json"):
        make_special(model_dir / name, kind)
    message = f"expected a regular file, got a {kind}"
    for call in (
        lambda: read_scores(model_dir),
        lambda: append_score(model_dir, {"bleu": 1.0}),
        lambda: read_training_config(model_dir),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert read_run(model_dir).fault.count(message) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("run", ["training", "validation"])
def test_files_of_tensorboard_that_are_not_regular(trained, tmp_path, no_hang, kind, run):
    logs = shutil.copytree(trained / "logs", tmp_path / "logs")
    plot_training(logs)
    make_special(logs / run / "events.out.tfevents.0000000001.x", kind)
    with pytest.raises(ValueError, match=f"tfevents.*expected a regular file, got a {kind}"):
        plot_training(logs)


def test_files_may_be_links(model_dir, tmp_path_factory):
    """As in the caches of model hubs."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for path in list(model_dir.iterdir()):
        shutil.move(path, elsewhere)
        path.symlink_to(elsewhere / path.name)
    load_model(model_dir)


def test_files_that_are_too_large(model_dir):
    """Files full of holes, which take no place on the disk."""
    for name, size in (("target.spm", 2**40), ("scores.jsonl", 2**40), ("training.json", 2**40)):
        with open(model_dir / name, "wb") as file:
            file.truncate(size)
    with pytest.raises(ValueError, match=r"target.spm: missing or damaged .*expected at most"):
        load_model(model_dir)
    for call in (read_scores, read_training_config, lambda path: append_score(path, {})):
        with pytest.raises(ValueError, match="expected at most"):
            call(model_dir)


# ---- HDF5 ----


def rewrite_weights(model_dir, change):
    path = model_dir / WEIGHTS
    with h5py.File(path, "r+") as file:
        change(file)


def add_bomb(file):
    """800 GiB of zeros in a few kilobytes."""
    file.create_dataset("bomb", (100, 2**31), "float32", chunks=(1, 2**28), compression="gzip")


def replace_kernel(shape=(8, 12), dtype="float32", **options):
    def change(file):
        del file[KERNEL]
        file.create_dataset(KERNEL, shape, dtype, **options)

    return change


def link_kernel(link):
    def change(file):
        del file[KERNEL]
        file[KERNEL] = link

    return change


def make_virtual(file):
    del file[KERNEL]
    layout = h5py.VirtualLayout((8, 12), "float32")
    layout[...] = h5py.VirtualSource("/etc/passwd", "x", (8, 12))
    file.create_virtual_dataset(KERNEL, layout)


def nest(file):
    group = file
    for _ in range(3000):
        group = group.create_group("a")


def make_circle(file):
    file["encoder/layer_0/circle"] = file["/"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (add_bomb, "'bomb' is not in this model"),
        (lambda file: file.create_group("\x1b[2J\n"), r"'\\x1b\[2J\\n' is not in this model"),
        (lambda file: file.create_group("encoder/layer_0/more"), "'encoder/.*' is not in this"),
        (nest, "'a' is not in this model"),
        (make_circle, "'encoder/layer_0/circle' is not in this model"),
        (
            replace_kernel(compression="gzip"),
            f"{KERNEL} is compressed, incomplete or in another file",
        ),
        (replace_kernel(chunks=(2, 2)), f"{KERNEL} is compressed, incomplete or in another file"),
        (
            replace_kernel(),
            f"{KERNEL} is compressed, incomplete or in another file",
        ),  # nothing written
        (
            replace_kernel(external=[("/etc/passwd", 0, 384)]),
            f"{KERNEL} is compressed, incomplete or in another file",
        ),
        (make_virtual, f"{KERNEL} is compressed, incomplete or in another file"),
        (link_kernel(h5py.SoftLink("/decoder")), f"{KERNEL} is a link to another name or file"),
        (
            link_kernel(h5py.ExternalLink("/etc/passwd", "/x")),
            f"{KERNEL} is a link to another name or file",
        ),
        (replace_kernel(shape=(8, 13)), f"{KERNEL} has the shape"),
        (replace_kernel(dtype="float64"), f"{KERNEL} has the type float64, not float32"),
        (replace_kernel(dtype=h5py.string_dtype()), f"{KERNEL} has the type object"),
        (replace_kernel(shape=(2**40, 2**20)), f"{KERNEL} has the shape"),
    ],
)
def test_hdf5_that_is_not_ours(model_dir, change, reason):
    rewrite_weights(model_dir, change)
    for read in (load_model, weights_digest):
        with refuses(model_dir / WEIGHTS, rf"damaged, or of another model \(.*{reason}"):
            read(model_dir)


def test_weights_that_are_holes(model_dir, monkeypatch):
    """34 GB of zeros that take no place on the disk."""
    monkeypatch.setattr("tf_transformer.storage.model_dir.make_model", None)
    rewrite_config(model_dir, lambda description: description["model"].update(d_model=2**16))
    path = model_dir / WEIGHTS
    path.unlink()
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    early.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    groups = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    groups.set_create_intermediate_group(True)
    with h5py.File(path, "w") as file:
        for name, shape in weight_shapes(read_config(model_dir)).items():
            space = h5py.h5s.create_simple(shape)
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, space, early, groups)
    assert path.stat().st_size > 2**34
    if stored_bytes(path) > 2**20:
        pytest.skip("this file system does not tell holes from zeros")
    with refuses(path, r"damaged, .*the weights need [\d,]+ bytes, the file stores [\d,]+\)"):
        load_model(model_dir)


def test_a_group_in_place_of_an_array(model_dir):
    def change(file):
        del file[KERNEL]
        file.create_group(KERNEL)

    rewrite_weights(model_dir, change)
    with refuses(model_dir / WEIGHTS, rf"damaged, .*{KERNEL} is not an array"):
        load_model(model_dir)


@pytest.mark.slow
def test_many_names_for_one_array(model_dir):
    """A small file that would ask for the memory of a large one."""

    def change(file):
        names = [f"layer_{number}" for number in range(1, 200)]
        for side in ("encoder", "decoder"):
            for name in names:
                file[f"{side}/{name}"] = file[f"{side}/layer_0"]

    rewrite_weights(model_dir, change)
    layers = {"num_encoder_layers": 200, "num_decoder_layers": 200}
    rewrite_config(model_dir, lambda description: description["model"].update(layers))
    with refuses(model_dir / WEIGHTS, r"damaged, .*the weights need [\d,]+ bytes, the file has"):
        load_model(model_dir)


@pytest.mark.slow
def test_runs_counts_what_is_checked(model_dir):
    number = sum(weight.size for weight in load_model(model_dir)[0].get_weights())
    assert read_run(model_dir).num_weights == number
    rewrite_weights(model_dir, add_bomb)
    run = read_run(model_dir)
    assert run.num_weights is None and "'bomb' is not in this model" in run.fault


# ---- Scores ----


@pytest.mark.parametrize(
    "score",
    [
        {"bleu": "high"},
        {"exact": [1]},
        {"beam_size": {}},
        {"date": 3},
        {"date": "\x1b[2J"},
        {"bleu_signature": "a\nb"},
        {"reference": {"file": "\ud800"}},
        {"reference": {"file": 7}},
    ],
)
def test_runs_names_scores_that_it_cannot_show(model_dir, score):
    (model_dir / "scores.jsonl").write_text(json.dumps({"bleu": 1.0}) + f"\n{json.dumps(score)}\n")
    run = read_run(model_dir)
    assert run.scores == [] and f"{model_dir}/scores.jsonl:2: expected " in run.fault
    assert run.fault.isprintable()


def test_large_numbers_are_shown_in_few_digits(model_dir, capsys):
    (model_dir / "scores.jsonl").write_text(json.dumps({"bleu": 1e308, "perplexity": 1e300}) + "\n")
    record = {"step": 1, "loss": 1e308, "perplexity": 1e9, "accuracy": -1e308, "made_by": {}}
    (model_dir / "validation_scores.json").write_text(json.dumps({"scores": [record]}))
    assert main(["runs", str(model_dir)]) == 0
    output = capsys.readouterr().out
    assert "1.00e+308" in output and "1.000e+308" in output and "1.00e+09" in output
    assert max(map(len, output.splitlines())) < 200 + 2 * len(str(model_dir))


@pytest.mark.parametrize("digits", [20, 400])
def test_integers_that_are_no_floats(model_dir, digits):
    """In Python, they are compared with floats, and raise an OverflowError when computed with."""
    number = 10**digits - 1
    (model_dir / "scores.jsonl").write_text(json.dumps({"bleu": number}) + "\n")
    record = {"step": 1, "loss": number, "perplexity": 2, "accuracy": 1, "made_by": {}}
    content = {"best_by": "loss", "scores": [record]}
    (model_dir / "validation_scores.json").write_text(json.dumps(content))
    fault = read_run(model_dir).fault
    assert "scores.jsonl:1: damaged" in fault
    assert f"an integer of {digits} characters is too large" in fault
    for read in (read_validation_scores, read_best_by):
        with pytest.raises(ValueError, match=r"validation_scores.json: damaged.*is too large"):
            read(model_dir)


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"bleu": NaN}', '{"bleu": 1e999}', '{"n": %s}' % ("1" * 9999), "\xff"]
)
def test_scores_that_are_not_json(model_dir, line):
    (model_dir / "scores.jsonl").write_bytes(b'{"bleu": 1}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match=r"scores.jsonl:2: damaged; expected a JSON object"):
        read_scores(model_dir)


@pytest.mark.parametrize(
    "record",
    [
        {"step": "1", "loss": 1.0, "made_by": {}},
        {"step": True, "loss": 1.0, "made_by": {}},
        {"step": 1, "loss": "low", "made_by": {}},
        {"step": 1, "loss": 1.0, "bleu": [], "made_by": {}},
        [],
    ],
)
def test_validation_scores_of_wrong_types(model_dir, record):
    (model_dir / "validation_scores.json").write_text(json.dumps({"scores": [record]}))
    assert "validation_scores.json: damaged" in read_run(model_dir).fault


@pytest.mark.parametrize("values", [{"settings": []}, {"settings": {"model": 3}}, {}, {"a": "x"}])
def test_training_settings_of_wrong_types(model_dir, values):
    (model_dir / "training.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"training.json: damaged \("):
        read_training_config(model_dir)


def test_damaged_training_settings_are_named_once(model_dir):
    path = model_dir / "training.json"
    path.write_text("xx")
    with pytest.raises(ValueError) as raised:
        read_training_config(model_dir)
    assert str(raised.value).startswith(f"{path}: damaged (not JSON (Expecting value")


# ---- Tokenizers ----


def test_pieces_that_are_no_utf8(model_dir):
    data = (model_dir / "target.spm").read_bytes()
    assert b"</s>" in data
    replace_file(model_dir / "target.spm", data.replace(b"</s>", b"<\xff\xfe>"))
    with refuses(model_dir / "target.spm", "missing or damaged .*must be UTF-8"):
        load_model(model_dir)


# ---- Whatever else ----

_BYTES = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "repeat"]),
    st.floats(0, 1),
    st.binary(min_size=1, max_size=8),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
_SIZE = st.integers(-2, 2**70) | st.integers(0, 64) | _JSON


def damaged(data: bytes, changes) -> bytes:
    for kind, place, piece in changes:
        at = int(place * len(data))
        if kind == "flip":
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        else:
            data = data[:at] + data[at : at + 500] + data[at:]
    return data


@pytest.fixture(scope="module")
def loader():
    """A process with little memory beside what TensorFlow takes, which a crash alone would end."""
    program = (
        "import pathlib, resource, signal, sys\n"
        "from tf_transformer.storage.model_dir import load_model, weights_digest\n"
        "from training.evaluation.runs import read_run\n"
        "load_model(pathlib.Path(sys.argv[1]))\n"
        "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + 2**30,) * 2)\n"
        "for line in sys.stdin:\n"
        "    path = pathlib.Path(line[:-1])\n"
        "    signal.alarm(60)\n"  # ends a process that hangs
        "    for call in (load_model, weights_digest, read_run):\n"
        "        try:\n"
        "            call(path)\n"
        "        except (ValueError, OSError):\n"
        "            pass\n"
        "    print('done', flush=True)\n"
    )

    def start(sound):
        return subprocess.Popen(
            [sys.executable, "-c", program, str(sound)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    processes = []
    yield lambda sound: processes.append(start(sound)) or processes[-1]
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.exhaustive  # random damage, of which the other tests have each kind
@pytest.mark.slow
def test_nothing_crashes(loader, contents, tmp_path):
    sound = tmp_path / "sound"
    sound.mkdir()
    for name, data in contents.items():
        (sound / name).write_bytes(data)
    description = json.loads(contents["config.json"])
    process = loader(sound)
    number = iter(range(10**6))

    def load(files):
        directory = tmp_path / str(next(number))  # HDF5 remembers files
        directory.mkdir()
        for name, data in files.items():
            (directory / name).write_bytes(data)
        process.stdin.write(f"{directory}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n", process.stderr.read()[-2000:]
        shutil.rmtree(directory)

    bounded = settings(
        max_examples=150,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )

    @bounded
    @given(st.sampled_from(sorted(contents)), st.lists(_BYTES, min_size=1, max_size=6))
    def bytes_that_changed(name, changes):
        load(contents | {name: damaged(contents[name], changes)})

    @bounded
    @given(st.dictionaries(st.sampled_from(sorted(description["model"])), _SIZE, min_size=1))
    def settings_that_changed(changes):
        text = json.dumps(description | {"model": description["model"] | changes})
        load(contents | {"config.json": text.encode()})

    bytes_that_changed()
    settings_that_changed()
