"""The names and shapes of a model's weights, from its configuration alone.

They are known before the model is built, so that a file of weights can be held against a
configuration before either of them is given memory.
"""

from tf_transformer.config import ResolvedSide, TransformerConfig

Shapes = dict[str, tuple[int, ...]]

_GATED = ("glu", "reglu", "geglu", "swiglu")


def weight_shapes(config: TransformerConfig) -> Shapes:
    """Returns the shape of every weight of the model that `make_model` makes, by its name."""
    shapes = _stack("decoder", config)
    shapes |= _embedding("decoder", "target", config.target_vocab_size, config)
    width, vocab_size = config.side("decoder").d_model, config.target_vocab_size
    if not config.logits_tied:
        shapes["logits_projection/kernel"] = (width, vocab_size)
    if config.logits_bias:
        shapes["logits_bias" if config.logits_tied else "logits_projection/bias"] = (vocab_size,)
    if config.source_vocab_size is not None:
        shapes |= _stack("encoder", config)
        shapes |= _embedding("encoder", "source", config.source_vocab_size, config)
        if config.tied_embeddings in ("inputs", "all"):
            del shapes["source_embedding/embeddings"]
    return shapes


def _embedding(side: str, name: str, vocab_size: int, config: TransformerConfig) -> Shapes:
    width = config.side(side).d_model
    shapes: Shapes = {f"{name}_embedding/embeddings": (vocab_size, width)}
    if config.positions == "learned":
        shapes[f"{name}_positions/vectors"] = (config.max_length, width)
    return shapes


def _stack(side: str, config: TransformerConfig) -> Shapes:
    own = config.side(side)
    layer = _self_attention(own, config) | _feed_forward(own, config)
    if side == "decoder" and not config.decoder_only:
        layer |= _cross_attention(own, config.side("encoder").d_model)
    num_layers = getattr(config, f"num_{side}_layers")
    shapes = {
        f"{side}/layer_{number}/{name}": shape
        for number in range(num_layers)
        for name, shape in layer.items()
    }
    if own.layer_history:
        for number in range(num_layers):
            shapes[f"{side}/history/mix_{number}"] = (number + 2,)
            shapes |= _norm(f"{side}/history/norm_{number}", own)
    if own.final_norm:
        shapes |= _norm(f"{side}/final_norm", own)
    return shapes


def _self_attention(own: ResolvedSide, config: TransformerConfig) -> Shapes:
    shapes = _dense("self_attention/query_key_value", own.d_model, 3 * own.d_model)
    shapes |= _dense("self_attention/output_projection", own.d_model, own.d_model)
    shapes |= _norm("self_attention_residual/norm", own)
    vectors = (2 * config.max_relative_distance + 1, own.d_model // own.num_heads)
    if config.relative_positions != "none":
        shapes["self_attention/relative_keys/vectors"] = vectors
    if config.relative_positions == "keys_values":
        shapes["self_attention/relative_values/vectors"] = vectors
    return shapes


def _cross_attention(own: ResolvedSide, memory_width: int) -> Shapes:
    shapes = _dense("cross_attention/query", own.d_model, own.d_model)
    shapes |= _dense("cross_attention/key_value", memory_width, 2 * own.d_model)
    shapes |= _dense("cross_attention/output_projection", own.d_model, own.d_model)
    return shapes | _norm("cross_attention_residual/norm", own)


def _feed_forward(own: ResolvedSide, config: TransformerConfig) -> Shapes:
    num_parts = 2 if config.activation in _GATED else 1
    shapes = _dense("feed_forward/inner", own.d_model, num_parts * own.d_ff)
    shapes |= _dense("feed_forward/outer", own.d_ff, own.d_model)
    return shapes | _norm("feed_forward_residual/norm", own)


def _dense(name: str, num_inputs: int, num_outputs: int) -> Shapes:
    return {f"{name}/kernel": (num_inputs, num_outputs), f"{name}/bias": (num_outputs,)}


def _norm(name: str, own: ResolvedSide) -> Shapes:
    if own.norm_type == "rms":
        return {f"{name}/scale": (own.d_model,)}
    return {f"{name}/gamma": (own.d_model,), f"{name}/beta": (own.d_model,)}
