"""The names and shapes that a configuration foretells are those of the model that it makes."""

import itertools

import pytest

from tests.tf_transformer.test_config import PRESETS, choices
from tf_transformer import TransformerConfig
from tf_transformer.storage.model_dir import make_model
from tf_transformer.storage.weight_shapes import weight_shapes

SIZES = dict(num_encoder_layers=2, num_decoder_layers=3, d_model=8, d_ff=12, num_heads=2)
VOCABULARIES = dict(source_vocab_size=10, target_vocab_size=10)
# What relative positions exclude.
ABSOLUTE = ("both_in_source", "end_and_begin")
SWITCHED = [
    {"relative_positions": "none" if value in ABSOLUTE else "keys", name: value}
    for name, values in choices().items()
    for value in values
]


def check(config: TransformerConfig) -> None:
    weights = {w.path.partition("/")[2]: tuple(w.shape) for w in make_model(config).weights}
    assert weight_shapes(config) == weights


@pytest.mark.representatives(every=6)
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        *SWITCHED,
        dict(norm_position="pre", final_norm=False),
        dict(final_norm=True, norm_type="rms"),
        *(
            dict(tied_embeddings=tied, logits_bias=bias)
            for tied, bias in itertools.product(choices()["tied_embeddings"], (False, True))
        ),
        dict(source_vocab_size=11),
        dict(layer_history=True),
        dict(encoder=dict(layer_history=True, norm_type="rms"), relative_positions="keys_values"),
        dict(
            encoder=dict(d_model=16, d_ff=20, num_heads=4, norm_position="pre"),
            decoder=dict(cross_num_heads=4, norm_type="rms", final_norm=True),
            positions="learned",
            relative_positions="keys_values",
            max_relative_distance=3,
            max_length=17,
        ),
        dict(positions="learned", language_tags="source_and_target"),
        dict(
            encoder=dict(d_model=16, num_heads=4),
            decoder=dict(cross_num_heads=4, head_dim=3),
            relative_positions="buckets",
            dense_bias=False,
            embedding_norm=True,
        ),
    ],
    ids=str,
)
def test_shapes_of_translation_models(settings):
    check(TransformerConfig(**(SIZES | VOCABULARIES | settings)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        dict(tied_embeddings="none"),
        dict(positions="learned", layer_history=True, activation="geglu", norm_type="rms"),
        dict(decoder=dict(d_model=16, num_heads=4), relative_positions="keys_values"),
        dict(decoder_autoregression="ssru", norm_type="rms", positions="none"),
        dict(head_dim=5, dense_bias=False, relative_positions="buckets", positions="none"),
    ],
    ids=str,
)
def test_shapes_of_language_models(settings):
    sizes = dict(num_decoder_layers=2, d_model=8, d_ff=12, num_heads=2, target_vocab_size=10)
    check(TransformerConfig(decoder_only=True, **(sizes | settings)))


@pytest.mark.representatives("tiny", "student", "niutensor")
@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_shapes_of_presets(name):
    check(TransformerConfig.preset(name, **VOCABULARIES, num_encoder_layers=1))


def test_the_largest_sizes_are_counted_and_not_made():
    config = TransformerConfig(
        source_vocab_size=2**24,
        target_vocab_size=2**24,
        num_encoder_layers=2**10,
        num_decoder_layers=2**10,
        d_model=2**16,
        d_ff=2**18,
    )
    shapes = weight_shapes(config)
    assert shapes["encoder/layer_1023/feed_forward/inner/kernel"] == (2**16, 2**18)
