"""A package of Argos Translate with the layers of the published ones, and random weights."""

import pytest

from tests.published_models.vocabularies import pieces, write_sentencepiece
from tests.tf_transformer.formats.random_model import write_random_model
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.presets import PRESETS
from tf_transformer.storage.model_dir import read_config
from tf_transformer.storage.weight_shapes import weight_shapes

pytest.importorskip("ctranslate2")

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_NUM_PIECES = 2_000  # instead of 50,000 in argos-train's config.yml, whose other sizes these are


@pytest.mark.exhaustive
@pytest.mark.slow
def test_import(tmp_path):
    """A base model of OpenNMT-py."""
    write_sentencepiece(tmp_path / "ours.spm", pieces(_SPECIAL, _NUM_PIECES), _SPECIAL)
    model = (tmp_path / "ours.spm").read_bytes()
    settings = dict(norm_position="pre", logits_bias=True, source_end=False, tied_embeddings="none")
    settings = PRESETS["base"] | settings | dict(positions="interleaved")
    write_random_model(tmp_path / "random", (model, model), spread=0.05, **settings)
    package = tmp_path / "translate-en_de"
    convert_model(tmp_path / "random", "ctranslate2", package / "model")
    (package / "model" / "target.spm").unlink()
    (package / "model" / "source.spm").rename(package / "sentencepiece.model")
    (package / "metadata.json").write_text('{"from_code": "en", "to_code": "de"}')
    import_model(package, tmp_path / "imported")
    imported, expected = (read_config(tmp_path / name) for name in ("imported", "random"))
    assert weight_shapes(imported) == weight_shapes(expected)
    assert imported.num_heads == 8 and imported.norm_position == "pre"
