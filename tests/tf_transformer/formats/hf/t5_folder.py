"""Writes small folders as T5 is published, without Transformers."""

import json
import pathlib

import numpy as np
import sentencepiece

from tests.tf_transformer.formats.random_model import SOURCES, TARGETS
from tf_transformer.config import TransformerConfig
from tf_transformer.formats.hf.t5_weights import published_name, t5_names
from tf_transformer.formats.naming import reverted_shapes
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.weight_shapes import weight_shapes

MODEL_NAME = "spiece.model"
NUM_PIECES, NUM_SENTINELS, NUM_ROWS = 120, 3, 128
SETTINGS = {
    "model_type": "t5", "vocab_size": NUM_ROWS, "d_model": 16, "d_kv": 6, "d_ff": 24,
    "num_layers": 1, "num_heads": 2, "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16, "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False, "pad_token_id": 0, "eos_token_id": 1,
    "decoder_start_token_id": 0, "n_positions": 64,
    "task_specific_params": {"translation_en_to_de": {"prefix": "translate English to German: "}},
}  # fmt: skip


def write_t5(folder: pathlib.Path, **settings) -> dict[str, np.ndarray]:
    """Writes a folder with random weights, and returns these.

    Args:
        folder: the folder to create.
        **settings: settings that replace `SETTINGS`.
    """
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SOURCES, *TARGETS]),
        model_prefix=str(folder / "spiece"),
        vocab_size=NUM_PIECES,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    (folder / "config.json").write_text(json.dumps(SETTINGS | settings))
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": NUM_SENTINELS}))
    config = TransformerConfig(
        source_vocab_size=NUM_ROWS, target_vocab_size=NUM_ROWS, num_encoder_layers=1,
        num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2, head_dim=6, norm_position="pre",
        norm_type="rms", dense_bias=False, activation="geglu_tanh", positions="none",
        relative_positions="buckets", relative_buckets=8, max_relative_distance=16,
        tied_embeddings="inputs", logits_bias=False,
    )  # fmt: skip
    shapes = reverted_shapes(t5_names(is_gated=True), weight_shapes(config))
    shapes = {published_name(name): shape for name, shape in shapes.items()}
    random = np.random.default_rng(1)
    arrays = {name: random.normal(0, 0.3, shape).astype("f4") for name, shape in shapes.items()}
    write_weights(folder, arrays)
    return arrays


def write_weights(folder: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes the file of the weights."""
    shapes = {name: array.shape for name, array in arrays.items()}
    write_safetensors(folder / "model.safetensors", shapes, arrays.items())
