"""Harvard's Annotated Transformer as its text describes it, written anew in PyTorch.

Names of modules follow the text, since its checkpoints are known by them.
"""

import copy
import math

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.a_2 * centred / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class Sublayer(nn.Module):
    """x + sublayer(norm(x)), dropout left out."""

    def __init__(self, size):
        super().__init__()
        self.norm = LayerNorm(size)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))


class Attention(nn.Module):
    def __init__(self, heads, d_model):
        super().__init__()
        self.heads = heads
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, query, key, value, mask):
        batch, d_k = query.size(0), query.size(-1) // self.heads
        query, key, value = (
            linear(x).view(batch, -1, self.heads, d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
        weights = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9).softmax(dim=-1)
        x = (weights @ value).transpose(1, 2).reshape(batch, -1, self.heads * d_k)
        return self.linears[-1](x)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_2(self.w_1(x).relu())


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.d_model = d_model

    def forward(self, x):
        return self.lut(x) * math.sqrt(self.d_model)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * rates)
        pe[0, :, 1::2] = torch.cos(position * rates)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Layer(nn.Module):
    """Of the encoder, or of the decoder where there is attention to the source."""

    def __init__(self, size, self_attn, src_attn, feed_forward):
        super().__init__()
        self.self_attn = self_attn
        if src_attn is not None:
            self.src_attn = src_attn
        self.feed_forward = feed_forward
        count = 2 if src_attn is None else 3
        self.sublayer = nn.ModuleList([Sublayer(size) for _ in range(count)])

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        if memory is not None:
            x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, memory_mask))
        return self.sublayer[-1](x, self.feed_forward)


class Stack(nn.Module):
    def __init__(self, size, layer, number):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(number)])
        self.norm = LayerNorm(size)

    def forward(self, x, *arguments):
        for layer in self.layers:
            x = layer(x, *arguments)
        return self.norm(x)


class Generator(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return self.proj(x)  # the text goes on with a log-softmax


class EncoderDecoder(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, generator):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encoder(self.src_embed(src), src_mask)
        hidden = self.decoder(self.tgt_embed(tgt), tgt_mask, memory, src_mask)
        return self.generator(hidden)


def make_model(src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8):
    attention = Attention(h, d_model)
    feed_forward = FeedForward(d_model, d_ff)
    position = PositionalEncoding(d_model)
    encoder_layer = Layer(d_model, attention, None, feed_forward)
    decoder_layer = Layer(d_model, copy.deepcopy(attention), attention, feed_forward)
    model = EncoderDecoder(
        Stack(d_model, encoder_layer, N),
        Stack(d_model, decoder_layer, N),
        nn.Sequential(Embeddings(d_model, src_vocab), copy.deepcopy(position)),
        nn.Sequential(Embeddings(d_model, tgt_vocab), copy.deepcopy(position)),
        Generator(d_model, tgt_vocab),
    )
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return model
