"""Every variant of the configuration: the same properties for all of them."""

import dataclasses
import itertools
import json
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.stepping import step_by_step
from tests.tf_transformer.models.variant_reference import VariantReference
from tests.tf_transformer.test_config import choices
from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.naming import sources_of
from tf_transformer.formats.originals import ANNOTATED
from tf_transformer.layers import attention
from tf_transformer.models.head_pruning import HeadMasks, masked_heads, prune_heads
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.models.transformer import Transformer
from tf_transformer.presets import PRESETS
from tf_transformer.storage.weight_shapes import weight_shapes

VOCAB = 11
SIZES = dict(
    target_vocab_size=VOCAB,
    num_encoder_layers=2,
    num_decoder_layers=2,
    d_model=8,
    d_ff=12,
    num_heads=2,
    dropout_rate=0.1,
    max_length=16,
    max_relative_distance=3,
    relative_buckets=4,
)
SOURCE = np.array([[4, 5, 6, 7, 3], [8, 3, 0, 0, 0]], "int32")
TARGET = np.array([[2, 9, 8, 7, 6, 5], [2, 4, 4, 0, 0, 0]], "int32")
BOOLEANS = (False, True)
SPACE: dict[str, tuple] = choices() | {
    "final_norm": BOOLEANS,
    "layer_history": BOOLEANS,
    "depth_scaled_initialization": BOOLEANS,
    "logits_bias": BOOLEANS,
    "trainable_embeddings": BOOLEANS,
    "decoder_only": BOOLEANS,
    "source_end": BOOLEANS,
    "dense_bias": BOOLEANS,
    "scaled_embeddings": BOOLEANS,
    "embedding_norm": BOOLEANS,
    "head_dim": (None, 3),
    "first_position": (0, 2),
    "encoder": ({}, dict(norm_position="pre", final_norm=False, num_heads=4, d_ff=20)),
    "decoder": (
        {},
        dict(norm_position="post", norm_type="l1", layer_history=True, num_heads=1, d_ff=6),
    ),
}
# Widths of their own exclude sharing across the sides.
WIDE_SIDES = [
    dict(encoder=dict(d_model=12), tied_embeddings="target"),
    dict(decoder=dict(d_model=4, cross_num_heads=4), tied_embeddings="none"),
]


def make_sensible(settings):
    """The combination itself, or the nearest one that is not refused."""
    settings = dict(settings)
    if settings["positions"] == "none" and settings["relative_positions"] == "none":
        settings["relative_positions"] = "keys"
    if settings["decoder_only"] and settings["decoder_autoregression"] == "ssru":
        settings["relative_positions"] = "none"
    if settings["positions"] in ("learned", "none"):
        settings["first_position"] = 0
    if settings["decoder_only"] or settings["relative_positions"] != "none":
        settings["language_tags"] = "source"
    if settings["decoder_autoregression"] == "ssru":
        settings["language_tags"] = settings["language_tags"].replace("end_and_begin", "source")
    if settings["decoder_only"]:
        settings["encoder"] = {}
        settings["tied_embeddings"] = {"inputs": "none", "all": "target"}.get(
            settings["tied_embeddings"], settings["tied_embeddings"]
        )
    return settings


def pairwise(space, seed=0):
    """Combinations in which every two values of every two settings meet: greedy covering."""
    rng = np.random.default_rng(seed)
    names = list(space)
    missing = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(range(len(names)), 2)
        for x in range(len(space[names[a]]))
        for y in range(len(space[names[b]]))
    }
    while missing:
        candidates = [[int(rng.integers(len(space[name]))) for name in names] for _ in range(60)]
        first = next(iter(sorted(missing)))
        for candidate in candidates:
            for place, value in first:
                candidate[place] = value
        covered = [
            {((a, c[a]), (b, c[b])) for a, b in itertools.combinations(range(len(names)), 2)}
            & missing
            for c in candidates
        ]
        best = max(range(len(candidates)), key=lambda number: len(covered[number]))
        missing -= covered[best]
        yield {name: space[name][candidates[best][place]] for place, name in enumerate(names)}


COMBINATIONS = [make_sensible(settings) for settings in pairwise(SPACE)]
COMBINATIONS += [dict(settings) for settings in WIDE_SIDES]
# Tags that few of the others have: mBART, with sinusoids, and IndicTrans2.
COMBINATIONS += [
    dict(language_tags="end_and_begin", tied_embeddings="all") | settings
    for settings in (
        dict(positions="learned", norm_position="pre", embedding_norm=True, begin_embedding="end"),
        dict(positions="marian", source_end=False),
        dict(language_tags="both_in_source", norm_position="pre"),
    )
]
# The presets for fast decoding, with small widths.
COMBINATIONS += [
    PRESETS[name] | dict(d_model=8, d_ff=12, num_heads=2, tied_embeddings="all")
    for name in ("shallow", "student")
]


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


def make_model(settings, rng, dtype="float32"):
    config = TransformerConfig(
        source_vocab_size=None if settings.get("decoder_only") else VOCAB, **(SIZES | settings)
    )
    model = (LanguageModel if config.decoder_only else Transformer)(config, dtype=dtype)
    for weight in model.weights:
        if "float" in weight.dtype:
            if weight.name == "gamma":
                weight.assign(rng.uniform(0.5, 1.5, size=weight.shape))
            else:
                weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return model


def inputs_of(model, source=SOURCE, target=TARGET):
    if isinstance(model, LanguageModel):
        return {"target": target}
    return {"source": source, "target": target}


def reference(settings, model):
    weights = {weight.path.partition("/")[2]: weight for weight in model.weights}
    return VariantReference(SIZES | settings, weights)


def name_of(settings):
    return ",".join(f"{value}" for value in settings.values())


@pytest.mark.representatives(every=15)
@pytest.mark.slow
@pytest.mark.parametrize("settings", COMBINATIONS, ids=name_of)
def test_variant(settings, rng, tmp_path):
    model = make_model(settings, rng)
    logits = np.asarray(model(inputs_of(model)))
    assert logits.shape == (*TARGET.shape, VOCAB)
    assert np.isfinite(logits).all()

    # 0. the equations that the settings name
    real = TARGET != 0
    expected = reference(settings, model).logits(
        TARGET, None if isinstance(model, LanguageModel) else SOURCE
    )
    # The logits of one combination change by 2.5e-5 if its weights change by half an ulp.
    np.testing.assert_allclose(logits[real], expected[real], atol=4e-5, rtol=1e-5)

    # 1. step by step is parallel, for every hypothesis of a beam
    stepped = step_by_step(model, SOURCE, TARGET, beam=2)
    for hypothesis in range(2):
        np.testing.assert_allclose(stepped[:, hypothesis][real], logits[real], atol=2e-5)

    # 2. no position sees a later one
    changed = TARGET.copy()
    changed[:, 3:] = 10
    early = np.asarray(model(inputs_of(model, target=changed)))[:, :3]
    np.testing.assert_allclose(early[0], logits[0, :3], atol=1e-5)

    # 3. padding does not matter
    wider = np.pad(TARGET, [(0, 0), (0, 2)])
    padded = np.asarray(model(inputs_of(model, np.pad(SOURCE, [(0, 0), (0, 3)]), wider)))
    # Sums of other lengths are rounded otherwise, in proportion to the logits.
    rounding = 2e-6 * np.abs(logits[real]).max()
    np.testing.assert_allclose(padded[:, :6][real], logits[real], atol=rounding)

    # 4. the configuration survives JSON, and the weights a `.keras` file
    restored = TransformerConfig(**json.loads(json.dumps(dataclasses.asdict(model.config))))
    assert restored == model.config
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(inputs_of(model)), logits)

    # 5. every trainable weight that the output depends on gets a finite gradient
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(model(inputs_of(model), training=True) ** 2)
    gradients = tape.gradient(value, model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    assert all(np.isfinite(tf.convert_to_tensor(gradient)).all() for gradient in gradients)

    # 6. bfloat16 computes nearly the same, with weights in float32 for training and without
    for dtype in ("mixed_bfloat16", "bfloat16"):
        half = type(model)(model.config, dtype=dtype)
        half.set_weights(model.get_weights())
        half_logits = np.asarray(half(inputs_of(model)))
        assert half_logits.dtype == np.float32
        assert np.median(np.abs(half_logits - logits)) < 0.1 * np.std(logits)
    stepped = step_by_step(half, SOURCE, TARGET)[:, 0]
    assert stepped.dtype == np.float32
    assert np.median(np.abs(stepped - logits)) < 0.1 * np.std(logits)


def test_the_sweep_covers_every_pair_of_values():
    assert 30 < len(COMBINATIONS) < 120
    for name, values in SPACE.items():
        for value in values:
            assert any(settings.get(name) == value for settings in COMBINATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("decoder_only", BOOLEANS)
def test_attention_weights_on_request(rng, decoder_only):
    model = make_model(dict(decoder_only=decoder_only, decoder=dict(num_heads=4)), rng)
    states = model.states(inputs_of(model))
    attention = states.attention
    np.testing.assert_array_equal(states.logits, model(inputs_of(model)))
    np.testing.assert_allclose(
        model.logits(states.decoder.hidden[-1]), states.logits, rtol=1e-5, atol=1e-5
    )
    shapes = [[tuple(weights.shape) for weights in part] for part in attention]
    assert shapes[1] == [(2, 4, 6, 6)] * 2
    if decoder_only:
        assert shapes[0] == shapes[2] == []
    else:
        assert shapes[0] == [(2, 2, 5, 5)] * 2
        assert shapes[2] == [(2, 4, 6, 5)] * 2
    for part in attention:
        for weights in part:
            np.testing.assert_allclose(np.sum(weights, axis=-1), 1, rtol=1e-5)
    for weights in attention.decoder:
        assert not np.triu(np.asarray(weights), 1).any()
    for weights in attention.cross:
        assert not np.asarray(weights)[1, :, :, 2:].any()


@pytest.mark.slow
def test_encoder_states(rng):
    model = make_model({}, rng)
    states = model.states(inputs_of(model)).encoder
    assert len(states.hidden) == 3
    assert len(states.attention) == 2
    np.testing.assert_array_equal(states.hidden[-1], model.encode(SOURCE))


@pytest.mark.slow
def test_head_masks(rng):
    """A head that is taken out is one whose part of the output projection is zero."""
    model = make_model({}, rng)
    masks = HeadMasks(
        encoder=np.array([[1, 1], [0, 1]]),
        decoder=np.array([[1, 0], [1, 1]]),
        cross=np.array([[0, 0], [1, 1]]),
    )
    before = model(inputs_of(model))
    with masked_heads(model, masks):
        masked = model(inputs_of(model))
        masked_steps = step_by_step(model, SOURCE, TARGET)[:, 0]
    np.testing.assert_array_equal(model(inputs_of(model)), before)
    layers = [
        (model.encoder.stacked_layers[1].self_attention, [0]),
        (model.decoder.stacked_layers[0].self_attention, [1]),
        (model.decoder.stacked_layers[0].cross_attention, [0, 1]),
    ]
    for layer, heads in layers:
        kernel = np.array(layer.output_projection.kernel)
        for head in heads:
            kernel[4 * head : 4 * head + 4] = 0
        layer.output_projection.kernel.assign(kernel)
    expected = model(inputs_of(model))
    np.testing.assert_allclose(masked, expected, atol=1e-5)
    np.testing.assert_allclose(masked_steps[TARGET != 0], expected[TARGET != 0], atol=1e-5)

    pruned = make_model({}, np.random.default_rng(1))
    prune_heads(pruned, masks)
    np.testing.assert_allclose(pruned(inputs_of(pruned)), expected, atol=1e-6)
    stepped = step_by_step(pruned, SOURCE, TARGET)[:, 0]
    np.testing.assert_allclose(stepped[TARGET != 0], expected[TARGET != 0], atol=1e-5)


@pytest.mark.slow
def test_ssru_decoder_on_request(rng):
    """Cross-attention can be inspected and masked; there is no self-attention."""
    model = make_model(dict(decoder_autoregression="ssru"), rng)
    states = model.states(inputs_of(model))
    assert states.attention.decoder == []
    assert [tuple(weights.shape) for weights in states.attention.cross] == [(2, 2, 6, 5)] * 2
    np.testing.assert_array_equal(states.logits, model(inputs_of(model)))
    with masked_heads(model, HeadMasks(cross=np.array([[0, 0], [1, 1]]))):
        masked = model(inputs_of(model))
    prune_heads(model, HeadMasks(cross=np.array([[0, 0], [1, 1]])))
    np.testing.assert_allclose(model(inputs_of(model)), masked, atol=1e-6)
    with pytest.raises(InputError, match=r"format has no weight for 'decoder/layer_0/ssru/"):
        sources_of(weight_shapes(model.config), ANNOTATED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "masks", "message"),
    [
        (
            dict(decoder_autoregression="ssru"),
            HeadMasks(decoder=np.ones((2, 2))),
            "'ssru'` has no self-attention heads to mask",
        ),
        ({}, HeadMasks(encoder=np.ones((3, 2))), r"encoder mask .* \(2, 2\). Received: \(3, 2\)"),
        ({}, HeadMasks(cross=np.ones((2, 1))), r"cross mask .* \(2, 2\). Received: \(2, 1\)"),
        (dict(decoder_only=True), HeadMasks(encoder=np.ones((2, 2))), "has no encoder heads"),
    ],
)
def test_head_masks_must_fit(rng, settings, masks, message):
    model = make_model(settings, rng)
    with pytest.raises(ValueError, match=message), masked_heads(model, masks):
        pass
    with pytest.raises(ValueError, match=message):
        prune_heads(model, masks)


@pytest.mark.slow
@pytest.mark.parametrize("decoder_only", BOOLEANS)
def test_attention_weights_are_not_kept_unasked(rng, decoder_only, monkeypatch):
    """One layer's at a time: those of the layer before are gone when the next are computed."""
    made, most = [], []
    compute = attention.scaled_dot_product_attention

    def watch(*arguments, **options):
        attended, weights = compute(*arguments, **options)
        made.append(weakref.ref(weights))
        most.append(sum(weights() is not None for weights in made))
        return attended, weights

    monkeypatch.setattr(attention, "scaled_dot_product_attention", watch)
    model = make_model(dict(decoder_only=decoder_only, num_decoder_layers=6), rng)
    model(inputs_of(model))
    assert len(most) >= 6
    assert max(most) <= 2


@pytest.mark.slow
def test_depth_scaled_initialization():
    """Weights of layer l are smaller by sqrt(l); embeddings and norms are not."""
    sizes = SIZES | dict(d_model=64, d_ff=64, num_encoder_layers=4)
    model = Transformer(
        TransformerConfig(source_vocab_size=VOCAB, depth_scaled_initialization=True, **sizes)
    )
    spreads = [
        np.std(np.asarray(layer.feed_forward.inner.kernel))
        for layer in model.encoder.stacked_layers
    ]
    np.testing.assert_allclose(np.array(spreads) / spreads[0], np.arange(1, 5) ** -0.5, rtol=0.05)


@pytest.mark.representatives("zero-False", "end-True")
@pytest.mark.slow
@pytest.mark.parametrize("decoder_only", BOOLEANS)
@pytest.mark.parametrize("begin_embedding", ["zero", "end"])
def test_begin_embedding(rng, begin_embedding, decoder_only):
    """No computation of the model reads the begin id's row, so training cannot change it."""
    settings = dict(
        tied_embeddings="none", decoder_only=decoder_only, begin_embedding=begin_embedding
    )
    model = make_model(settings, rng)
    inputs, real = inputs_of(model), TARGET != 0

    def outputs():
        return [
            np.asarray(model(inputs)),
            np.asarray(model.states(inputs).logits),
            np.asarray(model.hidden_at(inputs, real)),
            step_by_step(model, SOURCE, TARGET)[:, 0],
        ]

    before = outputs()
    np.testing.assert_allclose(before[3][real], before[0][real], atol=2e-5)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(model(inputs, training=True) ** 2)
    gradient = np.asarray(
        tf.convert_to_tensor(tape.gradient(value, model.target_embedding.embeddings.value))
    )
    assert not gradient[2].any()
    assert gradient[TARGET[real & (TARGET != 2)]].any(axis=1).all()
    matrix = np.array(model.target_embedding.embeddings)
    matrix[2] = np.nan
    model.target_embedding.embeddings.assign(matrix)
    for former, now in zip(before, outputs(), strict=True):
        np.testing.assert_array_equal(now, former)


@pytest.mark.slow
def test_a_source_without_its_end(rng):
    """Outputs are those of sources in which padding stands for the end, but for an empty source."""
    model = make_model(dict(source_end=False, tied_embeddings="none"), rng)
    source = np.concatenate([SOURCE, [[3, 0, 0, 0, 0], [6, 4, 3, 0, 0]]]).astype("int32")
    target = np.concatenate([TARGET, TARGET])
    without = np.where((source == 3) & (source[:, :1] != 3), 0, source)
    real = target != 0

    def outputs(source):
        inputs = {"source": source, "target": target}
        return [
            np.asarray(model(inputs)),
            np.asarray(model.states(inputs).logits),
            np.asarray(model.hidden_at(inputs, real)),
            step_by_step(model, source, target)[:, 0],
        ]

    found = outputs(source)
    np.testing.assert_allclose(found[3][real], found[0][real], atol=2e-5)
    for ours, expected in zip(found, outputs(without), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    seeing = make_model(dict(tied_embeddings="none"), rng)
    seeing.set_weights(model.get_weights())
    changes = np.asarray(seeing({"source": source, "target": target})) - found[0]
    assert np.abs(changes[[0, 1, 3]]).max() > 0.01
    np.testing.assert_allclose(changes[2], 0, atol=1e-6)


@pytest.mark.slow
def test_frozen_embeddings_stay(rng):
    model = make_model(dict(trainable_embeddings=False), rng)
    vectors = rng.normal(size=(VOCAB, 8))
    vectors[5] = np.nan
    former = np.array(model.target_embedding.embeddings)
    model.target_embedding.set_vectors(vectors)
    matrix = np.asarray(model.target_embedding.embeddings)
    np.testing.assert_allclose(np.delete(matrix, 5, 0), np.delete(vectors, 5, 0), rtol=1e-6)
    np.testing.assert_array_equal(matrix[5], former[5])
    assert all("embeddings" not in weight.path for weight in model.trainable_weights)
    with pytest.raises(ValueError, match=r"shape \(11, 8\). Received: \(11, 4\)"):
        model.target_embedding.set_vectors(vectors[:, :4])
