"""Models of Firefox in their published sizes, with random weights."""

import numpy as np
import pytest

from tests.published_models.vocabularies import pieces, write_sentencepiece
from tests.tf_transformer.formats.marian.binary_files import as_binary, as_shortlist, model_items
from tests.tf_transformer.formats.marian.firefox_folder import FIRST, MODEL, SHORTLIST
from tests.tf_transformer.formats.marian.marian_files import HELD, read_npz
from tests.tf_transformer.formats.random_model import write_random_model
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.presets import PRESETS
from tf_transformer.storage.model_dir import read_config

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_NUM_ROWS = 32_000
# The settings of both architectures, and the bytes of their files, of several languages.
ARCHITECTURES = {
    "tiny": (dict(d_model=256, d_ff=1536, num_decoder_layers=2), (17_140_899, 17_141_051)),
    "base-memory": (dict(d_model=384, d_ff=1536, num_decoder_layers=4), (31_561_787,)),
}
# What the settings in a file, a text, may take more or less.
_TEXT = 1_000


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.large
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sizes(architecture, tmp_path):
    """The file is as large as the published ones, and the model translates."""
    settings, published = ARCHITECTURES[architecture]
    settings = HELD | PRESETS["student"] | dict(num_encoder_layers=6, num_heads=8) | settings
    names = pieces(_SPECIAL, _NUM_ROWS + 2)  # Marian has neither a pad nor a begin id
    write_sentencepiece(tmp_path / "ours.spm", names, _SPECIAL)
    model = (tmp_path / "ours.spm").read_bytes()
    write_random_model(tmp_path / "random", (model, model), **settings)
    convert_model(tmp_path / "random", "marian", tmp_path / "marian")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "marian" / "source.spm").rename(theirs / "vocab.ende.spm")
    items = model_items(read_npz(tmp_path / "marian" / "model.npz"), "browsermt", alphas=True)
    content = as_binary(items)
    assert all(abs(len(content) - size) < _TEXT for size in published), len(content)
    (theirs / MODEL).write_bytes(content)
    candidates = np.random.default_rng(1).integers(0, _NUM_ROWS, (_NUM_ROWS, 3)).tolist()
    rows = [sorted(set(row)) for row in candidates]
    (theirs / SHORTLIST).write_bytes(as_shortlist(rows, FIRST))
    import_model(theirs, tmp_path / "imported")
    assert read_config(tmp_path / "imported").d_model == settings["d_model"]
