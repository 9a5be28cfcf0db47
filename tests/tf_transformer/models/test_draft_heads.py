"""Draft heads against their equations in NumPy."""

import keras
import numpy as np
import pytest

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.models.draft_heads import DraftHeads
from tf_transformer.storage.weight_shapes import weight_shapes

ROWS, LENGTH, SOURCE, WIDTH, DRAFTS, HEADS = 2, 3, 5, 8, 3, 2


def softmax(scores):
    exponents = np.exp(scores - scores.max())
    return exponents / exponents.sum()


def reference(weights, hidden, vector, keys, values, mask):
    """u of one position, one head after the other."""
    z = np.concatenate([hidden, vector]) @ weights["joined/kernel"] + weights["joined/bias"]
    z = np.maximum(z, 0)
    queries = (z @ weights["query/kernel"] + weights["query/bias"]).reshape(DRAFTS, HEADS, -1)
    outputs = []
    for draft in range(DRAFTS):
        attended = []
        for head in range(HEADS):
            scores = keys[head] @ queries[draft, head] / np.sqrt(WIDTH // HEADS)
            attended.append(softmax(np.where(mask, scores, -np.inf)) @ values[head])
        inner = z + np.concatenate(attended) @ weights["attended/kernel"]
        inner = np.maximum(inner + weights["draft_bias"][draft], 0)
        outputs.append(hidden + inner @ weights["outer/kernel"] + weights["outer/bias"])
    return outputs


@pytest.mark.parametrize("few_queries", [False, True])
def test_equations(few_queries):
    rng = np.random.default_rng(1)
    hidden, vectors = rng.normal(size=(2, ROWS, LENGTH, WIDTH)).astype("float32")
    keys, values = rng.normal(size=(2, ROWS, HEADS, SOURCE, WIDTH // HEADS)).astype("float32")
    mask = np.arange(SOURCE) < np.array([[5], [3]])
    layer = DraftHeads(num_drafts=DRAFTS, num_heads=HEADS)
    layer.build(hidden.shape)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    weights = {weight.path.partition("/")[2]: np.asarray(weight) for weight in layer.weights}
    found = layer(
        hidden,
        vectors,
        {"key": keys, "value": values},
        mask[:, None, None],
        few_queries=few_queries,
    )
    assert found.shape == layer.compute_output_shape(hidden.shape)
    for row in range(ROWS):
        for position in range(LENGTH):
            expected = reference(
                weights,
                hidden[row, position],
                vectors[row, position],
                keys[row],
                values[row],
                mask[row],
            )
            np.testing.assert_allclose(found[row, position], expected, rtol=1e-4, atol=1e-4)


def small_config(**settings):
    sizes = dict(num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=16, num_heads=2)
    return TransformerConfig(source_vocab_size=9, target_vocab_size=9, **sizes, **settings)


def test_a_new_head_predicts_what_the_model_does():
    model = Transformer(small_config(draft_heads=2))
    ids = np.array([[4, 5, 6], [7, 8, 0]], "int32")
    memory, hidden = model.hidden_states({"source": ids, "target": ids})
    projected = model.decoder.project_memory(memory)
    drafted = model.draft(hidden, ids, projected, (ids != 0)[:, None, None])
    for head in range(2):
        np.testing.assert_allclose(drafted[:, :, head], hidden, rtol=1e-6)


@pytest.mark.slow
def test_weights_and_file(tmp_path):
    """Names and shapes are those that files are checked by; a Keras file keeps the heads."""
    config = small_config(draft_heads=2)
    model = Transformer(config)
    found = {weight.path.partition("/")[2]: tuple(weight.shape) for weight in model.weights}
    assert found == weight_shapes(config)
    without = weight_shapes(small_config())
    assert {name for name in found if not name.startswith("draft_heads/")} == without.keys()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for weight, expected in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(draft_heads=17), "draft_heads"),
        (dict(draft_heads=2, relative_positions="keys_values"), "work with .*'keys_values'"),
    ],
)
def test_refused(settings, message):
    with pytest.raises(InputError, match=message):
        small_config(**settings)


def test_a_language_model_has_none():
    with pytest.raises(InputError, match="draft_heads=2"):
        TransformerConfig(target_vocab_size=9, decoder_only=True, draft_heads=2)
