"""The names of weights in programs that define no file format of their own."""

from tf_transformer.formats.naming import Naming

# `make_model` of Harvard's Annotated Transformer.
ANNOTATED = Naming(
    layer="{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.src_attn",
    projections=tuple(f"{{attention}}.linears.{i}" for i in range(4)),
    norms={
        "encoder": ("{layer}.sublayer.0.norm", "", "{layer}.sublayer.1.norm"),
        "decoder": tuple(f"{{layer}}.sublayer.{i}.norm" for i in range(3)),
    },
    final_norm="{stack}.norm",
    inner="{layer}.feed_forward.w_1",
    outer="{layer}.feed_forward.w_2",
    matrix=".weight",
    vector=".bias",
    gain=".a_2",
    shift=".b_2",
    embeddings=("src_embed.0.lut.weight", "tgt_embed.0.lut.weight"),
    logits="generator.proj",
)

# `torch.nn.Transformer`, which has no embeddings and no projection to logits.
TORCH = Naming(
    layer="{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.multihead_attn",
    projections=(
        "{attention}.in_proj_[0/3]",
        "{attention}.in_proj_[1/3]",
        "{attention}.in_proj_[2/3]",
        "{attention}.out_proj.",
    ),
    norms={
        "encoder": ("{layer}.norm1", "", "{layer}.norm2"),
        "decoder": ("{layer}.norm1", "{layer}.norm2", "{layer}.norm3"),
    },
    final_norm="{stack}.norm",
    inner="{layer}.linear1.",
    outer="{layer}.linear2.",
    matrix="weight",
    vector="bias",
    gain=".weight",
    shift=".bias",
)

# The model of NiuTensor's article, with names of this project. Query, key and value are fused, and
# matrices are not transposed.
NIUTENSOR = Naming(
    layer="{stack}.{index}",
    self_attention="{layer}.self_attention",
    cross_attention="{layer}.cross_attention",
    projections=(
        *(f"{{attention}}.query_key_value[{i}/3]" for i in range(3)),
        "{attention}.output",
    ),
    norms={
        stack: (
            "{layer}.self_attention_norm",
            "{layer}.cross_attention_norm",
            "{layer}.feed_forward_norm",
        )
        for stack in ("encoder", "decoder")
    },
    final_norm="{stack}.norm",
    inner="{layer}.inner",
    outer="{layer}.outer",
    matrix=".weight",
    vector=".bias",
    gain=".weight",
    shift=".bias",
    embeddings=("source.embedding", "target.embedding"),
    logits="output",
    transposed=False,
)
