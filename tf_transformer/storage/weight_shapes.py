"""The names and shapes of a model's weights, computed from its configuration.

With them, a file of weights is checked before memory is allocated for the file or the model.
"""

from tf_transformer.config import ResolvedSide, TransformerConfig
from tf_transformer.config_checks import GATED_ACTIVATIONS

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(config: TransformerConfig) -> Shapes:
    """Returns the shapes of all weights of the model that `make_model` returns, by name."""
    shapes = _stack("decoder", config)
    shapes |= _embedding("decoder", "target", config.target_vocab_size, config)
    width, vocab_size = config.side("decoder").d_model, config.target_vocab_size
    if not config.logits_tied:
        shapes["logits_projection/kernel"] = (width, vocab_size)
    if config.logits_bias:
        shapes["logits_bias" if config.logits_tied else "logits_projection/bias"] = (vocab_size,)
    if config.draft_heads:
        shapes |= _draft_heads(width, config.draft_heads)
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
        shapes[f"{name}_positions/vectors"] = (config.num_positions, width)
    if config.embedding_norm:
        shapes |= _norm(f"{name}_embedding_norm", config.side(side))
    return shapes


def _stack(side: str, config: TransformerConfig) -> Shapes:
    side_config = config.side(side)
    is_recurrent = side == "decoder" and config.decoder_autoregression == "ssru"
    layer = _ssru(side_config) if is_recurrent else _self_attention(side_config, config)
    layer |= _feed_forward(side_config, config)
    if side == "decoder" and not config.decoder_only:
        layer |= _cross_attention(side_config, config)
    num_layers = getattr(config, f"num_{side}_layers")
    shapes = {
        f"{side}/layer_{layer_index}/{name}": shape
        for layer_index in range(num_layers)
        for name, shape in layer.items()
    }
    if config.relative_positions == "buckets" and not is_recurrent:
        biases = (config.relative_buckets, side_config.num_heads)
        shapes[f"{side}/relative_bias/biases"] = biases
    if side_config.layer_history:
        for layer_index in range(num_layers):
            shapes[f"{side}/history/mix_{layer_index}"] = (layer_index + 2,)
            shapes |= _norm(f"{side}/history/norm_{layer_index}", side_config)
    if side_config.final_norm:
        shapes |= _norm(f"{side}/final_norm", side_config)
    return shapes


def _self_attention(side_config: ResolvedSide, config: TransformerConfig) -> Shapes:
    d_model, head_dim = side_config.d_model, side_config.head_dim_of(side_config.num_heads)
    width, has_bias = side_config.num_heads * head_dim, config.dense_bias
    shapes = _dense("self_attention/query_key_value", d_model, 3 * width, has_bias)
    shapes |= _dense("self_attention/output_projection", width, d_model, has_bias)
    shapes |= _norm("self_attention_residual/norm", side_config)
    vectors = (2 * config.max_relative_distance + 1, head_dim)
    if config.relative_positions in ("keys", "keys_values"):
        shapes["self_attention/relative_keys/vectors"] = vectors
    if config.relative_positions == "keys_values":
        shapes["self_attention/relative_values/vectors"] = vectors
    return shapes


def _ssru(side_config: ResolvedSide) -> Shapes:
    width = side_config.d_model
    shapes: Shapes = {"ssru/value_gate/kernel": (width, 2 * width), "ssru/gate_bias": (width,)}
    return shapes | _norm("ssru_residual/norm", side_config)


def _cross_attention(side_config: ResolvedSide, config: TransformerConfig) -> Shapes:
    d_model, num_heads = side_config.d_model, side_config.cross_num_heads
    width, has_bias = num_heads * side_config.head_dim_of(num_heads), config.dense_bias
    memory_width = config.side("encoder").d_model
    shapes = _dense("cross_attention/query", d_model, width, has_bias)
    shapes |= _dense("cross_attention/key_value", memory_width, 2 * width, has_bias)
    shapes |= _dense("cross_attention/output_projection", width, d_model, has_bias)
    return shapes | _norm("cross_attention_residual/norm", side_config)


def _feed_forward(side_config: ResolvedSide, config: TransformerConfig) -> Shapes:
    num_parts = 2 if config.activation in GATED_ACTIVATIONS else 1
    d_model, d_ff, has_bias = side_config.d_model, side_config.d_ff, config.dense_bias
    shapes = _dense("feed_forward/inner", d_model, num_parts * d_ff, has_bias)
    shapes |= _dense("feed_forward/outer", d_ff, d_model, has_bias)
    return shapes | _norm("feed_forward_residual/norm", side_config)


def _draft_heads(width: int, number: int) -> Shapes:
    shapes = _dense("draft_heads/joined", 2 * width, width)
    shapes |= _dense("draft_heads/query", width, number * width)
    shapes["draft_heads/attended/kernel"] = (width, width)
    shapes["draft_heads/draft_bias"] = (number, width)
    return shapes | _dense("draft_heads/outer", width, width)


def _dense(name: str, num_inputs: int, num_outputs: int, has_bias: bool = True) -> Shapes:
    kernel: Shapes = {f"{name}/kernel": (num_inputs, num_outputs)}
    return kernel | {f"{name}/bias": (num_outputs,)} if has_bias else kernel


def _norm(name: str, side_config: ResolvedSide) -> Shapes:
    if side_config.norm_type == "rms":
        return {f"{name}/scale": (side_config.d_model,)}
    return {f"{name}/gamma": (side_config.d_model,), f"{name}/beta": (side_config.d_model,)}
