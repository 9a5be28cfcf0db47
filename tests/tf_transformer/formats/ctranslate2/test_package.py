"""Packages of Argos Translate: zip archives with a model of CTranslate2."""

import pathlib
import zipfile

import pytest

from tests.tf_transformer.formats.random_model import (
    read_all,
    train_vocabularies,
    write_random_model,
)
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model

pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """An unpacked package, and the model directory that it was made from."""
    folder = tmp_path_factory.mktemp("argos")
    settings = dict(logits_bias=True, source_end=False, norm_position="pre")
    write_random_model(folder / "ours", train_vocabularies(True), **settings)
    convert_model(folder / "ours", "ctranslate2", folder / "en_de" / "model")
    (folder / "en_de" / "model" / "target.spm").unlink()
    source = folder / "en_de" / "model" / "source.spm"
    source.rename(folder / "en_de" / "sentencepiece.model")
    (folder / "en_de" / "metadata.json").write_text("{}")
    (folder / "en_de" / "stanza").mkdir()
    (folder / "en_de" / "stanza" / "resources.json").write_text("{}")
    return folder


def pack(folder: pathlib.Path, path: pathlib.Path, kind=zipfile.ZIP_DEFLATED, **more) -> None:
    with zipfile.ZipFile(path, "w", kind) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, f"en_de/{file.relative_to(folder)}")
        for name, content in more.items():
            archive.writestr(name.replace("__", "/"), content)


@pytest.mark.slow
def test_an_archive_and_its_folders_are_the_same(untranslated, package, tmp_path):
    pack(package / "en_de", tmp_path / "a.argosmodel")
    inputs = [tmp_path / "a.argosmodel", package / "en_de", package / "en_de" / "model"]
    found = []
    for index, path in enumerate(inputs):
        model_dir = tmp_path / str(index)
        assert main(["import", "--input", str(path), "--model-dir", str(model_dir)]) == 0
        found.append(read_all(model_dir))
    assert found[0] == found[1] == found[2]
    assert found[0]["model.weights.h5"] == (package / "ours" / "model.weights.h5").read_bytes()


@pytest.mark.slow
def test_nothing_else_is_unpacked(untranslated, package, tmp_path, monkeypatch):
    """Not what is outside of the folder, however it is named."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    evil = {"..__..__evil": b"x", "en_de__model__..__..__evil": b"x", "__evil": b"x"}
    pack(package / "en_de", tmp_path / "a.argosmodel", **evil)
    import_model(tmp_path / "a.argosmodel", tmp_path / "model")
    assert not list(tmp_path.parent.glob("**/evil"))
    assert not list(tmp_path.glob("argos-*"))


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def no_zip(path):
    path.write_bytes(b"not a zip archive")


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("en_de/model/model.bin", bytes(10**7))


def empty(path):
    with zipfile.ZipFile(path, "w"):
        pass


def without_settings(path):
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            if not name.endswith("model/config.json"):
                archive.writestr(name, content)


REFUSED = {
    "no settings": (without_settings, r"a\.argosmodel: .*config\.json: missing"),
    "cut off": (cut_off, "no directory is at the end"),
    "damaged": (damage, "damaged"),
    "no archive": (no_zip, "damaged"),
    "a bomb": (bomb, "unpacks to 10,000,000 bytes; expected at most"),
    "empty": (empty, "expected NAME/model/model.bin in the package"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_faults_in_one_line(fault, package, tmp_path, monkeypatch, capsys):
    prepare, message = REFUSED[fault]
    path = tmp_path / "a.argosmodel"
    pack(package / "en_de", path)
    prepare(path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises((InputError, FileNotFoundError), match=message):
        import_model(path, tmp_path / "model")
    assert main(["import", "--input", str(path), "--model-dir", str(tmp_path / "model")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "model").exists()
    assert not list(tmp_path.glob("argos-*"))
