"""Marian's binary models, in every type of weights, and folders of Firefox's models."""

import gzip
import re
import shlex
import shutil

import numpy as np
import pytest
import yaml

from tests.tf_transformer.formats.marian.binary_files import (
    as_binary,
    expanded,
    is_quantized,
    model_items,
    plain,
    quantized,
)
from tests.tf_transformer.formats.marian.firefox_folder import (
    MODEL,
    SHORTLIST,
    student,
    write_firefox,
)
from tests.tf_transformer.formats.marian.marian_files import SETTINGS, write_npz
from tests.tf_transformer.formats.random_model import SOURCES, read_all
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.marian.description import read_descriptions
from tf_transformer.formats.marian.reader import Marian
from tf_transformer.formats.recognition import find_format
from tf_transformer.storage.model_dir import read_config


def weights_of(folder, arrays):
    """The weights that are imported from these arrays in an .npz archive beside vocabularies."""
    path = folder / "model.npz"
    write_npz(path, arrays)
    return dict(Marian().read(path).weights)


def check_equal(found, expected):
    assert found.keys() == expected.keys() and len(expected) > 30
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats(dtype, tmp_path):
    """As marian-conv writes without another type."""
    write_firefox(tmp_path / "theirs", origin=None, dtype=dtype)
    found = dict(Marian().read(tmp_path / "theirs").weights)
    arrays = {
        name: array if name == SETTINGS else array.astype(dtype)
        for name, array in student(True)[0].items()
    }
    check_equal(found, weights_of(tmp_path / "theirs", arrays))


@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(
    ("origin", "bits", "alphas"),
    [("browsermt", 8, True), ("browsermt", 16, False), ("marian-nmt", 8, False)],
)
def test_integers(origin, bits, alphas, joint, tmp_path):
    """Exactly what the integers and scales stand for, which is the original up to rounding."""
    write_firefox(tmp_path / "theirs", joint, origin=origin, bits=bits, alphas=alphas)
    found = dict(Marian().read(tmp_path / "theirs").weights)
    arrays = student(joint)[0]
    are_quantized = [name for name in arrays if is_quantized(name, origin)]
    assert len(are_quantized) > 20
    rounded = {name: expanded(arrays[name], bits) for name in are_quantized}
    check_equal(found, weights_of(tmp_path / "theirs", arrays | rounded))
    for name, array in rounded.items():
        step = np.abs(arrays[name]).max() / 127 if bits == 8 else 1 / 1024
        assert 0 < np.abs(array - arrays[name]).max() <= 0.501 * step


def test_without_padding(tmp_path):
    """As of versions that do not align the values."""
    arrays = student(True)[0]
    write_firefox(tmp_path / "theirs")
    items = [
        quantized(name, array, padded=False)
        if is_quantized(name, "browsermt")
        else plain(name, array, padded=False)
        for name, array in arrays.items()
    ]
    found = [dict(Marian().read(tmp_path / "theirs").weights)]
    (tmp_path / "theirs" / MODEL).write_bytes(as_binary(items))
    found.append(dict(Marian().read(tmp_path / "theirs").weights))
    check_equal(*found)


def test_files_of_other_languages(tmp_path):
    """Beside the model, as in some folders of Firefox's repository; the names tell."""
    write_firefox(tmp_path / "theirs")
    expected = Marian().read(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.deen.spm").write_bytes(b"another")
    content = (tmp_path / "theirs" / SHORTLIST).read_bytes()
    (tmp_path / "theirs" / "lex.50.50.deen.s2t.bin").write_bytes(content[:-1])
    found = Marian().read(tmp_path / "theirs")
    assert found.source_model == found.target_model == expected.source_model
    assert list(found.shortlist) == list(expected.shortlist)


def test_a_joint_vocabulary_beside_separate_ones(tmp_path):
    """Either could be the model's."""
    write_firefox(tmp_path / "theirs")
    joint = tmp_path / "theirs" / "vocab.ende.spm"
    for name in ("srcvocab.ende.spm", "trgvocab.ende.spm"):
        (tmp_path / "theirs" / name).write_bytes(joint.read_bytes())
    with pytest.raises(InputError, match=r"found srcvocab\.ende\.spm, trgvocab\.ende"):
        Marian().read(tmp_path / "theirs")
    joint.unlink()
    assert Marian().read(tmp_path / "theirs").source_model


def test_a_matrix_of_zeros(tmp_path):
    """Its scale is 127 / 0."""
    name = "encoder_l1_self_Wq"
    item = quantized(name, np.ones((32, 32), "float32"))
    item = item._replace(content=bytes(1024) + np.float32(np.inf).tobytes())
    write_firefox(tmp_path / "theirs")
    items = [x for x in model_items(student(True)[0], "browsermt") if x.name != name]
    (tmp_path / "theirs" / MODEL).write_bytes(as_binary([*items, item]))
    weights = dict(Marian().read(tmp_path / "theirs").weights)
    kernel = weights["encoder/layer_0/self_attention/query_key_value/kernel"]
    assert not kernel[:, :32].any() and kernel[:, 32:].any()


def test_the_format_is_recognized(tmp_path):
    write_firefox(tmp_path / "theirs")
    for path in (tmp_path / "theirs", tmp_path / "theirs" / MODEL):
        assert find_format(path).name == "marian"
    # Neither a shortlist nor another file with such a name is a model.
    assert not Marian().recognizes(tmp_path / "theirs" / SHORTLIST)
    (tmp_path / "model.bin").write_bytes(b"\x01")
    assert not Marian().recognizes(tmp_path) and not Marian().recognizes(tmp_path / "model.bin")


def test_a_config_without_models_is_refused(tmp_path):
    theirs = tmp_path / "theirs"
    write_firefox(theirs)
    path = theirs / "config.yml"
    path.write_text("beam-size: 1\ngemm-precision: int8shiftAlphaAll\n")
    with pytest.raises(InputError, match=r"config\.yml: .* Received: vocabs="):
        read_descriptions(theirs)
    path.write_text("params: {beam_width: 4}\n")  # of another program
    assert read_descriptions(theirs) == []


@pytest.mark.representatives("True")
@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False])
def test_firefox_to_translations(joint, tmp_path, capsys):
    """The command that `import` prints translates, with the shortlist and the greedy search."""
    theirs = tmp_path / "theirs"
    write_firefox(theirs, joint)
    vocabularies = ["vocab.ende.spm"] * 2 if joint else ["srcvocab.ende.spm", "trgvocab.ende.spm"]
    config = {
        "bergamot-mode": "native", "models": [MODEL], "vocabs": vocabularies,
        "shortlist": [SHORTLIST, False], "beam-size": 1, "normalize": 1.0, "word-penalty": 0,
        "max-length-factor": 2.0, "skip-cost": True, "gemm-precision": "int8shiftAlphaAll",
    }  # fmt: skip
    (theirs / "config.intgemm8bitalpha.yml").write_text(yaml.safe_dump(config))
    assert main(["import", "--input", str(theirs), "--model-dir", str(tmp_path / "ours")]) == 0
    *notes, command = capsys.readouterr().out.splitlines()
    assert any("is shortlist.tsv here, for --shortlist" in note for note in notes)
    assert any("config.intgemm8bitalpha.yml has max-length-factor=2.0" in note for note in notes)
    config = read_config(tmp_path / "ours")
    assert config.decoder_autoregression == "ssru"
    assert config.tied_embeddings == ("all" if joint else "target")
    words = shlex.split(command)[1:]
    assert words[3:] == ["--shortlist", str(tmp_path / "ours/shortlist.tsv"), "--beam-size", "1"]
    (tmp_path / "text").write_text("\n".join(SOURCES[:20]) + "\n")
    output = tmp_path / "translations"
    assert main([*words, "--input", str(tmp_path / "text"), "--output", str(output)]) == 0
    assert len(set(output.read_text().splitlines())) > 10


@pytest.mark.slow
def test_compressed_files(untranslated, tmp_path):
    """As in Firefox's repository: all, or some of them; and the model by its own path."""
    write_firefox(tmp_path / "plain")
    import_model(tmp_path / "plain", tmp_path / "expected")
    for case, names in {
        "all": ["vocab.ende.spm", MODEL, SHORTLIST],
        "model": [MODEL],
    }.items():
        packed = shutil.copytree(tmp_path / "plain", tmp_path / case)
        for name in names:
            content = (packed / name).read_bytes()
            (packed / f"{name}.gz").write_bytes(gzip.compress(content))
            (packed / name).unlink()
        path = packed if case == "all" else packed / f"{MODEL}.gz"
        import_model(path, tmp_path / f"from-{case}")
        assert read_all(tmp_path / f"from-{case}") == read_all(tmp_path / "expected")


SEARCHES = {
    "greedy": ({"beam-size": 1, "normalize": 0.5, "word-penalty": 2}, ["--beam-size", "1"], None),
    "as here": ({"beam-size": 4, "normalize": 0.6, "allow-unk": False}, [], None),
    "a beam": (
        {"beam-size": 6, "normalize": 1.0, "word-penalty": 0},
        ["--beam-size", "6"],
        r"decoder\.yml has normalize=1\.0, to which no option",
    ),
    "without a penalty": ({"normalize": 0}, ["--length-penalty", "0"], None),
    "unknown words": ({"allow-unk": True}, [], "has allow-unk=True"),
    "another shortlist": (
        {"shortlist": ["lex.s2t.gz", 50, 50]},
        [],
        r"The shortlist lex\.s2t\.gz is not beside the model",
    ),
    "a text": ({"shortlist": ["lex.txt", 50, 50]}, [], r"lex\.txt is not a binary one"),
}


@pytest.mark.parametrize("case", SEARCHES)
def test_settings_of_the_decoder(case, tmp_path):
    settings, options, note = SEARCHES[case]
    write_firefox(tmp_path / "theirs")
    (tmp_path / "theirs" / SHORTLIST).unlink()
    (tmp_path / "theirs" / "lex.txt").write_text("a a 1.0\n")
    settings = {"models": [MODEL], "vocabs": ["vocab.ende.spm"] * 2} | settings
    (tmp_path / "theirs" / "decoder.yml").write_text(yaml.safe_dump(settings))
    imported = Marian().read(tmp_path / "theirs")
    assert list(imported.options) == options and imported.shortlist is None
    assert len(imported.notes) == (note is not None)
    if note is not None:
        assert re.search(note, imported.notes[0])
