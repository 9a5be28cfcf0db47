"""`save_model`: a model of one's own as a model directory, or nothing at all."""

import keras
import numpy as np
import pytest

from tests.tf_transformer.storage.test_model_dir import (
    IDS,
    SIZES,
    SOURCE_MODEL,
    TARGET_MODEL,
    make_config,
    make_model,
)
from tf_transformer import (
    LanguageModel,
    Tokenizer,
    Transformer,
    TransformerConfig,
    Translator,
    load_model,
    save_model,
)
from tf_transformer.errors import InputError
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.models.lora import enable_lora, projections
from tf_transformer.quantization.tiled_matmul import arrange_weights

SOURCE, TARGET = Tokenizer(SOURCE_MODEL), Tokenizer(TARGET_MODEL)


@pytest.fixture(scope="module")
def model():
    return make_model(make_config())


@pytest.mark.slow
def test_a_saved_model_comes_back(model, tmp_path):
    """In an empty folder, too; and nothing else is written."""
    for name in ("new/folder", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        save_model(model, SOURCE, TARGET, str(tmp_path / name))
        loaded, source, target = load_model(tmp_path / name)
        assert loaded.config == model.config
        assert (source.model, target.model) == (SOURCE_MODEL, TARGET_MODEL)
        np.testing.assert_array_equal(loaded(IDS), model(IDS))
    assert {path.name for path in tmp_path.iterdir()} == {"new", "empty"}
    assert len(Translator.load(tmp_path / "new/folder")(["a red house"])) == 1


def test_a_saved_language_model_comes_back(tmp_path):
    sizes = {name: value for name, value in SIZES.items() if name != "num_encoder_layers"}
    config = TransformerConfig(decoder_only=True, target_vocab_size=TARGET.vocab_size, **sizes)
    model = LanguageModel(config)
    save_model(model, None, TARGET, tmp_path / "model")
    loaded, source, _ = load_model(tmp_path / "model")
    assert source is None
    np.testing.assert_array_equal(loaded(IDS), model(IDS))
    with pytest.raises(InputError, match="`source_tokenizer` must be None"):
        save_model(model, SOURCE, TARGET, tmp_path / "another")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bfloat16", "mixed_bfloat16", "lora", "keras file", "strategy"])
def test_models_of_every_kind_are_written_in_float32(kind, model, tmp_path):
    """With LoRA merged; in half precision as far as it holds the weights."""
    saved = model
    if kind.endswith("bfloat16"):
        saved = Transformer(model.config, dtype=kind)
        saved.set_weights(model.get_weights())
    elif kind == "lora":
        saved = make_model(model.config)
        enable_lora(saved, 2, list(projections(saved)))
        for layer in projections(saved).values():
            layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    elif kind == "keras file":
        model.save(tmp_path / "model.keras")
        saved = keras.models.load_model(tmp_path / "model.keras")
    elif kind == "strategy":
        tf = pytest.importorskip("tensorflow")
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            saved = make_model(model.config)
    save_model(saved, SOURCE, TARGET, tmp_path / "model")
    loaded, _, _ = load_model(tmp_path / "model")
    tolerance = 0.2 if kind.endswith("bfloat16") else 1e-5
    np.testing.assert_allclose(
        loaded(IDS), np.asarray(saved(IDS), "float32"), rtol=0, atol=tolerance
    )
    assert (np.abs(loaded(IDS) - model(IDS)).max() > 1) == (kind == "lora")


def diverged(config):
    model = make_model(config)
    model.target_embedding.embeddings.assign(
        np.full(model.target_embedding.embeddings.shape, np.nan)
    )
    return model


def tiled(config):
    wide = dict(d_model=512, d_ff=512, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    vocabularies = dict(
        source_vocab_size=config.source_vocab_size, target_vocab_size=config.target_vocab_size
    )
    model = Transformer(TransformerConfig(**wide, **vocabularies))
    arrange_weights(model, tiled=True)
    return model


TAGS = dict(language_tags="source_and_target")
REFUSED = {
    "no model": (lambda model: (keras.Sequential(), SOURCE, TARGET), "`model` must be a Tr"),
    "an ensemble": (
        lambda model: (Ensemble([model, model]), SOURCE, TARGET),
        "`model` must be a Transformer or a LanguageModel; .* Received: Ensemble",
    ),
    "exchanged": (
        lambda model: (model, TARGET, SOURCE),
        "`source_tokenizer` must have as many pieces as the .*source_vocab_size=13. Rec.*: 15",
    ),
    "another target": (
        lambda model: (model, SOURCE, SOURCE),
        "`target_tokenizer` must have as many pieces as the .*target_vocab_size=15. Rec.*: 13",
    ),
    "no source": (
        lambda model: (model, None, TARGET),
        "`source_tokenizer` must be a Tokenizer, `Tokenizer\\(PATH\\)`. Received: NoneType",
    ),
    "bytes": (
        lambda model: (model, SOURCE, TARGET_MODEL),
        "`target_tokenizer` must be a Tokenizer, .* Received: bytes",
    ),
    "no tags": (
        lambda model: (make_model(make_config(**TAGS)), SOURCE, TARGET),
        "^language_tags='source_and_target' needs one vocabulary for both sides",
    ),
    "not finite": (
        lambda model: (diverged(model.config), SOURCE, TARGET),
        "the model: 120 of the 120 numbers in target_embedding/embeddings are NaN",
    ),
    "tiled": (
        lambda model: (tiled(model.config), SOURCE, TARGET),
        "A model that was loaded to decode, .* cannot be saved",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(name, model, tmp_path):
    """In one line, and nothing is written."""
    arguments, message = REFUSED[name]
    with pytest.raises(InputError, match=message) as error:
        save_model(*arguments(model), tmp_path / "model")
    assert len(str(error.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["config.json", "notes.txt"])
def test_a_folder_with_files_is_refused(name, model, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="expected a new or empty folder"):
        save_model(model, SOURCE, TARGET, tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    with pytest.raises(OSError, match=name):
        save_model(model, SOURCE, TARGET, tmp_path / name / "model")
