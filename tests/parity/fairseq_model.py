"""fairseq's Transformer in PyTorch, with random weights in checkpoints as fairseq writes them.

fairseq has no wheel. This follows, in fairseq 0.12.2, `models/transformer/transformer_encoder.py`
(`forward_embedding`), `transformer_decoder.py` (`extract_features_scriptable`, `output_layer`,
`upgrade_state_dict_named`), `modules/transformer_layer.py` (`forward` of both layers),
`modules/sinusoidal_positional_embedding.py` (`get_embedding`), `utils.make_positions`,
`data/dictionary.py` (`encode_line`, `add_from_file`) and `trainer.py` (`state_dict`).
"""

import argparse
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional

PAD, END = 1, 2
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SIZES = dict(
    encoder_layers=2,
    decoder_layers=2,
    encoder_embed_dim=32,
    decoder_embed_dim=32,
    encoder_ffn_embed_dim=48,
    decoder_ffn_embed_dim=48,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_normalize_before=False,
    decoder_normalize_before=False,
    encoder_learned_pos=False,
    decoder_learned_pos=False,
    max_source_positions=60,
    max_target_positions=70,
    share_all_embeddings=False,
    share_decoder_input_output_embed=True,
    no_decoder_final_norm=False,
    activation_fn="relu",
    dropout=0.1,
    source_lang="en",
    target_lang="de",
    task="translation",
    arch="transformer",
)


class Attention(nn.Module):
    """`MultiheadAttention`, batch first."""

    def __init__(self, width, heads, memory_width=None):
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(memory_width or width, width)
        self.v_proj = nn.Linear(memory_width or width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, query, memory, mask):
        size = query.shape[-1] // self.heads

        def split(x):
            return x.unflatten(-1, (self.heads, size)).transpose(1, 2)

        scores = split(self.q_proj(query) * size**-0.5) @ split(self.k_proj(memory)).mT
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.out_proj((weights @ split(self.v_proj(memory))).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """`TransformerEncoderLayerBase`, or with cross-attention `TransformerDecoderLayerBase`."""

    def __init__(self, args, side):
        super().__init__()
        width = getattr(args, f"{side}_embed_dim")
        inner, heads = (
            getattr(args, f"{side}_ffn_embed_dim"),
            getattr(args, f"{side}_attention_heads"),
        )
        self.before = getattr(args, f"{side}_normalize_before")
        self.activation = {"relu": functional.relu, "gelu": functional.gelu}[args.activation_fn]
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        if side == "decoder":
            self.encoder_attn = Attention(width, heads, args.encoder_embed_dim)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def residual(self, x, norm, sublayer):
        return x + sublayer(norm(x)) if self.before else norm(x + sublayer(x))

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.residual(x, self.self_attn_layer_norm, lambda y: self.self_attn(y, y, mask))
        if memory is not None:
            x = self.residual(
                x,
                self.encoder_attn_layer_norm,
                lambda y: self.encoder_attn(y, memory, memory_mask),
            )
        return self.residual(
            x, self.final_layer_norm, lambda y: self.fc2(self.activation(self.fc1(y)))
        )


class Stack(nn.Module):
    """`TransformerEncoderBase` or `TransformerDecoderBase`."""

    def __init__(self, args, side, num_ids):
        super().__init__()
        self.width = width = getattr(args, f"{side}_embed_dim")
        self.register_buffer("version", torch.Tensor([3]))
        self.embed_tokens = nn.Embedding(num_ids, width, PAD)
        self.learned = getattr(args, f"{side}_learned_pos")
        if self.learned:
            length = getattr(args, f"max_{'source' if side == 'encoder' else 'target'}_positions")
            self.embed_positions = nn.Embedding(length + PAD + 1, width, PAD)
        self.layers = nn.ModuleList(
            Layer(args, side) for _ in range(getattr(args, f"{side}_layers"))
        )
        has_norm = getattr(args, f"{side}_normalize_before")
        if has_norm and not (side == "decoder" and args.no_decoder_final_norm):
            self.layer_norm = nn.LayerNorm(width)

    def embed(self, ids):
        positions = torch.cumsum(ids.ne(PAD).int(), 1) * ids.ne(PAD) + PAD  # make_positions
        half = self.width // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = positions[..., None].float() * rates
        sinusoids = torch.cat([angles.sin(), angles.cos()], -1)
        added = self.embed_positions(positions) if self.learned else sinusoids
        return math.sqrt(self.width) * self.embed_tokens(ids) + added

    def forward(self, ids, mask, memory=None, memory_mask=None):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, mask, memory, memory_mask)
        return self.layer_norm(x) if hasattr(self, "layer_norm") else x


class Transformer(nn.Module):
    """`TransformerModel`."""

    def __init__(self, args, source_size, target_size):
        super().__init__()
        self.encoder = Stack(args, "encoder", source_size)
        self.decoder = Stack(args, "decoder", target_size)
        self.decoder.output_projection = nn.Linear(args.decoder_embed_dim, target_size, bias=False)
        if args.share_all_embeddings:
            self.encoder.embed_tokens.weight = self.decoder.embed_tokens.weight
        if args.share_all_embeddings or args.share_decoder_input_output_embed:
            self.decoder.output_projection.weight = self.decoder.embed_tokens.weight

    def forward(self, source, target):
        """Computes logits from ids `(batch, length)`, padded on the right."""
        is_source = source.ne(PAD)[:, None, None]
        causal = torch.ones(target.shape[1], target.shape[1]).tril().bool()
        memory = self.encoder(source, is_source)
        hidden = self.decoder(target, causal & target.ne(PAD)[:, None, None], memory, is_source)
        return self.decoder.output_projection(hidden)


def make_model(args: argparse.Namespace, source_size: int, target_size: int) -> Transformer:
    """Returns a model with random weights, biases and gains too."""
    torch.manual_seed(1)
    module = Transformer(args, source_size, target_size).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:  # small embeddings, so that a token does not predict itself
                parameter.normal_(0, 0.1 if "embed_tokens" in name else 0.4)
    return module


def write_dictionary(path: pathlib.Path, entries: list[str]) -> list[str]:
    """Writes a dictionary as `Dictionary.save`, and returns all its entries."""
    entries = [*SPECIAL, *entries]
    number = 0
    while len(entries) % 8:  # pad_to_multiple_
        entries.append(f"madeupword{number:04d}")
        number += 1
    lines = [f"{entry} {0 if entry.startswith('madeupword') else 100}\n" for entry in entries[4:]]
    path.write_text("".join(lines), encoding="utf-8")
    return entries


def checkpoint_of(module: Transformer, args: argparse.Namespace, kind: str) -> dict:
    """Returns what `torch.save` gets.

    Args:
        module: the model.
        args: its settings.
        kind: "args", up to 0.9; "cfg", from 0.10; "hydra", trained with `fairseq-hydra-train`; or
            "old", with the names of 0.6.
    """
    settings = {"args": None, "cfg": {"model": args, "task": {"_name": args.task}}}
    values = vars(args)
    if kind in ("args", "old"):
        settings = {"args": args}
    else:
        languages = {name: values.get(name) for name in ("source_lang", "target_lang")}
        settings["cfg"]["task"] |= languages
    if kind == "hydra":
        settings["cfg"]["model"] = {**values, "_name": values["arch"], "task": None}
        for name in ("source_lang", "target_lang"):
            del settings["cfg"]["model"][name]
    weights = dict(module.state_dict())
    weights["encoder.embed_positions._float_tensor"] = torch.zeros(1)
    if kind == "old":
        weights = _with_old_names(weights)
    return settings | {
        "model": weights,
        "optimizer_history": [{"optimizer_name": "FairseqAdam", "num_updates": 3}],
        "extra_state": {"train_iterator": {"epoch": 1}, "val_loss": 1.5},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": []},
    }


def _with_old_names(weights):
    """As before `upgrade_state_dict_named`: one matrix of query, key and value; numbered norms."""
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    result = {}
    for name, value in weights.items():
        if ".q_proj." in name:
            parts = [weights[name.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            result[name.replace(".q_proj.", ".in_proj_")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            for number, norm in enumerate(norms[name.partition(".")[0]]):
                name = name.replace(f".{norm}.", f".layer_norms.{number}.")
            result[name] = value
    if (
        result.pop("decoder.output_projection.weight").data_ptr()
        != result["decoder.embed_tokens.weight"].data_ptr()
    ):
        result["decoder.embed_out"] = weights["decoder.output_projection.weight"]
    return result
