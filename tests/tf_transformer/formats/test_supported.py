"""Each writer knows every setting that changes what a model computes.

A format that does not know a setting would hold another model without a word: whoever adds a
setting puts it into the writers' tables, or below.
"""

import dataclasses

import pytest

from tf_transformer.config import TransformerConfig
from tf_transformer.formats.writers import (
    ctranslate2_writer,
    hf_architectures,
    hf_t5_writer,
    marian_writer,
)

SETTINGS = {field.name for field in dataclasses.fields(TransformerConfig)}
# They change nothing that a trained model computes, or are the shapes of its weights.
EVERYWHERE = {
    *("source_vocab_size", "target_vocab_size", "num_encoder_layers", "num_decoder_layers"),
    *("d_model", "d_ff", "num_heads", "max_length", "decoder_only", "encoder", "decoder"),
    *("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"),
    *("trainable_embeddings", "depth_scaled_initialization", "alignment_head", "draft_heads"),
}
# They are written, or checked apart from the table.
WRITTEN = {"tied_embeddings", "logits_bias", "layer_norm_epsilon", "scaled_embeddings"}
BUCKETS = {"max_relative_distance", "relative_buckets"}  # written, or without effect
WRITERS = {
    "ctranslate2": (
        ctranslate2_writer._SUPPORTED,
        {"norm_position", "final_norm", "first_position", "begin_embedding", "source_end"},
    ),
    "marian": (marian_writer._SUPPORTED, {"norm_position", "final_norm", "decoder_autoregression"}),
    "t5": (
        hf_t5_writer._SUPPORTED,
        {"relative_positions", "head_dim", "first_position"},
    ),
    **{
        name.lower(): (
            getattr(hf_architectures, name).supported,
            {"first_position", "begin_embedding"},
        )
        for name in ("_MARIAN", "_M2M100", "_BART", "_MBART", "_PEGASUS")
    },
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_setting_is_known(name):
    table, apart = WRITERS[name]
    known = {*table, *apart, *EVERYWHERE, *WRITTEN, *BUCKETS}
    assert known == SETTINGS
