"""The settings that Marian stores with the weights."""

import pytest

from tests.tf_transformer.formats.marian.marian_files import SETTINGS, as_array, write_npz
from tf_transformer.formats.marian.settings import read_settings
from tf_transformer.formats.tensors.opening import open_tensors

# What Marian 1.12.42 itself stores: `pymarian train --type transformer --after-batches 20 --dim-emb
# 64 --transformer-dim-ffn 128 --transformer-heads 4 --enc-depth 2 --dec-depth 2 --dim-vocabs 500
# 500 --tied-embeddings-all --transformer-decoder-autoreg rnn --dec-cell ssru ...`
MARIANS = """\
bert-train-type-embeddings: true
bert-type-vocab-size: 2
dec-cell: ssru
dec-cell-base-depth: 2
dec-cell-high-depth: 1
dec-depth: 2
dim-emb: 64
dim-rnn: 1024
dim-vocabs:
  - 500
  - 500
enc-cell: gru
enc-cell-depth: 1
enc-depth: 2
enc-type: bidirectional
factors-combine: sum
factors-dim-emb: 0
input-types:
  []
layer-normalization: false
lemma-dependency: ""
lemma-dim-emb: 0
output-omit-bias: false
right-left: false
separator-symbol: "[eos]"
skip: false
tied-embeddings: false
tied-embeddings-all: true
tied-embeddings-src: false
transformer-aan-activation: swish
transformer-aan-depth: 2
transformer-aan-nogate: false
transformer-alibi-shift: false
transformer-alibi-trainable: false
transformer-attention-mask: default
transformer-decoder-autoreg: rnn
transformer-decoder-dim-ffn: 0
transformer-decoder-ffn-depth: 0
transformer-dim-aan: 2048
transformer-dim-ffn: 128
transformer-disable-position-embeddings: false
transformer-ffn-activation: swish
transformer-ffn-depth: 2
transformer-guided-alignment-layer: last
transformer-heads: 4
transformer-no-affine: false
transformer-no-bias: false
transformer-no-projection: false
transformer-pool: false
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-preprocess: ""
transformer-rnn-projection: false
transformer-tied-layers:
  []
transformer-train-position-embeddings: false
type: transformer
ulr: false
ulr-dim-emb: 0
ulr-trainable-transformation: false
version: v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, dict(tied_embeddings="all", decoder_autoregression="ssru", activation="swish")),
        ({"all: true": "all: false"}, dict(tied_embeddings="none")),
        (
            {"all: true": "all: false", "tied-embeddings: false": "tied-embeddings: true"},
            dict(tied_embeddings="target"),
        ),
        (
            {"all: true": "all: false", "-src: false": "-src: true"},
            dict(tied_embeddings="inputs"),
        ),
        ({": rnn": ": self-attention"}, dict(decoder_autoregression="self_attention")),
        ({"decoder-dim-ffn: 0": "decoder-dim-ffn: 96"}, dict(d_ff=128, decoder={"d_ff": 96})),
        (
            {'preprocess: ""': "preprocess: n", ": dan": ": da", 'top: ""': "top: n"},
            dict(norm_position="pre", final_norm=True),
        ),
        ({": dan": ": an", "emb: d": 'emb: ""'}, dict(norm_position="post", final_norm=False)),
        ({"ffn-activation: swish": "ffn-activation: relu"}, dict(activation="relu")),
        ({"transformer-tied-layers:\n  []": "transformer-tied-layers: ~"}, dict(num_heads=4)),
    ],
)  # fmt: skip
def test_settings(tmp_path, changes, expected):
    """Marian 1.12.42 adds NULs up to a multiple of 256 bytes."""
    text = MARIANS
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    write_npz(tmp_path / "model.npz", {SETTINGS: as_array(text + "\0" * 11)})
    settings, found = read_settings(open_tensors(tmp_path / "model.npz"))
    assert settings.dim_vocabs == [500, 500]
    assert found.items() >= expected.items()
    assert (found["num_encoder_layers"], found["num_decoder_layers"], found["d_model"]) == (
        2,
        2,
        64,
    )
