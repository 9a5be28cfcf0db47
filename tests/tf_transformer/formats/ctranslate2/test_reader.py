"""Imported folders of CTranslate2: what its own classes wrote, in every type of weights."""

import json
import shutil
import struct
import tracemalloc

import numpy as np
import pytest

from tests.tf_transformer.formats.random_model import (
    train_vocabularies,
    write_random_model,
)
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.tensors.ctranslate2_format import read_ctranslate2
from tf_transformer.formats.tensors.stored_file import StoredFile, naming
from tf_transformer.formats.writers.ctranslate2_writer import save_ctranslate2
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.vocabulary import Vocabulary

ctranslate2 = pytest.importorskip("ctranslate2")

CASES = {
    "the paper": (True, dict()),
    "pre-norm": (False, dict(norm_position="pre", positions="concatenated", first_position=2)),
    "Marian": (True, dict(positions="marian", activation="swish", begin_embedding="zero")),
    "no end": (True, dict(source_end=False, activation="gelu")),
    "untied, learned": (False, dict(tied_embeddings="none", positions="learned", max_length=40)),
    "unequal sides": (True, dict(decoder=dict(num_heads=2, d_ff=24), num_decoder_layers=1)),
}


def arrays_of(model_dir):
    shapes = weight_shapes(read_config(model_dir))
    return dict(read_arrays(model_dir / WEIGHTS_NAME, shapes))


def write_both(folder, joint, **settings):
    """Writes a model directory, and the same as a folder of CTranslate2."""
    settings = dict(logits_bias=True, end_bias=4.0) | settings
    write_random_model(folder / "ours", train_vocabularies(joint), **settings)
    convert_model(folder / "ours", "ctranslate2", folder / "theirs")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    write_both(folder, True, positions="marian", begin_embedding="zero")
    return folder


@pytest.fixture
def folder(both, tmp_path):
    return shutil.copytree(both / "theirs", tmp_path / "theirs")


@pytest.mark.usefixtures("untranslated")
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_was_written_comes_back(case, tmp_path):
    joint, settings = CASES[case]
    write_both(tmp_path, joint, **settings)
    import_model(tmp_path / "theirs", tmp_path / "again")
    first, second = (read_config(tmp_path / name) for name in ("ours", "again"))
    for name in ("tied_embeddings", "norm_position", "positions", "first_position", "source_end"):
        assert getattr(first, name) == getattr(second, name), name
    for name in ("begin_embedding", "activation", "num_decoder_layers", "layer_norm_epsilon"):
        assert getattr(first, name) == getattr(second, name), name
    assert first.side("decoder").num_heads == second.side("decoder").num_heads
    expected, found = arrays_of(tmp_path / "ours"), arrays_of(tmp_path / "again")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.usefixtures("untranslated")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "tolerance"), [("float16", 1e-3), ("bfloat16", 1e-2), ("int8", 1e-2), ("int16", 1e-3)]
)
def test_types_of_weights(kind, tolerance, both, tmp_path):
    if kind == "bfloat16":
        pytest.importorskip("torch")  # CTranslate2 converts to it by PyTorch
    models = [both / "theirs" / name for name in ("source.spm", "target.spm")]
    config = read_config(both / "ours")
    pieces = [Vocabulary(model.read_bytes()).pieces for model in models]
    shutil.copytree(both / "theirs", tmp_path / "theirs")
    save_ctranslate2(config, arrays_of(both / "ours"), *pieces, tmp_path / "theirs", kind)
    import_model(tmp_path / "theirs", tmp_path / "again")
    expected, found = arrays_of(both / "ours"), arrays_of(tmp_path / "again")
    for name, array in expected.items():
        scale = np.abs(array).max() or 1.0
        assert np.abs(found[name] - array).max() <= tolerance * scale, name


@pytest.mark.slow
def test_vocabularies_as_text(untranslated, folder, both, tmp_path):
    """As older versions write them."""
    pieces = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    (folder / "shared_vocabulary.json").unlink()
    for side in ("source", "target"):
        path = folder / f"{side}_vocabulary.txt"
        path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    import_model(folder, tmp_path / "again")
    expected, found = arrays_of(both / "ours"), arrays_of(tmp_path / "again")
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.slow
def test_version_5_has_no_config(folder, both, tmp_path):
    """Its special tokens are the usual ones, unless variables name others."""
    (folder / "config.json").unlink()
    content = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(struct.pack("<I", 5) + content[4:])
    import_model(folder, tmp_path / "again")
    assert read_config(tmp_path / "again").begin_embedding == "zero"
    expected, found = arrays_of(both / "ours"), arrays_of(tmp_path / "again")
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


def edit_config(**changes):
    def edit(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def edit_pieces(edit):
    def change(folder):
        path = folder / "shared_vocabulary.json"
        pieces = json.loads(path.read_text(encoding="utf-8"))
        edit(pieces)
        path.write_text(json.dumps(pieces))

    return change


def edit_weights(edit):
    def change(folder):
        content = bytearray((folder / "model.bin").read_bytes())
        (folder / "model.bin").write_bytes(edit(content) or content)

    return change


def replace(old, new):
    return edit_weights(lambda content: content.replace(old, new, 1))


def set_value(name, code, value):
    """Changes a scalar."""

    def edit(content):
        at = content.index(name + b"\0") + len(name) + 1 + 1 + 1 + 4
        struct.pack_into(code, content, at, value)

    return edit_weights(edit)


REFUSED = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json"),
    "no vocabulary": (
        lambda folder: (folder / "shared_vocabulary.json").unlink(),
        "no vocabulary; expected one of shared_vocabulary.json, shared_vocabulary.txt",
    ),
    "begins with a language": (
        edit_config(decoder_start_token=None),
        "decoder starts with a language's code, such as mbart-large-cc25",
    ),
    "source begin": (edit_config(add_source_bos=True), "add_source_bos=true is not supported"),
    "no such token": (edit_config(unk_token="<what>"), "expected the token '<what>'"),
    "a wrong type": (edit_config(add_source_eos="yes"), "config.json: add_source_eos"),
    "a piece too few": (edit_pieces(list.pop), "rows, the vocabulary"),
    "a piece twice": (edit_pieces(lambda x: x.__setitem__(9, x[8])), "a piece occurs twice"),
    "pieces of numbers": (edit_pieces(lambda x: x.__setitem__(9, 9)), "a list of strings"),
    "cut off": (edit_weights(lambda content: content[: len(content) // 2]), "too early"),
    "longer": (edit_weights(lambda content: content + b"more"), "bytes, the file has"),
    "another model": (replace(b"TransformerSpec", b"WhisperSpecABCD"), "'WhisperSpecABCD' is not"),
    "another activation": (set_value(b"encoder/activation", "<b", 1), "activation=GELUTanh is not"),
    "sides differ": (set_value(b"encoder/pre_norm", "<b", 1), "differ in norm_position"),
    "renamed": (replace(b"encoder/layer_1/ffn", b"encoder/layer_1/fff"), "No weight"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_faults_in_one_line(fault, folder, tmp_path, capsys):
    prepare, message = REFUSED[fault]
    prepare(folder)
    with pytest.raises((InputError, FileNotFoundError), match=message):
        import_model(folder, tmp_path / "model", "ctranslate2")
    arguments = ["--input", str(folder), "--model-dir", str(tmp_path / "model")]
    assert main(["import", *arguments, "--format", "ctranslate2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(folder) in line
    assert not (tmp_path / "model").exists()


def test_damaged_files_never_need_much_memory(folder):
    """Three wrong bytes among the names and sizes at the begin: refused, or other values."""
    path = folder / "model.bin"
    content = path.read_bytes()
    random = np.random.default_rng(1)
    refused = 0
    tracemalloc.start()
    for _ in range(200):
        changed = bytearray(content)
        for position in random.integers(0, 200, 3):
            changed[position] = random.integers(256)
        path.write_bytes(changed)
        tracemalloc.reset_peak()
        try:
            with naming(path):
                read_ctranslate2(StoredFile(path))
        except InputError:
            refused += 1
        # The copy of the file that this test makes is included.
        assert tracemalloc.get_traced_memory()[1] < 8 * len(content)
    tracemalloc.stop()
    assert refused > 50


def test_other_versions_are_named(folder, tmp_path):
    path = folder / "model.bin"
    content = path.read_bytes()
    path.write_bytes(struct.pack("<I", 7) + content[4:])
    with pytest.raises(InputError, match=r"expected a model\.bin of version 4 to 6, got 7"):
        import_model(folder, tmp_path / "model", "ctranslate2")
