"""What a `TransformerConfig` refuses, with the reason."""

from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

SIDES = ("encoder", "decoder")

# The largest sizes: above those of any model that is known, and small enough to compute with. Known
# are vocabularies of 256,000 pieces (NLLB), 1,000 layers (DeepNet), and of dense models a d_model
# of 20,480, a d_ff of 81,920 and 128 heads (Megatron-Turing).
LARGEST: dict[str, int] = {
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
}

SWITCHES: dict[str, tuple[str, ...]] = {
    "norm_position": ("post", "pre"),
    "norm_type": ("layer", "sample_std", "l1", "rms"),
    "positions": ("interleaved", "concatenated", "marian", "learned", "none"),
    "relative_positions": ("none", "keys", "keys_values"),
    "activation": ("relu", "gelu", "swish", "glu", "reglu", "geglu", "swiglu"),
    "tied_embeddings": ("none", "target", "inputs", "all"),
}


def check_config(config: Any) -> None:
    """Checks every value of a `TransformerConfig`, then what they mean together.

    Raises:
        ValueError: names the setting, what is expected and what came.
    """
    _check_sizes(config)
    _check_rates(config)
    _check_switches(config)
    _check_widths(config)
    _check_sharing(config)
    _check_meaning(config)
    if config.decoder_only:
        _check_decoder_only(config)


def _given(config, name):
    """The value of `name` and of each side that has one of its own, by the name of the setting."""
    values = {name: getattr(config, name)} if hasattr(config, name) else {}
    for side in SIDES:
        value = getattr(getattr(config, side), name, None)
        if value is not None:
            values[f"{side}.{name}"] = value
    return values


def _check_sizes(config):
    for setting, largest in LARGEST.items():
        if setting == "source_vocab_size" and config.decoder_only:
            continue
        for name, value in _given(config, setting).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(
                    f"`{name}` must be a positive integer. Received: {name}={shown(value)}"
                )
            if value > largest:
                raise InputError(
                    f"`{name}` must be at most {largest}. Received: {name}={shown(value)}"
                )


def _check_rates(config):
    for name in ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"):
        value = getattr(config, name)
        if value is None and name != "dropout_rate":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise InputError(
                f"`{name}` must be at least 0 and less than 1. Received: {name}={shown(value)}"
            )
    epsilon = config.layer_norm_epsilon
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon <= 1:
        raise InputError(
            "`layer_norm_epsilon` must be a number above 0 and at most 1. "
            f"Received: layer_norm_epsilon={shown(epsilon)}"
        )


def _check_switches(config):
    for setting, allowed in SWITCHES.items():
        for name, value in _given(config, setting).items():
            if value not in allowed:
                raise InputError(
                    f"`{name}` must be one of {allowed}. Received: {name}={shown(value)}"
                )
    for setting in (
        "final_norm",
        "layer_history",
        "trainable_embeddings",
        "logits_bias",
        "depth_scaled_initialization",
        "decoder_only",
    ):
        for name, value in _given(config, setting).items():
            if not isinstance(value, bool) and (name, value) != ("final_norm", None):
                raise InputError(f"`{name}` must be true or false. Received: {name}={shown(value)}")


def _check_widths(config):
    for side in SIDES:
        resolved = config.side(side)
        for heads in ("num_heads", "cross_num_heads"):
            number = getattr(resolved, heads)
            if resolved.d_model % number:
                name = f"{side}.{heads}" if getattr(getattr(config, side), heads) else "num_heads"
                raise InputError(
                    f"`{name}` must divide `d_model`. "
                    f"Received: {name}={number}, d_model={resolved.d_model}"
                )
        if resolved.d_model % 2 and config.positions not in ("learned", "none"):
            raise InputError(
                "`d_model` must be even: sines and cosines share it. "
                f"Received: d_model={resolved.d_model}"
            )


def _check_sharing(config):
    if config.tied_embeddings not in ("inputs", "all") or config.decoder_only:
        return
    widths = {side: config.side(side).d_model for side in SIDES}
    for what, source, target in (
        (
            "vocabulary",
            f"source_vocab_size={config.source_vocab_size}",
            f"target_vocab_size={config.target_vocab_size}",
        ),
        ("width", f"encoder.d_model={widths['encoder']}", f"decoder.d_model={widths['decoder']}"),
    ):
        if source.partition("=")[2] != target.partition("=")[2]:
            raise InputError(
                f"`tied_embeddings={config.tied_embeddings!r}` needs one {what} for both sides. "
                f"Received: {source}, {target}"
            )


def _check_meaning(config):
    if config.encoder.cross_num_heads is not None:
        raise InputError(
            "Only the decoder has cross-attention. "
            f"Received: encoder.cross_num_heads={shown(config.encoder.cross_num_heads)}"
        )
    if config.positions == "none" and config.relative_positions == "none":
        raise InputError(
            "`positions='none'` needs `relative_positions`: without either, a model cannot tell "
            "the order of its words"
        )


def _check_decoder_only(config):
    given = {"source_vocab_size": config.source_vocab_size}
    given |= {f"encoder.{name}": value for name, value in vars(config.encoder).items()}
    given["decoder.cross_num_heads"] = config.decoder.cross_num_heads
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"`decoder_only` models have no encoder and no use for `{name}`. "
                f"Received: {name}={shown(value)}"
            )
    if config.tied_embeddings not in ("none", "target"):
        raise InputError(
            "`tied_embeddings` of a `decoder_only` model must be 'none' or 'target'. "
            f"Received: tied_embeddings={config.tied_embeddings!r}"
        )
