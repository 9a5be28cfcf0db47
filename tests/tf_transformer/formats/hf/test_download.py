"""Models by their names on the Hugging Face Hub, from a server on loopback."""

import contextlib
import json
import re
import sys

import numpy as np
import pytest
from huggingface_hub import constants

from tests.tf_transformer.formats.hf.hub_server import COMMIT
from tf_transformer import Translator
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.download import HubModel, download, parse
from tf_transformer.formats.import_model import import_model

NAME = "hf:owner/opus-mt"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf:a/b", HubModel("a/b")),
        ("hf:Helsinki-NLP/opus-mt-en-de", HubModel("Helsinki-NLP/opus-mt-en-de")),
        ("hf:a/b.c_d@refs/pr/1", HubModel("a/b.c_d", "refs/pr/1")),
        ("hf:a/b@v1.0", HubModel("a/b", "v1.0")),
    ],
)
def test_names(name, expected):
    assert parse(name) == expected
    assert str(expected) == name


@pytest.mark.parametrize(
    "name",
    ["hf:", "hf:a", "hf:a/b/c", "hf:a/../b", "hf:/a/b", "hf:a/b@", "hf:a/b@../x", "hf:a/b?x"],
)
def test_what_is_no_name(name, hub):
    with pytest.raises(InputError, match="expected hf:OWNER/NAME or hf:OWNER/NAME@REVISION"):
        import_model(name, "model")
    assert hub.sent == []


def test_a_name_without_the_prefix(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = (
        "a/b: no such file or folder; the model of this name on the Hugging Face Hub is hf:a/b"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        import_model("a/b", "model")
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(InputError, match=r"a/b: not recognized"):
        import_model("a/b", "model")
    with pytest.raises(FileNotFoundError):
        import_model("b/c/d", "model")
    assert hub.sent == []


def test_only_what_is_needed_is_downloaded_once(hub):
    folder = download(parse(NAME))
    names = {file.name for file in folder.iterdir()}
    assert {"config.json", "source.spm", "vocab.json", "model.safetensors"} <= names
    assert not names & {"README.md", "pytorch_model.bin", "tf_model.h5", "rust_model.ot"}
    assert folder.name == COMMIT
    sent = [name for name, _ in hub.sent]  # one of several equal files
    assert set(sent) <= names
    assert len(sent) == len(set(sent))
    assert download(parse(f"{NAME}@v1")) == folder
    assert len(hub.sent) == len(sent)


@pytest.mark.slow
def test_import_by_name(hub, published, tmp_path, capsys, monkeypatch):
    assert main(["import", "--input", f"{NAME}@main", "--model-dir", str(tmp_path / "model")]) == 0
    assert "imported, and two sentences translated" in capsys.readouterr().out
    monkeypatch.setattr("tf_transformer.formats.import_model._check_translations", lambda *_: None)
    import_model(published, tmp_path / "local")
    for file in (tmp_path / "local").iterdir():
        assert (tmp_path / "model" / file.name).read_bytes() == file.read_bytes(), file.name
    expected = Translator.load(tmp_path / "local", beam_size=1)
    check_same(Translator.load(NAME, beam_size=1), expected)


def check_same(one, other):
    """They are the same model; what it translates follows."""
    assert one.model.config == other.model.config
    for ours, theirs in zip(one.model.weights, other.model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(one.tokenizers, other.tokenizers, strict=True):
        assert ours.model == theirs.model


@pytest.mark.slow
def test_a_translator_is_imported_once(untranslated, hub, tmp_path, monkeypatch):
    translator = Translator.load(NAME, beam_size=1)
    (model_dir,) = (tmp_path / "cache").glob(f"*/owner--opus-mt--{COMMIT}")
    written = {file: file.stat().st_mtime_ns for file in model_dir.iterdir()}
    check_same(Translator.load(NAME, beam_size=1), translator)
    assert {file: file.stat().st_mtime_ns for file in model_dir.iterdir()} == written
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check_same(Translator.load(NAME, beam_size=1), translator)


@pytest.mark.slow
def test_an_interrupted_download_goes_on(hub, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    size = (hub.repositories["owner/opus-mt"] / "model.safetensors").stat().st_size
    hub.cut = ("model.safetensors", size // 2)
    with contextlib.suppress(InputError):  # newer versions of huggingface_hub go on by themselves
        download(parse(NAME))
    download(parse(NAME))
    first, second = [start for name, start in hub.sent if name == "model.safetensors"]
    assert first == 0
    assert size // 4 < second <= size // 2
    found = download(parse(NAME)) / "model.safetensors"
    original = hub.repositories["owner/opus-mt"] / "model.safetensors"
    assert found.read_bytes() == original.read_bytes()


def test_files_of_an_index_are_downloaded(hub):
    folder = hub.repositories["owner/opus-mt"]
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    names = {file.name for file in download(parse(NAME)).iterdir()}
    assert {"model-00001-of-00001.safetensors", "model.safetensors.index.json"} <= names
    assert "pytorch_model.bin" not in names


def test_offline_without_a_file_of_an_index(hub, monkeypatch):
    folder = hub.repositories["owner/opus-mt"]
    shards = ["model-1.safetensors", "model-2.safetensors"]
    (folder / "model.safetensors").rename(folder / shards[0])
    index = {"weight_map": dict(zip("ab", shards, strict=True))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="there is no file model-2"):
        download(parse(NAME))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="not complete in the cache, and HF_HUB_OFFLINE is set"):
        download(parse(NAME))


@pytest.mark.parametrize("file", ["../../evil", "/etc/passwd", "a/b", ".hidden", ""])
def test_an_index_names_files_beside_it_only(file, hub):
    folder = hub.repositories["owner/opus-mt"]
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(InputError, match="expected names of files"):
        download(parse(NAME))


def no_config(hub):
    (hub.repositories["owner/opus-mt"] / "config.json").unlink()


def no_weights(hub):
    for name in ("model.safetensors", "pytorch_model.bin"):
        (hub.repositories["owner/opus-mt"] / name).unlink()


def listed_but_missing(hub):
    no_weights(hub)
    hub.listed.append("model.safetensors")


def gate(hub):
    hub.gated.add("owner/opus-mt")


REFUSED = {
    "missing": (lambda hub: None, "hf:owner/none", "there is no such repository at http"),
    "revision": (lambda hub: None, f"{NAME}@v2", "there is no such revision"),
    "gated": (gate, NAME, "gated; accept its conditions at http://127.*/owner/opus-mt, and give"),
    "no config": (no_config, NAME, "there is no file config.json"),
    "no weights": (no_weights, NAME, "expected one of model.safetensors"),
    "vanished": (listed_but_missing, NAME, "there is no file model.safetensors"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_faults_in_one_line(fault, hub, tmp_path, capsys):
    prepare, name, message = REFUSED[fault]
    prepare(hub)
    assert main(["import", "--input", name, "--model-dir", str(tmp_path / "model")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    with pytest.raises(InputError, match=message) as error:
        import_model(name, tmp_path / "model")
    assert len(str(error.value).splitlines()) == 1
    assert not (tmp_path / "model").exists()


def test_a_token_opens_a_gated_model(hub, monkeypatch):
    gate(hub)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert (download(parse(NAME)) / "model.safetensors").exists()


def test_offline(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="not complete in the cache, and HF_HUB_OFFLINE is set"):
        download(parse(NAME))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    folder = download(parse(NAME))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download(parse(NAME)) == folder
    assert download(parse(f"{NAME}@{COMMIT}")) == folder


def test_no_server(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        InputError, match=r"http://127.0.0.1:9 cannot be reached: .*OFFLINE"
    ) as error:
        download(parse(NAME))
    assert len(str(error.value).splitlines()) == 1


def test_a_damaged_download_is_refused(hub, tmp_path):
    (hub.repositories["owner/opus-mt"] / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        import_model(NAME, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_is_missing_is_named(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        InputError, match=r"needs huggingface_hub: pip install 'tf-transformer\[hf\]'"
    ):
        download(parse(NAME))
