"""Masks of another shape or dtype than a layer takes are refused, by every layer and model."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import (
    CrossAttention,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    LanguageModel,
    SearchOptions,
    SelfAttention,
    Transformer,
    TransformerConfig,
    beam_search,
    causal_attention_mask,
    causal_mask,
    padding_attention_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from tf_transformer.errors import InputError
from tf_transformer.layers.attention import log_attention

# As many sentences as tokens, so that a mask of two axes fits every pair of axes.
LENGTH = BATCH = 7
WIDTH, HEADS = 8, 2
NUM_TOKENS = np.array([7, 3, 1, 5, 7, 2, 6])
IDS = np.where(np.arange(LENGTH) < NUM_TOKENS[:, None], 5, 0)
BLOCK = dict(num_heads=HEADS, d_ff=12)


def with_heads(function):
    """A function of queries, keys and a mask as a layer of one head."""
    return lambda: lambda x, mask: function(x[:, None], x[:, None], mask)


SELF, FIRST, CROSS = ("x", "mask"), ("x", "x", "mask"), ("x", "x", None, "mask")
# How each layer is made and called; `x` is its input, and the memory as well.
LAYERS = {
    "SelfAttention": (lambda: SelfAttention(num_heads=HEADS), SELF),
    "CrossAttention": (lambda: CrossAttention(num_heads=HEADS), FIRST),
    "EncoderLayer": (lambda: EncoderLayer(**BLOCK), SELF),
    "Encoder": (lambda: Encoder(num_layers=1, **BLOCK), SELF),
    "DecoderLayer": (lambda: DecoderLayer(**BLOCK), FIRST),
    "DecoderLayer, cross": (lambda: DecoderLayer(**BLOCK), CROSS),
    "DecoderLayer, ssru": (lambda: DecoderLayer(autoregression="ssru", **BLOCK), FIRST),
    "DecoderLayer, alone": (
        lambda: DecoderLayer(cross_attention=False, **BLOCK),
        ("x", None, "mask"),
    ),
    "Decoder": (lambda: Decoder(num_layers=1, **BLOCK), FIRST),
    "Decoder, cross": (lambda: Decoder(num_layers=1, **BLOCK), CROSS),
}
FUNCTIONS = {
    "equation 1": (
        with_heads(lambda x, y, mask: scaled_dot_product_attention(x, y, y, mask)[0]),
        SELF,
    ),
    "logarithm": (with_heads(log_attention), SELF),
}
EAGER, UNKNOWN_LENGTHS, FUNCTIONAL_MODEL = range(3)

ALL_TRUE = np.ones((BATCH, 1, 1, LENGTH), bool)
# Each wrong mask, and what the message says of it.
RANKS = {
    "padding": (np.asarray(padding_mask(IDS)), r"Received: \(7, 7\)\. From a padding mask"),
    "causal": (np.asarray(causal_mask(LENGTH)), r"Received: \(7, 7\)\..*`mask\[None, None\]`"),
    "three axes": (np.asarray(padding_mask(IDS))[:, None], r"Received: \(7, 1, 7\)"),
    "one axis": (np.ones(LENGTH, bool), r"Received: \(7,\)"),
    "five axes": (ALL_TRUE[None], r"Received: \(1, 7, 1, 1, 7\)"),
}
LENGTHS = {
    "keys": (ALL_TRUE[..., :5], r"Received: \(7, 1, 1, 5\)"),
    "queries": (np.ones((1, 1, 3, LENGTH), bool), r"Received: \(1, 1, 3, 7\)"),
    "batch": (ALL_TRUE[:4], r"Received: \(4, 1, 1, 7\)"),
}
DTYPES = {
    "bias": (
        np.where(ALL_TRUE, 0.0, -1e9).astype("float32"),
        r"must be boolean tensors.* Received: float32",
    ),
    "integers": (ALL_TRUE.astype("int32"), r"must be boolean tensors.* Received: int32"),
}
ACCEPTED = [
    np.asarray(mask)
    for mask in (
        padding_attention_mask(padding_mask(IDS)),
        causal_attention_mask(padding_mask(IDS)),
        causal_mask(LENGTH)[None, None],
    )
]


def call(layer, arguments, vectors, mask, route):
    """Calls a layer in one of three ways, and returns its outputs."""

    def call_layer(vectors, mask):
        named = {"x": vectors, "mask": mask, None: None}
        return layer(*(named[argument] for argument in arguments))

    if route == EAGER:
        return call_layer(vectors, mask)
    if route == FUNCTIONAL_MODEL:
        inputs = [
            keras.Input(x.shape[1:], batch_size=len(x), dtype=x.dtype) for x in (vectors, mask)
        ]
        return keras.Model(inputs, call_layer(*inputs))([vectors, mask])
    specs = [
        tf.TensorSpec([None, None, WIDTH], vectors.dtype),
        tf.TensorSpec([None] * mask.ndim, mask.dtype),
    ]
    return tf.function(call_layer, specs, autograph=False)(vectors, mask)


@pytest.fixture
def vectors():
    return np.random.default_rng(1).normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")


@pytest.mark.representatives(
    *("SelfAttention", "CrossAttention", "Encoder", "DecoderLayer, ssru", "Decoder, cross"),
    "equation 1",
)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*LAYERS, *FUNCTIONS])
def test_wrong_masks(name, vectors):
    """In every layer, eager, in a graph and in a functional model."""
    make, arguments = (LAYERS | FUNCTIONS)[name]
    layer = make()
    for mask, message in (RANKS | LENGTHS | DTYPES).values():
        with pytest.raises(InputError, match=message):
            call(layer, arguments, vectors, mask, EAGER)
        if name in LAYERS:
            with pytest.raises(InputError, match=message):
                call(layer, arguments, vectors, mask, FUNCTIONAL_MODEL)
    for mask, message in (RANKS["padding"], DTYPES["bias"]):  # TensorFlow will compare lengths
        with pytest.raises(InputError, match=message.replace("7", r"\?")):
            call(layer, arguments, vectors, mask, UNKNOWN_LENGTHS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_are_no_masks(name, vectors):
    """Keras lets no list through to a layer."""
    make, arguments = FUNCTIONS[name]
    with pytest.raises(InputError, match=r"must be boolean tensors.* Received: list"):
        call(make(), arguments, vectors, ALL_TRUE.tolist(), EAGER)


@pytest.mark.representatives("CrossAttention", "Encoder", "Decoder", "DecoderLayer, ssru")
@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_masks_that_are_accepted(name, vectors):
    """In every way of calling alike, and each mask has its own effect."""
    make, arguments = LAYERS[name]
    layer = make()
    outputs = [np.asarray(call(layer, arguments, vectors, mask, EAGER)) for mask in ACCEPTED]
    for route in (UNKNOWN_LENGTHS, FUNCTIONAL_MODEL):
        computed = call(layer, arguments, vectors, ACCEPTED[1], route)
        np.testing.assert_allclose(computed, outputs[1], atol=1e-5)
    if "ssru" not in name:  # which sees no later positions in any case
        for first, second in itertools.combinations(outputs, 2):
            assert np.abs(first - second).max() > 1e-3


MODEL = dict(
    target_vocab_size=9, d_model=WIDTH, d_ff=12, num_heads=HEADS, num_encoder_layers=1,
    num_decoder_layers=1,
)  # fmt: skip
MASK = np.asarray(padding_mask(IDS))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (ALL_TRUE, r"a padding mask must .* Received: \(7, 1, 1, 7\)"),
        (MASK[0], r"a padding mask must .* Received: \(7,\)"),
        (MASK[:, :5], r"a padding mask must .*, here \(7, 7\)\. Received: \(7, 5\)"),
        (MASK[:1], r"a padding mask must .*, here \(7, 7\)\. Received: \(1, 7\)"),
        (MASK.astype("float32"), r"must be boolean tensors.* Received: float32"),
        (IDS, r"must be boolean tensors.* Received: int64"),
    ],
)
def test_padding_masks_of_models(mask, message):
    """Wherever a model takes a padding mask, and in what makes attention masks of one."""
    transformer = Transformer(TransformerConfig(source_vocab_size=9, **MODEL))
    language_model = LanguageModel(TransformerConfig(decoder_only=True, **MODEL))
    memory = transformer.encode(IDS)
    calls = [
        lambda: transformer.decode(IDS, memory, mask),
        lambda: transformer.hidden_at({"source": IDS, "target": IDS}, mask),
        lambda: language_model.hidden_at({"target": IDS}, mask),
    ]
    if mask.ndim != 2 or mask.dtype != bool:
        calls += [lambda: padding_attention_mask(mask), lambda: causal_attention_mask(mask)]
    for refused in calls:
        with pytest.raises(InputError, match=message):
            refused()


def test_source_mask_of_a_coverage_penalty():
    """One of four axes, as attention takes it, would change the penalty."""
    options = SearchOptions(
        max_length=np.array([3]), coverage_penalty=np.array([0.2]), source_mask=ALL_TRUE[:1]
    )
    with pytest.raises(InputError, match=r"a padding mask must .* Received: \(1, 1, 1, 7\)"):
        beam_search(None, None, beam_size=1, begin_id=2, end_ids=[3], options=options)
