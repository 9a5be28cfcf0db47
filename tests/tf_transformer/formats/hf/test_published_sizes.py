"""OPUS-MT and NLLB with the settings and sizes of published models: imported, and translating."""

import itertools
import json
import math
import shutil

import numpy as np
import pytest

from benchmarks.import_memory import write_vocabulary
from tf_transformer import Translator, load_model
from tf_transformer.__main__ import main
from tf_transformer.config import TransformerConfig
from tf_transformer.formats.hf.weights import NAMES, SHARED_EMBEDDING, TARGET_EMBEDDING
from tf_transformer.formats.naming import reverted_shapes
from tf_transformer.formats.sentencepiece_ids import pieces_of
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.weight_shapes import weight_shapes

MODEL_NAME = "sentencepiece.bpe.model"
# The `config.json` of Helsinki-NLP/opus-mt-en-de.
OPUS_MT = {
    "_num_labels": 3, "activation_dropout": 0.0, "activation_function": "swish",
    "add_bias_logits": False, "add_final_layer_norm": False, "architectures": ["MarianMTModel"],
    "attention_dropout": 0.0, "bad_words_ids": [[58100]], "bos_token_id": 0,
    "classif_dropout": 0.0, "d_model": 512, "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0, "decoder_layers": 6,
    "decoder_start_token_id": 58100, "decoder_vocab_size": 58101, "dropout": 0.1,
    "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0,
    "encoder_layers": 6, "eos_token_id": 0, "forced_eos_token_id": 0,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "init_std": 0.02,
    "is_encoder_decoder": True, "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "max_length": 512, "max_position_embeddings": 512, "model_type": "marian",
    "normalize_before": False, "normalize_embedding": False, "num_beams": 6,
    "num_hidden_layers": 6, "pad_token_id": 58100, "scale_embedding": True,
    "share_encoder_decoder_embeddings": True, "static_position_embeddings": True,
    "transformers_version": "4.22.0.dev0", "use_cache": True, "vocab_size": 58101,
}  # fmt: skip
# That of facebook/nllb-200-distilled-600M.
NLLB = {
    "activation_dropout": 0.0, "activation_function": "relu",
    "architectures": ["M2M100ForConditionalGeneration"], "attention_dropout": 0.1,
    "bos_token_id": 0, "d_model": 1024, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
    "decoder_layerdrop": 0, "decoder_layers": 12, "decoder_start_token_id": 2, "dropout": 0.1,
    "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "encoder_layerdrop": 0,
    "encoder_layers": 12, "eos_token_id": 2, "init_std": 0.02, "is_encoder_decoder": True,
    "max_length": 200, "max_position_embeddings": 1024, "model_type": "m2m_100",
    "num_hidden_layers": 12, "pad_token_id": 1, "scale_embedding": True,
    "tokenizer_class": "NllbTokenizer", "torch_dtype": "float32",
    "transformers_version": "4.21.0.dev0", "use_cache": True, "vocab_size": 256206,
}  # fmt: skip


def write_weights(folder, settings, **extra):
    """Writes random weights as Transformers names them; returns their number."""
    size = settings["vocab_size"]
    config = TransformerConfig(
        source_vocab_size=size,
        target_vocab_size=size,
        num_encoder_layers=settings["encoder_layers"],
        num_decoder_layers=settings["decoder_layers"],
        d_model=settings["d_model"],
        d_ff=settings["encoder_ffn_dim"],
        num_heads=settings["encoder_attention_heads"],
        norm_position="pre" if settings["model_type"] == "m2m_100" else "post",
    )
    shapes = reverted_shapes(NAMES, weight_shapes(config))
    shapes[SHARED_EMBEDDING] = shapes.pop(TARGET_EMBEDDING)
    random = np.random.default_rng(1)
    arrays = (
        (name, np.ones(shape, "f4"))
        if name.endswith("norm.weight")
        else (name, random.standard_normal(shape, "f4") * np.float32(0.02))
        for name, shape in shapes.items()
    )
    both = shapes | {name: array.shape for name, array in extra.items()}
    write_safetensors(folder / "model.safetensors", both, itertools.chain(arrays, extra.items()))
    (folder / "config.json").write_text(json.dumps(settings))
    return sum(map(math.prod, shapes.values()))


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.large
def test_opus_mt(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    write_vocabulary(theirs, OPUS_MT["vocab_size"] + 5)
    model = (theirs / MODEL_NAME).read_bytes()
    for side in ("source", "target"):
        (theirs / f"{side}.spm").write_bytes(model)
    pieces = pieces_of(model)[3:]
    names = ["</s>", "<unk>", *pieces, "<pad>"]
    (theirs / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    number = write_weights(theirs, OPUS_MT, final_logits_bias=np.zeros((1, 58101), "f4"))
    assert number == 73_886_208
    assert main(["import", "--input", str(theirs), "--model-dir", str(tmp_path / "ours")]) == 0
    ours = load_model(tmp_path / "ours")
    assert ours[0].config.max_length == 512
    (translation,) = Translator(*ours, max_length_constant=10)(["A man sleeps."])
    assert translation


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.large
def test_nllb(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    write_vocabulary(theirs, NLLB["vocab_size"])
    assert write_weights(theirs, NLLB) == 615_073_792
    assert main(["import", "--input", str(theirs), "--model-dir", str(tmp_path / "ours")]) == 0
    shutil.rmtree(theirs)
    translator = Translator.load(tmp_path / "ours", max_length_constant=5)
    shutil.rmtree(tmp_path / "ours")
    (translation,) = translator([">>fra_Latn<< >>eng_Latn<< A man sleeps."])
    assert translation
