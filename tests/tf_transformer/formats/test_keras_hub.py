"""Presets of KerasHub: there and back, and damaged ones."""

import itertools
import json
import shutil

import numpy as np
import pytest

from tests.tf_transformer.formats.random_model import train_vocabularies, write_random_model
from tf_transformer import load_model
from tf_transformer.__main__ import main
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.keras_hub.reader import KerasHub
from tf_transformer.formats.recognition import find_format

CASES = {
    "joint": (True, dict(norm_position="pre", begin_embedding="end")),
    "separate": (False, dict(decoder_autoregression="ssru", tied_embeddings="none")),
}


@pytest.fixture(scope="module", params=CASES)
def folders(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    joint, settings = CASES[request.param]
    write_random_model(folder / "ours", train_vocabularies(joint), **settings)
    convert_model(folder / "ours", "keras-hub", folder / "preset")
    return folder


@pytest.mark.slow
def test_round_trip(untranslated, folders, tmp_path):
    assert isinstance(find_format(folders / "preset"), KerasHub)
    import_model(folders / "preset", tmp_path / "again")
    first, again = (load_model(path)[0] for path in (folders / "ours", tmp_path / "again"))
    assert first.config == again.config
    for ours, theirs in itertools.zip_longest(first.weights, again.weights):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("source.spm", "target.spm"):
        assert (folders / "ours" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def edit_config(change):
    def edit(folder):
        description = json.loads((folder / "config.json").read_text())
        change(description)
        (folder / "config.json").write_text(json.dumps(description))

    return edit


FAULTS = {
    "no weights": (lambda folder: (folder / "model.weights.h5").unlink(), "model.weights.h5"),
    "no vocabulary": (
        lambda folder: shutil.rmtree(folder / "assets" / "tokenizer"), "vocabulary.spm"
    ),
    "another vocabulary": (
        lambda folder: (folder / "assets" / "tokenizer" / "vocabulary.spm").write_bytes(
            train_vocabularies(True, "char")[0]
        ),
        "the vocabulary of the source must have source_vocab_size=",
    ),
    "no settings": (edit_config(lambda x: x.update(config=[])), "settings of the backbone"),
    "an unknown setting": (
        edit_config(lambda x: x["config"].update(d_modle=3)), "unknown setting of the model"
    ),
    "another width": (edit_config(lambda x: x["config"].update(d_ff=49)), "model.weights.h5"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(folders, tmp_path, fault, capsys):
    folder = shutil.copytree(folders / "preset", tmp_path / "preset")
    change, message = FAULTS[fault]
    change(folder)
    command = ["import", "--input", str(folder), "--model-dir", str(tmp_path / "new")]
    assert main(command) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and error.count("\n") == 0
    assert not (tmp_path / "new").exists()
