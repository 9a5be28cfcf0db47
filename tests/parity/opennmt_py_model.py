"""OpenNMT-py's Transformer in PyTorch, with random weights in checkpoints as it writes them.

Its dependencies do not install beside this project's. This follows, in OpenNMT-py 3.5.1,
`modules/embeddings.py` (`PositionalEncoding`, `Embeddings.forward`), `modules/multi_headed_attn.py`
(`gen_relative_positions`, `relative_matmul`, `forward`), `modules/position_ffn.py` (`forward`),
`encoders/transformer.py` and `decoders/transformer.py` (`forward` of layers and stacks),
`inputters/text_utils.py` (`numericalize`) and `models/model_saver.py` (`_save`, `_st_save`).
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional

SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]
UNKNOWN, PAD, BEGIN, END = range(4)
OPTIONS = dict(
    model_type="text",
    model_task="seq2seq",
    encoder_type="transformer",
    decoder_type="transformer",
    layers=-1,
    enc_layers=2,
    dec_layers=2,
    heads=4,
    hidden_size=32,
    transformer_ff=48,
    position_encoding=True,
    position_encoding_type="SinusoidalInterleaved",
    max_relative_positions=0,
    pos_ffn_activation_fn="relu",
    self_attn_type="scaled-dot-flash",
    add_qkvbias=False,
    add_ffnbias=True,
    layer_norm="standard",
    norm_eps=1e-6,
    share_embeddings=False,
    share_decoder_embeddings=True,
    copy_attn=False,
    dropout=[0.1],
    attention_dropout=[0.2],
    lora_layers=[],
)
ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "gated-gelu": functional.gelu,
}
GATED = ("silu", "gated-gelu")


class Embeddings(nn.Module):
    """`Embeddings`, without features of words."""

    def __init__(self, opt, num_tokens):
        super().__init__()
        width = opt.hidden_size
        self.make_embedding = nn.Module()
        self.make_embedding.emb_luts = nn.ModuleList([nn.Embedding(num_tokens, width, PAD)])
        self.scale = math.sqrt(width) if opt.position_encoding else 1
        if opt.position_encoding:
            self.make_embedding.pe = nn.Module()
            table = positions(opt.position_encoding_type, 5000, width)[:, None]
            self.make_embedding.pe.register_buffer("pe", table)

    def forward(self, ids):
        vectors = self.make_embedding.emb_luts[0](ids) * self.scale
        if self.scale == 1:
            return vectors
        return vectors + self.make_embedding.pe.pe[: ids.shape[1], 0]


def positions(kind, length, width):
    """Returns a table of sinusoids."""
    places = torch.arange(length)[:, None].float()
    if kind == "SinusoidalInterleaved":
        angles = places * torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    half = width // 2
    angles = places * torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):
    """`MultiHeadedAttention`."""

    def __init__(self, opt, relative=0):
        super().__init__()
        width, self.heads = opt.hidden_size, opt.heads
        for name in ("linear_keys", "linear_values", "linear_query", "final_linear"):
            setattr(self, name, nn.Linear(width, width, bias=opt.add_qkvbias))
        self.relative = relative
        if relative:
            size = width // self.heads
            self.relative_positions_embeddings = nn.Embedding(2 * relative + 1, size)

    def forward(self, query, memory, mask):
        def split(x):
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        query, keys, values = (
            split(layer(x))
            for layer, x in (
                (self.linear_query, query),
                (self.linear_keys, memory),
                (self.linear_values, memory),
            )
        )
        query = query / math.sqrt(query.shape[-1])
        scores = query @ keys.mT
        if self.relative:
            places = torch.arange(keys.shape[2])
            distances = (places[None] - places[:, None]).clamp(-self.relative, self.relative)
            vectors = self.relative_positions_embeddings(distances + self.relative)
            scores = scores + torch.einsum("bhqd,qkd->bhqk", query, vectors)
        weights = scores.masked_fill(~mask, -1e18).softmax(-1)
        context = weights @ values
        if self.relative:
            context = context + torch.einsum("bhqk,qkd->bhqd", weights, vectors)
        return self.final_linear(context.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """`PositionwiseFeedForward`."""

    def __init__(self, opt):
        super().__init__()
        width, inner = opt.hidden_size, opt.transformer_ff
        self.w_1 = nn.Linear(width, inner, bias=opt.add_ffnbias)
        self.w_2 = nn.Linear(inner, width, bias=opt.add_ffnbias)
        self.gated = opt.pos_ffn_activation_fn in GATED
        if self.gated:
            self.w_3 = nn.Linear(width, inner, bias=opt.add_ffnbias)
        self.layer_norm = nn.LayerNorm(width, eps=opt.norm_eps)
        self.activation = ACTIVATIONS[opt.pos_ffn_activation_fn]

    def forward(self, x):
        normed = self.layer_norm(x)
        inner = self.activation(self.w_1(normed))
        return self.w_2(inner * self.w_3(normed) if self.gated else inner) + x


class EncoderLayer(nn.Module):
    """`TransformerEncoderLayer`."""

    def __init__(self, opt):
        super().__init__()
        self.self_attn = Attention(opt, opt.max_relative_positions)
        self.feed_forward = FeedForward(opt)
        self.layer_norm = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)

    def forward(self, x, mask):
        normed = self.layer_norm(x)
        return self.feed_forward(self.self_attn(normed, normed, mask) + x)


class DecoderLayer(nn.Module):
    """`TransformerDecoderLayer`."""

    def __init__(self, opt):
        super().__init__()
        self.self_attn = Attention(opt, opt.max_relative_positions)
        self.context_attn = Attention(opt)
        self.feed_forward = FeedForward(opt)
        self.layer_norm_1 = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)
        self.layer_norm_2 = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)

    def forward(self, x, mask, memory, memory_mask):
        normed = self.layer_norm_1(x)
        x = self.self_attn(normed, normed, mask) + x
        x = self.context_attn(self.layer_norm_2(x), memory, memory_mask) + x
        return self.feed_forward(x)


class Transformer(nn.Module):
    """`NMTModel` with its generator."""

    def __init__(self, opt, source_size, target_size):
        super().__init__()
        self.encoder, self.decoder = nn.Module(), nn.Module()
        for stack, size in ((self.encoder, source_size), (self.decoder, target_size)):
            stack.embeddings = Embeddings(opt, size)
            stack.layer_norm = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)
        self.encoder.transformer = nn.ModuleList(EncoderLayer(opt) for _ in range(opt.enc_layers))
        self.decoder.transformer_layers = nn.ModuleList(
            DecoderLayer(opt) for _ in range(opt.dec_layers)
        )
        self.generator = nn.Linear(opt.hidden_size, target_size)
        stacks = (self.encoder, self.decoder)
        tables = [stack.embeddings.make_embedding.emb_luts[0] for stack in stacks]
        if opt.share_embeddings:
            tables[0].weight = tables[1].weight
        if opt.share_decoder_embeddings:
            self.generator.weight = tables[1].weight

    def forward(self, source, target):
        """Computes logits from ids `(batch, length)`, padded on the right."""
        is_source = source.ne(PAD)[:, None, None]
        memory = self.encoder.embeddings(source)
        for layer in self.encoder.transformer:
            memory = layer(memory, is_source)
        memory = self.encoder.layer_norm(memory)
        causal = torch.ones(target.shape[1], target.shape[1]).tril().bool()
        hidden = self.decoder.embeddings(target)
        for layer in self.decoder.transformer_layers:
            hidden = layer(hidden, causal & target.ne(PAD)[:, None, None], memory, is_source)
        return self.generator(self.decoder.layer_norm(hidden))


def make_model(opt: argparse.Namespace, source_size: int, target_size: int) -> Transformer:
    """Returns a model with random weights, biases and gains too."""
    torch.manual_seed(1)
    module = Transformer(opt, source_size, target_size).eval()
    scaled = 0.1 if opt.position_encoding else 0.5
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:  # small embeddings, so that a token does not predict itself
                parameter.normal_(0, scaled if "emb_luts" in name else 0.4)
    return module


def checkpoint_of(
    module: Transformer, opt: argparse.Namespace, vocabularies: list[list[str]]
) -> dict:
    """Returns what `torch.save` gets."""
    weights = module.state_dict()
    source, target = vocabularies
    return {
        "model": {name: value for name, value in weights.items() if "generator" not in name},
        "generator": dict(module.generator.state_dict()),
        "vocab": {
            "src": source,
            "tgt": target,
            "data_task": "seq2seq",
            "decoder_start_token": getattr(opt, "decoder_start_token", "<s>"),
        },
        "opt": opt,
        "optim": {"training_step": 5, "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}}},
    }


def with_old_names(state: dict) -> dict:
    """Returns a checkpoint with the names of version 2."""

    def renamed(name):
        if "layer_norm" not in name:
            return name
        return name.removesuffix("weight").removesuffix("bias") + (
            "a_2" if name.endswith("weight") else "b_2"
        )

    model = {renamed(name): value for name, value in state["model"].items()}
    generator = {f"0.{name}": value for name, value in state["generator"].items()}
    options = {name: value for name, value in vars(state["opt"]).items() if "bias" not in name}
    return state | {
        "model": model,
        "generator": generator,
        "opt": argparse.Namespace(**options, rnn_size=options.pop("hidden_size")),
    }
