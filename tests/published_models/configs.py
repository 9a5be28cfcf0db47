"""The `config.json` of published models: what an import reads, and what it must not stumble over.

Each family has the settings of one model; the others are made from it by what they change.
"""

from typing import Any

Config = dict[str, Any]


def sizes(layers: int, d_model: int, heads: int, d_ff: int) -> Config:
    """Returns the settings of Transformers' relatives of BART, the same for both stacks."""
    return {
        "d_model": d_model, "num_hidden_layers": layers, "encoder_layers": layers,
        "decoder_layers": layers, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_ffn_dim": d_ff, "decoder_ffn_dim": d_ff,
    }  # fmt: skip


_COMMON = {
    "is_encoder_decoder": True, "init_std": 0.02, "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0, "dropout": 0.1, "use_cache": True, "scale_embedding": True,
}  # fmt: skip


def opus_mt(vocab_size: int, **changes: Any) -> Config:
    """Returns the settings of a bilingual model of OPUS-MT."""
    last = vocab_size - 1
    return _COMMON | sizes(6, 512, 8, 2048) | {
        "model_type": "marian", "architectures": ["MarianMTModel"], "vocab_size": vocab_size,
        "decoder_vocab_size": vocab_size, "activation_function": "swish",
        "activation_dropout": 0.0, "attention_dropout": 0.0, "add_bias_logits": False,
        "add_final_layer_norm": False, "normalize_before": False, "normalize_embedding": False,
        "static_position_embeddings": True, "share_encoder_decoder_embeddings": True,
        "bad_words_ids": [[last]], "pad_token_id": last, "decoder_start_token_id": last,
        "bos_token_id": 0, "eos_token_id": 0, "forced_eos_token_id": 0, "num_beams": 4,
        "max_length": 512, "max_position_embeddings": 512,
    } | changes  # fmt: skip


M2M100 = _COMMON | sizes(12, 1024, 16, 4096) | {
    "model_type": "m2m_100", "architectures": ["M2M100ForConditionalGeneration"],
    "vocab_size": 128112, "activation_function": "relu", "activation_dropout": 0.0,
    "attention_dropout": 0.1, "encoder_layerdrop": 0.05, "decoder_layerdrop": 0.05,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "max_position_embeddings": 1024, "early_stopping": None, "max_length": None,
    "num_beams": None, "gradient_checkpointing": False,
}  # fmt: skip
M2M100_GENERATION = {
    "_from_model_config": True, "bos_token_id": 0, "decoder_start_token_id": 2,
    "early_stopping": True, "eos_token_id": 2, "max_length": 200, "num_beams": 5,
    "pad_token_id": 1,
}  # fmt: skip
WMT21 = M2M100 | sizes(24, 2048, 32, 16384) | {"vocab_size": 128009}

NLLB = _COMMON | sizes(12, 1024, 16, 4096) | {
    "model_type": "m2m_100", "architectures": ["M2M100ForConditionalGeneration"],
    "tokenizer_class": "NllbTokenizer", "vocab_size": 256206, "activation_function": "relu",
    "activation_dropout": 0.0, "attention_dropout": 0.1, "encoder_layerdrop": 0,
    "decoder_layerdrop": 0, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "max_length": 200, "max_position_embeddings": 1024,
}  # fmt: skip

MBART50 = _COMMON | sizes(12, 1024, 16, 4096) | {
    "model_type": "mbart", "architectures": ["MBartForConditionalGeneration"],
    "tokenizer_class": "MBart50Tokenizer", "vocab_size": 250054, "activation_function": "relu",
    "activation_dropout": 0.0, "attention_dropout": 0.0, "add_bias_logits": False,
    "add_final_layer_norm": True, "normalize_before": True, "normalize_embedding": True,
    "static_position_embeddings": False, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2, "max_length": 200, "num_beams": 5,
    "early_stopping": True, "output_past": True, "max_position_embeddings": 1024,
}  # fmt: skip
MBART50_GENERATION = M2M100_GENERATION | {"forced_eos_token_id": 2}
MBART_CC25 = {
    name: value
    for name, value in MBART50.items()
    if name not in ("decoder_start_token_id", "tokenizer_class")
} | {
    "vocab_size": 250027, "activation_function": "gelu", "max_length": 1024,
    "task_specific_params": {"translation_en_to_ro": {"decoder_start_token_id": 250020}},
}  # fmt: skip

_SUMMARY = {
    "summarization": {
        "length_penalty": 2.0, "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3,
        "early_stopping": True, "num_beams": 4,
    },
}  # fmt: skip
BART = _COMMON | sizes(12, 1024, 16, 4096) | {
    "model_type": "bart", "architectures": ["BartForConditionalGeneration"],
    "vocab_size": 50265, "activation_function": "gelu", "activation_dropout": 0.1,
    "attention_dropout": 0.1, "scale_embedding": False, "add_bias_logits": False,
    "add_final_layer_norm": False, "normalize_before": False, "normalize_embedding": True,
    "static_position_embeddings": False, "bos_token_id": 0, "pad_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2,
    "no_repeat_ngram_size": 3, "num_beams": 4, "early_stopping": True,
    "max_position_embeddings": 1024, "task_specific_params": _SUMMARY,
}  # fmt: skip
BART_BASE = BART | sizes(6, 768, 12, 3072) | {
    "architectures": ["BartModel"], "forced_bos_token_id": 0,
}  # fmt: skip
BART_CNN = BART | {
    "vocab_size": 50264, "_num_labels": 3, "output_past": True, "extra_pos_embeddings": 0,
    "activation_dropout": 0.0, "attention_dropout": 0.0, "forced_bos_token_id": 0,
    "force_bos_token_to_be_generated": True, "length_penalty": 2.0, "max_length": 142,
    "min_length": 56,
}  # fmt: skip
BART_CNN_GENERATION = {
    "_from_model_config": True, "bos_token_id": 0, "decoder_start_token_id": 2,
    "early_stopping": True, "eos_token_id": 2, "forced_bos_token_id": 0,
    "forced_eos_token_id": 2, "length_penalty": 2.0, "max_length": 142, "min_length": 56,
    "no_repeat_ngram_size": 3, "num_beams": 4, "pad_token_id": 1,
}  # fmt: skip

PEGASUS = _COMMON | sizes(16, 1024, 16, 4096) | {
    "model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"],
    "vocab_size": 96103, "activation_function": "relu", "activation_dropout": 0.1,
    "attention_dropout": 0.1, "add_bias_logits": False, "add_final_layer_norm": True,
    "normalize_before": True, "normalize_embedding": False, "static_position_embeddings": True,
    "extra_pos_embeddings": 1, "force_bos_token_to_be_generated": False, "bos_token_id": 0,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1,
    "length_penalty": 0.8, "max_length": 256, "num_beams": 8, "max_position_embeddings": 1024,
}  # fmt: skip
PEGASUS_GENERATION = {
    "_from_model_config": True, "bos_token_id": 0, "decoder_start_token_id": 0,
    "eos_token_id": 1, "forced_eos_token_id": 1, "length_penalty": 0.8, "max_length": 128,
    "min_length": 32, "num_beams": 8, "pad_token_id": 0,
}  # fmt: skip


def indictrans(
    d_model: int, heads: int, d_ff: int, source_size: int, target_size: int, **changes: Any
) -> Config:
    """Returns the settings of IndicTrans2, whose stacks have 18 layers each."""
    return {name: value for name, value in _COMMON.items() if name != "dropout"} | {
        "model_type": "IndicTrans", "architectures": ["IndicTransForConditionalGeneration"],
        "tokenizer_class": "IndicTransTokenizer", "activation_function": "gelu", "dropout": 0.2,
        "activation_dropout": 0.0, "attention_dropout": 0.0, "attn_implementation": "eager",
        "encoder_embed_dim": d_model, "decoder_embed_dim": d_model, "encoder_ffn_dim": d_ff,
        "decoder_ffn_dim": d_ff, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_layers": 18, "decoder_layers": 18,
        "num_hidden_layers": 18, "encoder_normalize_before": True,
        "decoder_normalize_before": True, "layernorm_embedding": False,
        "share_decoder_input_output_embed": False, "encoder_vocab_size": source_size,
        "decoder_vocab_size": target_size, "max_source_positions": 256,
        "max_target_positions": 256, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 2,
    } | changes  # fmt: skip


_SEARCH = {"early_stopping": True, "max_length": 300, "num_beams": 4}
_TASKS = {
    "summarization": {
        "early_stopping": True, "length_penalty": 2.0, "max_length": 200, "min_length": 30,
        "no_repeat_ngram_size": 3, "num_beams": 4, "prefix": "summarize: ",
    },
    "translation_en_to_de": _SEARCH | {"prefix": "translate English to German: "},
    "translation_en_to_fr": _SEARCH | {"prefix": "translate English to French: "},
    "translation_en_to_ro": _SEARCH | {"prefix": "translate English to Romanian: "},
}  # fmt: skip


def t5(layers: int, d_model: int, heads: int, d_ff: int, d_kv: int = 64, **changes: Any) -> Config:
    """Returns the settings of T5, of its first version."""
    return {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": 32128, "d_model": d_model, "d_kv": d_kv, "d_ff": d_ff,
        "num_layers": layers, "num_heads": heads, "relative_attention_num_buckets": 32,
        "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "initializer_factor": 1.0,
        "is_encoder_decoder": True, "n_positions": 512, "output_past": True, "pad_token_id": 0,
        "eos_token_id": 1, "decoder_start_token_id": 0, "task_specific_params": _TASKS,
    } | changes  # fmt: skip


# The settings that the later versions of T5 add.
GATED = {
    "feed_forward_proj": "gated-gelu", "is_gated_act": True, "dense_act_fn": "gelu_new",
    "relative_attention_max_distance": 128, "classifier_dropout": 0.0,
    "tie_word_embeddings": False, "use_cache": True,
}  # fmt: skip


def mt5(layers: int, d_model: int, heads: int, d_ff: int) -> Config:
    """Returns the settings of mT5."""
    config = t5(layers, d_model, heads, d_ff) | GATED | {
        "model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"],
        "tokenizer_class": "T5Tokenizer", "vocab_size": 250112, "num_decoder_layers": layers,
    }  # fmt: skip
    for name in ("n_positions", "output_past", "task_specific_params"):
        del config[name]
    return config


MADLAD = t5(32, 1024, 16, 8192, 128) | GATED | {
    "vocab_size": 256000, "num_decoder_layers": 32, "pad_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 0, "task_specific_params": {},
}  # fmt: skip
