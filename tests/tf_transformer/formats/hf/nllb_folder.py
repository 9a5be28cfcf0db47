"""Writes small folders as NLLB is published, without Transformers."""

import json
import pathlib

import numpy as np
import sentencepiece

from tests.tf_transformer.formats.random_model import SOURCES, TARGETS
from tf_transformer.config import TransformerConfig
from tf_transformer.formats.hf.weights import NAMES
from tf_transformer.formats.naming import reverted_shapes
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.weight_shapes import weight_shapes

MODEL_NAME = "sentencepiece.bpe.model"
CODES = ["eng_Latn", "deu_Latn"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
NUM_PIECES = 120
# NLLB's names: the special pieces, those of the SentencePiece model, the codes, the mask.
NUM_NAMES = 1 + NUM_PIECES + len(CODES) + 1
NUM_ROWS = NUM_NAMES + 2


def write_nllb(folder: pathlib.Path, num_rows: int = NUM_ROWS) -> pathlib.Path:
    """Writes a folder with random weights, and returns it.

    Args:
        folder: the folder to create.
        num_rows: number of rows of the embeddings.
    """
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SOURCES, *TARGETS]),
        model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=NUM_PIECES,
        model_type="bpe",
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.vocab").unlink()
    settings = {
        "model_type": "m2m_100", "vocab_size": num_rows, "d_model": 16, "encoder_layers": 1,
        "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "activation_function": "relu",
        "scale_embedding": True, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        "max_position_embeddings": 64,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": CODES})
    )
    config = TransformerConfig(
        source_vocab_size=num_rows, target_vocab_size=num_rows, num_encoder_layers=1,
        num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2, norm_position="pre",
    )  # fmt: skip
    shapes = reverted_shapes(NAMES, weight_shapes(config))
    random = np.random.default_rng(1)
    arrays = {name: random.normal(0, 0.3, shape).astype("f4") for name, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", shapes, arrays.items())
    return folder
