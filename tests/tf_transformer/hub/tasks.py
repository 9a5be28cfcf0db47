"""Small tasks with random weights, and the inputs of their backbones."""

import dataclasses

import numpy as np

from tests.tf_transformer.storage.test_model_dir import (
    SOURCE_MODEL,
    TARGET_MODEL,
    make_config,
    make_model,
)
from tf_transformer import TransformerConfig
from tf_transformer.hub import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)

SOURCES = ["a red house", "a house", "red", "a rare sea hue"]
TARGETS = ["ein rotes Haus", "ein Haus", "rot", "ein Haus ist rot"]
SIZE_OF_JOINT = TransformerTokenizer(SOURCE_MODEL).vocabulary_size()

CONFIGS = {
    "separate vocabularies": dict(max_length=20),
    "joint vocabulary": dict(target_vocab_size=SIZE_OF_JOINT),
    "untied": dict(tied_embeddings="none", logits_bias=True),
    "every switch": dict(
        target_vocab_size=SIZE_OF_JOINT,
        tied_embeddings="inputs",
        norm_position="pre",
        norm_type="l1",
        positions="learned",
        relative_positions="keys_values",
        max_relative_distance=3,
        layer_history=True,
        activation="swiglu",
        trainable_embeddings=False,
        begin_embedding="zero",
        num_encoder_layers=2,
    ),
    "recurrent": dict(decoder_autoregression="ssru"),
    "two widths": dict(encoder=dict(d_model=12, norm_type="rms"), decoder=dict(cross_num_heads=4)),
}


def make_backbone(seed: int = 0, **settings) -> TransformerBackbone:
    """A backbone in which no weight has the value that it is made with."""
    config = make_config(**settings)
    backbone = TransformerBackbone(**dataclasses.asdict(config), dtype="float32")
    for weight, value in zip(
        backbone.transformer.weights, random_values(config, seed), strict=True
    ):
        weight.assign(value)
    return backbone


_VALUES: dict[tuple[str, int], list[np.ndarray]] = {}  # of `random_values`


def random_values(config: TransformerConfig, seed: int) -> list[np.ndarray]:
    """The weights of `make_model`, which is called once for each configuration."""
    key = repr(config), seed
    if key not in _VALUES:
        _VALUES[key] = make_model(config, seed).get_weights()
    return _VALUES[key]


def make_task(seed: int = 0, **settings) -> TransformerSeq2SeqLM:
    backbone = make_backbone(seed, **settings)
    config = backbone.transformer.config
    target_tokenizer = None
    if config.target_vocab_size != config.source_vocab_size:
        target_tokenizer = TransformerTokenizer(TARGET_MODEL, config_file="target_tokenizer.json")
    preprocessor = TransformerSeq2SeqLMPreprocessor(
        TransformerTokenizer(SOURCE_MODEL),
        target_tokenizer,
        encoder_sequence_length=config.max_length,
        decoder_sequence_length=config.max_length,
    )
    return TransformerSeq2SeqLM(backbone, preprocessor)


def backbone_inputs(source, target) -> dict[str, np.ndarray]:
    """The inputs of a backbone for ids padded with 0."""
    return {
        "encoder_token_ids": source,
        "encoder_padding_mask": (source != 0).astype("int32"),
        "decoder_token_ids": target,
        "decoder_padding_mask": (target != 0).astype("int32"),
    }
