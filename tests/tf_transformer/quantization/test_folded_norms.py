"""Folded norms: the same outputs from fewer operations, or the model as it was."""

import keras
import numpy as np
import pytest

from tests.stepping import step_by_step
from tf_transformer import LanguageModel, Transformer, TransformerConfig
from tf_transformer.layers.normalization import LayerNormalization
from tf_transformer.models.lora import enable_lora
from tf_transformer.private_interfaces import sublayers
from tf_transformer.quantization.folded_norms import fold_norms
from tf_transformer.quantization.int8 import quantize
from tf_transformer.storage.model_dir import prepare_for_decoding

SIZES = dict(
    source_vocab_size=23,
    target_vocab_size=23,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=16,
    d_ff=24,
    num_heads=2,
    max_length=16,
    norm_position="pre",
)
SOURCE = np.array([[5, 6, 7, 3], [9, 3, 0, 0]])
TARGET = np.array([[2, 11, 12, 4], [2, 13, 14, 5]])


def random_model(dtype="float32", **settings):
    """A model with gains, biases and means of its rows unlike those that training begins with."""
    keras.utils.set_random_seed(7)
    config = TransformerConfig(**(SIZES | settings))
    model = (LanguageModel if config.decoder_only else Transformer)(config, dtype=dtype)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        shift = 1.0 if "gamma" in weight.path else 0.2
        weight.assign(weight + rng.normal(shift, 0.3, weight.shape))
    return model


def outputs_of(model):
    """Logits of whole sentences, and step by step."""
    source = None if isinstance(model, LanguageModel) else SOURCE
    inputs = {"target": TARGET} if source is None else {"source": source, "target": TARGET}
    return np.asarray(model(inputs)), np.asarray(step_by_step(model, source, TARGET)[:, 0])


def num_folded(model):
    norms = [x for x in sublayers(model) if isinstance(x, LayerNormalization)]
    return sum(norm.is_folded for norm in norms)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_encoder_layers": 2, "num_decoder_layers": 2}, 10),
        ({"num_decoder_layers": 2, "encoder": {"d_model": 24, "num_heads": 4, "d_ff": 12}}, 8),
        ({"encoder": {"norm_position": "post", "final_norm": True}}, 3),
        ({"decoder": {"norm_type": "rms"}}, 2),
        ({"activation": "swiglu", "relative_positions": "keys_values"}, 5),
        ({"positions": "learned", "embedding_norm": True, "logits_bias": True}, 5),
        ({"relative_positions": "buckets", "relative_buckets": 4, "head_dim": 5}, 5),
        ({"d_ff": 600}, 5),
        ({"draft_heads": 2, "tied_embeddings": "none"}, 5),
        ({"decoder_only": True, "source_vocab_size": None}, 2),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_outputs_stay_the_same(settings, expected):
    model = random_model(**settings)
    before, num_weights = outputs_of(model), len(model.weights)
    fold_norms(model)
    assert num_folded(model) == expected
    assert len(model.weights) == num_weights - 2 * expected
    for found, logits in zip(outputs_of(model), before, strict=True):
        np.testing.assert_allclose(found, logits, rtol=1e-5, atol=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"norm_position": "post"},
        {"norm_type": "rms"},
        {"norm_type": "l1"},
        {"final_norm": False},
        {"layer_history": True},
        {"dense_bias": False},
        {"decoder_autoregression": "ssru", "decoder_only": True, "source_vocab_size": None},
        {"d_model": 514},
        {"dtype": "bfloat16"},
    ],
    ids=lambda settings: "-".join(f"{name}={value}" for name, value in settings.items()),
)
def test_other_models_stay_as_they_are(settings):
    model = random_model(**settings)
    before = outputs_of(model)
    fold_norms(model)
    assert num_folded(model) == 0
    for found, logits in zip(outputs_of(model), before, strict=True):
        np.testing.assert_array_equal(found, logits)


@pytest.mark.slow
def test_products_with_other_weights_stay_as_they_are():
    adapted = random_model()
    enable_lora(adapted, 2, ["encoder/layer_0/self_attention/query_key_value"], alpha=2.0)
    fold_norms(adapted)
    assert num_folded(adapted) == 3  # of the decoder
    quantized = random_model()
    quantize(quantized)
    fold_norms(quantized)
    assert num_folded(quantized) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("folded", "expected"), [(True, 5), (False, 0)])
def test_models_are_prepared_so(folded, expected):
    model = random_model()
    prepare_for_decoding(model, "float32", folded=folded)
    assert num_folded(model) == expected
