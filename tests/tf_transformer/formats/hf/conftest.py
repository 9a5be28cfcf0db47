"""A server on loopback in place of the Hugging Face Hub."""

import shutil

import pytest
from huggingface_hub import constants

from tests.tf_transformer.formats.hf.hub_server import serve
from tests.tf_transformer.formats.random_model import train_vocabularies, write_random_model
from tf_transformer.formats.convert_model import convert_model


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A folder of OPUS-MT with random weights, and files that are not needed."""
    folder = tmp_path_factory.mktemp("original")
    write_random_model(folder / "ours", train_vocabularies(True), positions="marian")
    convert_model(folder / "ours", "hf", folder / "theirs")
    for name in ("README.md", "pytorch_model.bin", "tf_model.h5", "rust_model.ot"):
        (folder / "theirs" / name).write_bytes(b"not needed")
    return folder / "theirs"


@pytest.fixture
def hub(published, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("TF_TRANSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serve() as (hub, address):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        folder = shutil.copytree(published, tmp_path / "theirs")
        hub.repositories["owner/opus-mt"] = folder
        yield hub
