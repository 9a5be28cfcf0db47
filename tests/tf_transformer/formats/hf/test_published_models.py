"""Models of the Hugging Face Hub by their published settings and sizes, with random weights.

The weights themselves were not downloaded.
"""

import json
import math
import pathlib
import re

import pytest

from tests.published_models.folders import write_full_size, write_small
from tests.published_models.models import MODELS, REFUSED
from tests.published_models.tensors import is_weight, tensor_shapes, vocab_sizes
from tf_transformer.errors import InputError
from tf_transformer.formats.import_model import import_model, read_model
from tf_transformer.formats.recognition import find_format
from tf_transformer.formats.tensors import stored_file
from tf_transformer.storage.model_dir import read_config
from tf_transformer.storage.regular_files import regular_size
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.text.tokenizer import Tokenizer

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "published-models.md"
MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name.partition("/")[2])
# The settings of attention, by the family of Transformers.
HEADS = {"t5": "num_heads", "mt5": "num_heads"}
NORM_POSITION = {"marian": "post", "bart": "post"}


def total(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


def stored_weights(config):
    shapes = tensor_shapes(config)
    return total({name: shape for name, shape in shapes.items() if is_weight(name)})


def check_number_of_weights(config, published):
    """All weights are kept, and what is added are rows of special ids and a bias of the logits.

    Of the positions of BART and mBART, two rows a table are not read, and the last position is that
    of the tag.
    """
    source_size, target_size = vocab_sizes(published)
    added = config.target_vocab_size - target_size
    assert config.source_vocab_size - source_size == added and added in (0, 1)
    matrices = 1 if config.tied_embeddings == "all" else 2
    own = total(weight_shapes(config)) - added * matrices * config.d_model
    if config.logits_bias:
        own -= config.target_vocab_size
    if published["model_type"] in ("bart", "mbart"):
        own += 2 * 2 * config.d_model
    assert own == stored_weights(published)


@MODEL
def test_conversion(model, tmp_path):
    """With one layer a stack, 64 dimensions and 560 rows: every weight, language and note."""
    theirs = tmp_path / "theirs"
    settings = write_small(theirs, model)
    assert find_format(theirs).name == model.format_name
    imported = read_model(theirs)
    config = imported.config
    check_number_of_weights(config, settings)
    family = settings["model_type"]
    assert config.num_heads == model.config[HEADS.get(family, "encoder_attention_heads")]
    assert config.norm_position == NORM_POSITION.get(family, "pre")
    assert len(Tokenizer(imported.source_model).languages) == model.num_tags
    names_target = any("the original translates into en" in note for note in imported.notes)
    assert names_target == ("forced_bos_token_id" in settings and family != "bart")
    converted = {name: array.shape for name, array in imported.weights}
    assert converted == weight_shapes(config)


@pytest.mark.slow
@pytest.mark.representatives(
    "opus-mt-tc-big-fr-en", "wmt21-dense-24-wide-x-en", "mbart-large-50-many-to-one-mmt",
    "mt5-small",
)  # fmt: skip
@MODEL
def test_import(model, tmp_path):
    """The same small models become model directories, after they have translated sentences."""
    settings = write_small(tmp_path / "theirs", model)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    assert read_config(tmp_path / "ours").source_vocab_size >= settings["vocab_size"]


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.representatives("opus-mt-en-de", "t5-small")
@MODEL
def test_size(model, tmp_path, monkeypatch):
    """As large as published: the reader's own weights are counted, and the vocabulary is whole."""
    counted = stored_weights(model.config)
    if model.counts_positions:
        counted += 2 * model.config["max_position_embeddings"] * model.config["d_model"]
    assert model.weights in (counted, None)
    monkeypatch.setattr(stored_file, "stored_bytes", regular_size)  # of a file that is a hole
    write_full_size(tmp_path / "theirs", model)
    imported = read_model(tmp_path / "theirs")
    check_number_of_weights(imported.config, model.config)


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: model.name.partition("/")[2])
def test_refused(model, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(model.config))
    with pytest.raises((InputError, FileNotFoundError), match=re.escape(model.message)):
        read_model(tmp_path)


def test_page():
    """The table of the documentation has these models, in this order, and the refused ones."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `hf:")]
    assert rows == [model.row for model in MODELS]
    for model in REFUSED:
        assert f"`{model.name}`" in text
