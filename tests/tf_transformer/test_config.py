"""The settings of the model: presets, defaults, and what is refused."""

import dataclasses
import re
import typing

import pytest

from tf_transformer import TransformerConfig
from tf_transformer.config import SideConfig
from tf_transformer.errors import InputError

VOCABULARIES = dict(source_vocab_size=100, target_vocab_size=100)
# Vaswani et al., 2017, table 3 (base, big); Wu et al., 2021, appendix (tiny). `N`: layers of the
# encoder and of the decoder.
PRESETS = {
    "tiny": dict(
        N=4,
        d_model=128,
        d_ff=256,
        num_heads=4,
        dropout_rate=0.3,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
        norm_position="pre",
    ),
    "base": dict(N=6, d_model=512, d_ff=2048, num_heads=8, dropout_rate=0.1, norm_position="post"),
    "big": dict(N=6, d_model=1024, d_ff=4096, num_heads=16, dropout_rate=0.3, norm_position="post"),
    "paper_base": dict(
        N=6,
        d_model=512,
        d_ff=2048,
        num_heads=8,
        dropout_rate=0.1,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
        norm_position="post",
        positions="interleaved",
    ),
    "paper_big": dict(
        N=6,
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        dropout_rate=0.3,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
    ),
    # The published command of Kasai et al., 2021, and the defaults of its program.
    "shallow": dict(
        N=(12, 1),
        d_model=512,
        d_ff=2048,
        num_heads=8,
        dropout_rate=0.2,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
        norm_position="post",
        activation="relu",
        decoder_autoregression="self_attention",
        depth_scaled_initialization=True,
    ),
    # Bergamot's `student.tiny11`, and Marian's defaults.
    "student": dict(
        N=(6, 2),
        d_model=256,
        d_ff=1536,
        num_heads=8,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
        norm_position="post",
        positions="concatenated",
        first_position=0,
        activation="relu",
        decoder_autoregression="ssru",
        begin_embedding="zero",
        logits_bias=True,
        layer_norm_epsilon=1e-6,
        depth_scaled_initialization=True,
    ),
    # `make_model` of the Annotated Transformer.
    "annotated": dict(
        N=6,
        d_model=512,
        d_ff=2048,
        num_heads=8,
        dropout_rate=0.1,
        attention_dropout_rate=0.1,
        feed_forward_dropout_rate=0.1,
        norm_position="pre",
        norm_type="sample_std",
        positions="interleaved",
        tied_embeddings="none",
        logits_bias=True,
        max_length=5000,
    ),
    # The defaults of NiuTensor's sample program.
    "niutensor": dict(
        N=6,
        d_model=512,
        d_ff=1024,
        num_heads=4,
        dropout_rate=0.3,
        attention_dropout_rate=0.1,
        feed_forward_dropout_rate=0.1,
        norm_position="pre",
        positions="concatenated",
        tied_embeddings="none",
        logits_bias=False,
        max_length=200,
    ),
}


# The settings whose upper limit is tested.
LARGEST = {
    "source_vocab_size": 2**24,
    "target_vocab_size": 2**24,
    "num_encoder_layers": 2**10,
    "num_decoder_layers": 2**10,
    "d_model": 2**16,
    "d_ff": 2**18,
    "num_heads": 2**10,
    "cross_num_heads": 2**10,
    "max_length": 2**20,
    "max_relative_distance": 2**20,
    "first_position": 2**20,
}


def choices() -> dict[str, tuple[str, ...]]:
    """Returns each setting that is one of several words, with these words, for other tests too."""
    hints = typing.get_type_hints(TransformerConfig)
    found = {}
    for name, hint in hints.items():
        for kind in (hint, *typing.get_args(hint)):  # a type, and those of an optional one
            if typing.get_origin(kind) is typing.Literal:
                found[name] = typing.get_args(kind)
    return found


def make_config(**settings):
    return TransformerConfig(**(VOCABULARIES | settings))


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    expected = dict(PRESETS[name])
    config = TransformerConfig.preset(name, **VOCABULARIES)
    layers = expected.pop("N")
    assert (config.num_encoder_layers, config.num_decoder_layers) == (
        layers if isinstance(layers, tuple) else (layers, layers)
    )
    expected.setdefault("tied_embeddings", "all")
    actual = dataclasses.asdict(config)
    for part in ("attention", "feed_forward"):
        actual[f"{part}_dropout_rate"] = config.dropout_rate_of(part)
    assert {setting: actual[setting] for setting in expected} == expected


def test_preset_with_overrides():
    config = TransformerConfig.preset(
        "tiny", source_vocab_size=7, target_vocab_size=9, num_heads=8, dropout_rate=0.2
    )
    assert (config.source_vocab_size, config.target_vocab_size) == (7, 9)
    assert (config.num_heads, config.dropout_rate, config.d_model) == (8, 0.2, 128)
    # Nothing of it stays behind in the preset.
    assert TransformerConfig.preset("tiny", **VOCABULARIES).num_heads == 4


def test_defaults_are_the_base_model():
    assert make_config() == TransformerConfig.preset("base", **VOCABULARIES)


def test_dropout_rates_follow_the_main_one():
    config = make_config(dropout_rate=0.25)
    assert config.dropout_rate_of("attention") == 0.25
    assert config.dropout_rate_of("feed_forward") == 0.25
    changed = dataclasses.replace(config, dropout_rate=0.5)
    assert changed.dropout_rate_of("attention") == 0.5
    assert changed.dropout_rate_of("feed_forward") == 0.5
    config = make_config(
        dropout_rate=0.25, attention_dropout_rate=0.0, feed_forward_dropout_rate=0.5
    )
    assert config.dropout_rate_of("attention") == 0.0
    assert config.dropout_rate_of("feed_forward") == 0.5


@pytest.mark.parametrize(("target_vocab_size", "tied"), [(100, "all"), (99, "target")])
def test_tied_embeddings_follow_the_vocabularies(target_vocab_size, tied):
    assert make_config(target_vocab_size=target_vocab_size).tied_embeddings == tied


@pytest.mark.parametrize("tied", ["none", "target", "all"])
def test_tied_embeddings_given(tied):
    assert make_config(tied_embeddings=tied).tied_embeddings == tied


def test_config_survives_its_dictionary():
    config = make_config(target_vocab_size=50, norm_position="pre", dropout_rate=0)
    assert TransformerConfig(**dataclasses.asdict(config)) == config


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_config().d_model = 8


SIZES = [
    "source_vocab_size",
    "target_vocab_size",
    "num_encoder_layers",
    "num_decoder_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "max_length",
]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -2, 2.0, "8", True, None])
def test_sizes_must_be_positive_integers(name, value):
    expected = "greater than or equal to 1" if type(value) is int else "a valid integer"
    message = f"`{name}` must be {expected}. Received: {name}={value!r}"
    if (name, value) == ("source_vocab_size", None):
        message = "`source_vocab_size` is needed unless the model is `decoder_only`. "
    with pytest.raises(InputError, match=re.escape(message)):
        make_config(**{name: value})


@pytest.mark.parametrize("name", LARGEST)
def test_sizes_end_somewhere(name):
    side = {"decoder": {name: LARGEST[name] + 1}} if name == "cross_num_heads" else {}
    message = f"must be less than or equal to {LARGEST[name]}. Received: "
    with pytest.raises(ValueError, match=re.escape(message)):
        make_config(**(side or {name: LARGEST[name] + 1}))


def test_the_largest_known_models_fit():
    """NLLB-200's layers and vocabulary; GPT-3; Megatron-Turing NLG; DeepNet."""
    for sizes in (
        dict(num_encoder_layers=24, num_decoder_layers=24, d_model=2048, d_ff=8192, num_heads=16),
        dict(num_decoder_layers=96, d_model=12288, d_ff=49152, num_heads=96),
        dict(num_decoder_layers=105, d_model=20480, d_ff=81920, num_heads=128),
        dict(num_encoder_layers=500, num_decoder_layers=500, d_model=512, d_ff=2048),
    ):
        TransformerConfig(source_vocab_size=256_206, target_vocab_size=256_206, **sizes)


def test_sizes_of_any_type_are_refused():
    for value in ([], {}, [8], "8"):
        with pytest.raises(ValueError, match=r"`d_model` must be a valid integer\. Received"):
            make_config(d_model=value)


@pytest.mark.parametrize(
    "name", ["dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"]
)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-0.1, "greater than or equal to 0"),
        (1, "less than 1"),
        (1.5, "less than 1"),
        ("0.1", "a valid number"),
        (True, "a valid number"),
        (float("nan"), "a finite number"),
    ],
)
def test_rates_must_be_shares(name, value, expected):
    message = f"`{name}` must be {expected}. Received: {name}={value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        make_config(**{name: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            dict(num_heads=3, d_model=10),
            "`num_heads` must divide `d_model`. Received: num_heads=3, d_model=10",
        ),
        (
            dict(num_heads=3, d_model=9),
            "`d_model` must be even: sines and cosines share it. Received: d_model=9",
        ),
        (
            dict(layer_norm_epsilon=0.0),
            "`layer_norm_epsilon` must be greater than or equal to 0.000000000000001. Received: ",
        ),
        (
            dict(layer_norm_epsilon=1e-320),
            "`layer_norm_epsilon` must be greater than or equal to 0.000000000000001. Received: ",
        ),
        (
            dict(layer_norm_epsilon=float("nan")),
            "`layer_norm_epsilon` must be a finite number. Received: layer_norm_epsilon=nan",
        ),
        (
            dict(norm_position="middle"),
            "`norm_position` must be 'post' or 'pre'. Received: norm_position='middle'",
        ),
        (
            dict(tied_embeddings="source"),
            "`tied_embeddings` must be 'none', 'target', 'inputs' or 'all'. "
            "Received: tied_embeddings='source'",
        ),
        (
            dict(tied_embeddings="all", source_vocab_size=7, target_vocab_size=9),
            "`tied_embeddings='all'` needs one vocabulary for both sides. "
            "Received: source_vocab_size=7, target_vocab_size=9",
        ),
    ],
)
def test_contradictions(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_config(**settings)


def test_unknown_preset():
    message = r"`name` must be one of .'tiny', 'base', 'big', .*. Received: preset 'bass'"
    with pytest.raises(ValueError, match=message + "; did you mean 'base'"):
        TransformerConfig.preset("bass", **VOCABULARIES)


def test_unknown_setting():
    message = "Unknown setting of the model: 'num_head'; did you mean 'num_heads'?"
    with pytest.raises(ValueError, match=re.escape(message)):
        TransformerConfig.preset("tiny", **VOCABULARIES, num_head=4)
    with pytest.raises(
        ValueError, match=r"Unknown setting of the model: 'xyzzy'. Known are source_"
    ):
        TransformerConfig.preset("tiny", **VOCABULARIES, xyzzy=4)


def test_sides_have_values_of_their_own():
    config = make_config(
        d_ff=64,
        norm_position="pre",
        encoder={"d_ff": 32, "norm_position": "post"},
        decoder=SideConfig(num_heads=4, layer_history=True),
    )
    encoder, decoder = config.side("encoder"), config.side("decoder")
    assert (encoder.d_ff, encoder.norm_position, encoder.final_norm) == (32, "post", False)
    assert (decoder.d_ff, decoder.norm_position, decoder.final_norm) == (64, "pre", True)
    assert (encoder.num_heads, encoder.layer_history) == (8, False)
    assert (decoder.num_heads, decoder.cross_num_heads, decoder.layer_history) == (4, 4, True)


def test_sides_of_two_widths_share_nothing():
    assert make_config(encoder={"d_model": 64}).tied_embeddings == "target"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(positions="none"), "`positions='none'` needs `relative_positions`"),
        *(
            (
                dict(positions=kind, relative_positions="keys", first_position=2),
                "`first_position` must be 0 unless `positions` are sinusoids. "
                f"Received: first_position=2, positions={kind!r}",
            )
            for kind in ("learned", "none")
        ),
        (
            dict(
                decoder_only=True,
                source_vocab_size=None,
                decoder_autoregression="ssru",
                relative_positions="keys",
            ),
            "`relative_positions` must be 'none' without self-attention. Received: "
            "relative_positions='keys', decoder_only=True, decoder_autoregression='ssru'",
        ),
        (
            dict(decoder_autoregression="lstm"),
            "`decoder_autoregression` must be 'self_attention' or 'ssru'. Received: ",
        ),
        (dict(decoder_autoregression="ssru", positions="none"), "`positions='none'` needs"),
        (dict(first_position=-1), "`first_position` must be greater than or equal to 0"),
        (dict(encoder={"cross_num_heads": 2}), "Only the decoder has cross-attention"),
        (dict(decoder={"num_heads": 5}), "`decoder.num_heads` must divide `d_model`"),
        (dict(decoder={"cross_num_heads": 7}), "`decoder.cross_num_heads` must divide `d_model`"),
        (dict(encoder={"d_ff": 0}), "`encoder.d_ff` must be greater than or equal to 1"),
        (dict(encoder={"norm_position": "mid"}), "`encoder.norm_position` must be 'post' or 'pre'"),
        (dict(encoder={"heads": 4}), "'encoder.heads'; did you mean 'encoder.num_heads'?"),
        (dict(encoder=4), "`encoder` must hold settings of one side. Received: encoder=4"),
        (dict(final_norm="yes"), "`final_norm` must be a valid boolean"),
        (dict(layer_history=1), "`layer_history` must be a valid boolean"),
        (dict(begin_embedding="none"), "`begin_embedding` must be 'own', 'zero' or 'end'"),
        (
            dict(encoder={"d_model": 64}, tied_embeddings="inputs"),
            "`tied_embeddings='inputs'` needs one width for both sides. "
            "Received: encoder.d_model=64, decoder.d_model=512",
        ),
        (
            dict(decoder_only=True),
            "no use for `source_vocab_size`. Received: source_vocab_size=100",
        ),
        (
            dict(decoder_only=True, source_vocab_size=None, encoder={"d_ff": 8}),
            "no use for `encoder.d_ff`",
        ),
        (
            dict(decoder_only=True, source_vocab_size=None, tied_embeddings="all"),
            "`tied_embeddings` of a `decoder_only` model must be 'none' or 'target'",
        ),
    ],
)
def test_combinations_without_sense(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_config(**settings)


def test_a_recurrent_language_model_needs_no_positions():
    config = make_config(
        source_vocab_size=None, decoder_only=True, decoder_autoregression="ssru", positions="none"
    )
    assert config.positions == config.relative_positions == "none"
