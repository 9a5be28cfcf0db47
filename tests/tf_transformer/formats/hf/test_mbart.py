"""What mBART's reader refuses; `tests/parity/test_hf_bart.py` compares what it reads."""

import json

import pytest

from tf_transformer.errors import InputError
from tf_transformer.formats.import_model import read_model

UNFITTING = "do not fit together: mBART starts with the code of the target"


@pytest.mark.parametrize(
    ("config", "tokenizer", "message"),
    [
        ({"decoder_start_token_id": 2, "tokenizer_class": "MBartTokenizer"}, {}, UNFITTING),
        ({"decoder_start_token_id": 2}, {"tokenizer_class": "MBartTokenizerFast"}, UNFITTING),
        ({"decoder_start_token_id": 250020}, {"tokenizer_class": "MBart50Tokenizer"}, UNFITTING),
        ({"tokenizer_class": "MBart50TokenizerFast"}, {}, UNFITTING),
        ({"decoder_start_token_id": 250020}, {}, "sentencepiece.bpe.model"),
        ({}, {}, "sentencepiece.bpe.model"),
        ({"decoder_start_token_id": "2"}, {}, "decoder_start_token_id: Input should be a valid"),
        (
            {"decoder_start_token_id": 2, "normalize_before": False},
            {},
            "normalize_before=False is not supported",
        ),
        ({"decoder_start_token_id": 2}, {}, "sentencepiece.bpe.model"),
    ],
)
def test_refused(tmp_path, config, tokenizer, message):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mbart"} | config))
    if tokenizer:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    with pytest.raises((InputError, FileNotFoundError), match=message):
        read_model(tmp_path)
