"""Marian's own program with the weights of a model of this project, its SSRU decoder included.

Needs `pip install pymarian` (600 MB), which the extra `parity` does not contain.
"""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.decoding.beam_search import SearchOptions, beam_search
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.layers.masks import padding_mask
from tf_transformer.losses.label_smoothing import cross_entropy
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, SUPPRESSED_IDS

pytestmark = [
    pytest.mark.parity,
    pytest.mark.slow,
    # Imported, its library of 1 GB would be in this process, next to TensorFlow's.
    pytest.mark.skipif(importlib.util.find_spec("pymarian") is None, reason="needs pymarian"),
]

WORDS = ["a", "b", "c", "d", "e", "f", "g"]
FIRST_WORD_ID = 4
VOCAB = FIRST_WORD_ID + len(WORDS)
# Marian has neither padding nor a begin token; its ids are </s>, <unk>, words.
OUR_IDS = [END_ID, 1, *range(FIRST_WORD_ID, VOCAB)]
SOURCES = ["a b c d e f", "g f", "d", "a a a b g e c d f"]
TARGETS = ["c c b a g f d e a", "a", "b e e d", "g"]
SIZES = dict(
    source_vocab_size=VOCAB,
    target_vocab_size=VOCAB,
    num_encoder_layers=2,
    num_decoder_layers=2,
    d_model=16,
    d_ff=24,
    num_heads=4,
)


def make_model(rng, **settings):
    config = TransformerConfig(
        **SIZES,
        **settings,
        positions="concatenated",
        tied_embeddings="none",  # tied random embeddings would repeat their input
        begin_embedding="zero",
    )
    model = Transformer(config)
    for weight in model.weights:
        if weight.name == "gamma":
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif "float" in weight.dtype:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    bias = np.array(model.logits_projection.bias)
    bias[[PAD_ID, BEGIN_ID]] = -1e9  # what Marian does not have is impossible
    model.logits_projection.bias.assign(bias)
    return model


def marian_arrays(model):
    """The weights by Marian's names (its src/models/transformer.h and src/rnn/cells.h)."""
    arrays = {
        "encoder_Wemb": np.array(model.source_embedding.embeddings)[OUR_IDS],
        "decoder_Wemb": np.array(model.target_embedding.embeddings)[OUR_IDS],
        "decoder_ff_logit_out_W": np.array(model.logits_projection.kernel)[:, OUR_IDS],
        "decoder_ff_logit_out_b": np.array(model.logits_projection.bias)[None, OUR_IDS],
    }

    def put_dense(name, suffixes, layer):
        parts = (np.split(np.array(w), len(suffixes), axis=-1) for w in (layer.kernel, layer.bias))
        for suffix, kernel, bias in zip(suffixes, *parts, strict=True):
            arrays[f"{name}_W{suffix}"], arrays[f"{name}_b{suffix}"] = kernel, bias[None]

    def put_norm(name, norm):
        arrays[f"{name}_ln_scale"], arrays[f"{name}_ln_bias"] = (
            np.array(weight)[None] for weight in (norm.gamma, norm.beta)
        )

    def put_residual(pre_name, post_name, residual):
        if residual.norm_position == "post":
            put_norm(post_name, residual.norm)
            return
        put_norm("new", residual.norm)
        for kind in ("ln_scale", "ln_bias"):
            arrays[f"{pre_name}_{kind}_pre"] = arrays.pop(f"new_{kind}")

    def put_attention(name, attention, residual):
        if hasattr(attention, "query_key_value"):
            put_dense(name, "qkv", attention.query_key_value)
        else:
            put_dense(name, "q", attention.query)
            put_dense(name, "kv", attention.key_value)
        put_dense(name, "o", attention.output_projection)
        put_residual(f"{name}_Wo", f"{name}_Wo", residual)

    def put_ssru(name, layer, residual):
        arrays[f"{name}_W"], arrays[f"{name}_Wf"] = np.split(
            np.array(layer.value_gate.kernel), 2, axis=1
        )
        arrays[f"{name}_bf"] = np.array(layer.gate_bias)[None]
        put_residual(name, f"{name}_ffn", residual)

    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(stack.stacked_layers, start=1):
            name = f"{side}_l{number}"
            if hasattr(layer, "ssru"):
                put_ssru(f"{name}_rnn", layer.ssru, layer.ssru_residual)
            else:
                put_attention(f"{name}_self", layer.self_attention, layer.self_attention_residual)
            if side == "decoder":
                put_attention(
                    f"{name}_context", layer.cross_attention, layer.cross_attention_residual
                )
            put_dense(f"{name}_ffn", "1", layer.feed_forward.inner)
            put_dense(f"{name}_ffn", "2", layer.feed_forward.outer)
            put_residual(f"{name}_ffn_ffn", f"{name}_ffn_ffn", layer.feed_forward_residual)
        if stack.final_norm is not None:
            put_norm(f"{side}_top", stack.final_norm)
    return arrays


def write_marian(model, folder):
    config = model.config
    is_pre = config.norm_position == "pre"
    description = {
        "type": "transformer",
        "version": "v1.12.0",
        "dim-vocabs": [len(OUR_IDS)] * 2,
        "dim-emb": config.d_model,
        "enc-depth": config.num_encoder_layers,
        "dec-depth": config.num_decoder_layers,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-activation": config.activation,
        "transformer-preprocess": "n" if is_pre else "",
        "transformer-postprocess": "da" if is_pre else "dan",
        "transformer-postprocess-top": "n" if is_pre else "",
        "transformer-decoder-autoreg": (
            "rnn" if config.decoder_autoregression == "ssru" else "self-attention"
        ),
        "dec-cell": "ssru",
    }
    text = json.dumps(description).encode() + b"\0"  # JSON is YAML
    arrays = marian_arrays(model) | {"special:model.yml": np.frombuffer(text, np.int8)}
    # Marian refuses arrays in column-major order.
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    np.savez(folder / "model.npz", **arrays)
    pieces = ["</s>", "<unk>", *WORDS]
    (folder / "vocab.yml").write_text("".join(f"{p}: {i}\n" for i, p in enumerate(pieces)))
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (folder / name).write_text("\n".join(lines) + "\n")


def run_marian(folder, command, *options):
    """The lines that Marian prints."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pymarian", command, "-m", "model.npz"),
            *("--vocabs", "vocab.yml", "vocab.yml", "--cpu-threads", "1", "--quiet"),
            *("--workspace", "64", *options),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def ids_of(lines, begin=(), end=()):
    rows = [
        [*begin, *(FIRST_WORD_ID + WORDS.index(w) for w in line.split()), *end] for line in lines
    ]
    return tf.ragged.constant(rows, dtype=tf.int32).to_tensor(PAD_ID)


def greedy_translations(model, source, max_length):
    mask = padding_mask(source)
    decoder = IncrementalDecoder(model)
    found = beam_search(
        decoder,
        decoder.start(len(SOURCES), model.encode(source), mask),
        beam_size=1,
        begin_id=BEGIN_ID,
        end_ids=(END_ID,),
        options=SearchOptions(tf.fill([len(SOURCES)], max_length)),
        suppressed_ids=SUPPRESSED_IDS,
    )
    rows = zip(found.ids[:, 0].numpy(), found.lengths[:, 0].numpy(), strict=True)
    return [" ".join(WORDS[token - FIRST_WORD_ID] for token in row[:n]) for row, n in rows]


# The seeds give translations that differ.
@pytest.mark.parametrize(
    ("autoregression", "norm_position", "seed"),
    [
        ("self_attention", "post", 1),
        ("self_attention", "pre", 1),
        ("ssru", "post", 2),
        ("ssru", "pre", 1),
    ],
)
def test_marian_computes_the_same(autoregression, norm_position, seed, tmp_path):
    model = make_model(
        np.random.default_rng(seed),
        decoder_autoregression=autoregression,
        norm_position=norm_position,
    )
    write_marian(model, tmp_path)
    # 1. all positions at once: log-probabilities of given targets
    source, labels = ids_of(SOURCES, end=[END_ID]), ids_of(TARGETS, end=[END_ID])
    logits = model({"source": source, "target": ids_of(TARGETS, begin=[BEGIN_ID])})
    log_probs = tf.where(padding_mask(labels), -cross_entropy(labels, logits), 0.0)
    expected = [float(line) for line in run_marian(tmp_path, "score", "-t", "source", "target")]
    np.testing.assert_allclose(tf.reduce_sum(log_probs, axis=1), expected, atol=1e-4)
    # 2. step by step: greedy search
    if (autoregression, norm_position) == ("self_attention", "pre"):
        # Marian 1.12.42 decodes with keys that are not normalized, unlike its scorer: in
        # `LayerAttention`, `keys` is the input only as long as there are no earlier tokens.
        return
    ours = greedy_translations(model, source, 15)
    options = ("--beam-size", "1", "--input", "source", "--max-length-factor", "100")
    theirs = [" ".join(line.split()[:15]) for line in run_marian(tmp_path, "decode", *options)]
    assert ours == theirs
    assert len(set(ours)) > 2
