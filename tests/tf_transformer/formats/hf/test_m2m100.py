"""Damaged, foreign and unsupported folders of M2M100 and NLLB: one line, and no files."""

import json
import shutil

import numpy as np
import pytest
import sentencepiece

from tests.tf_transformer.formats.hf.test_marian import edit_json, edit_weights, without
from tests.tf_transformer.formats.random_model import SOURCES, TARGETS
from tf_transformer.config import TransformerConfig
from tf_transformer.formats.hf.m2m100 import HFM2M100
from tf_transformer.formats.hf.weights import NAMES
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.naming import reverted_shapes
from tf_transformer.formats.recognition import find_format
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.text.vocabulary import Vocabulary

MODEL_NAME = "sentencepiece.bpe.model"
CODES = ["eng_Latn", "deu_Latn"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
NUM_PIECES = 120
# NLLB's names: the special pieces, those of the SentencePiece model, the codes, the mask.
NUM_NAMES = 1 + NUM_PIECES + len(CODES) + 1
NUM_ROWS = NUM_NAMES + 2


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder as NLLB is published, written without Transformers."""
    folder = tmp_path_factory.mktemp("m2m100") / "theirs"
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
        "model_type": "m2m_100", "vocab_size": NUM_ROWS, "d_model": 16, "encoder_layers": 1,
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
        source_vocab_size=NUM_ROWS, target_vocab_size=NUM_ROWS, num_encoder_layers=1,
        num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2, norm_position="pre",
    )  # fmt: skip
    shapes = reverted_shapes(NAMES, weight_shapes(config))
    random = np.random.default_rng(1)
    arrays = {name: random.normal(0, 0.3, shape).astype("f4") for name, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", shapes, arrays.items())
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "theirs")


def write_tokenizer(change):
    """Writes a `tokenizer.json` with the ids of the folder, changed."""

    def write(folder):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL_NAME))
        pieces = [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]
        content = {
            "model": {"vocab": {name: i for i, name in enumerate([*SPECIAL, *pieces])}},
            "added_tokens": [
                {"id": 1 + NUM_PIECES + i, "content": name}
                for i, name in enumerate(["<mask>", *CODES])
            ],
        }
        change(content)
        (folder / "tokenizer.json").write_text(json.dumps(content))

    return write


def write_text(name, text):
    return lambda folder: (folder / name).write_text(text)


def alone(change):
    """Writes a `tokenizer.json` as Transformers 5 does, changed, without a SentencePiece model."""

    def complete(content):
        content["model"] |= {"type": "BPE", "merges": [["a", "b"], "c d"]}
        content["pre_tokenizer"] = {"type": "Metaspace"}
        change(content)

    def write(folder):
        write_tokenizer(complete)(folder)
        (folder / MODEL_NAME).unlink()

    return write


def set_table(content, table):
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": table}


FAULTS = {
    "another pre-tokenizer": (
        alone(lambda content: content.update(pre_tokenizer={"type": "ByteLevel"})),
        "expected pre_tokenizer.type='Metaspace', as of NLLB. Received: 'ByteLevel'",
    ),
    "no pre-tokenizer": (
        alone(lambda content: content.pop("pre_tokenizer")),
        "expected an object 'pre_tokenizer', got None",
    ),
    "another model of pieces": (
        alone(lambda content: content["model"].update(type="Unigram")),
        "expected model.type='BPE'",
    ),
    "a merge of three": (
        alone(lambda content: content["model"]["merges"].append("a b c")),
        "expected pairs as model.merges, got 'a b c'",
    ),
    "no merges": (
        alone(lambda content: content["model"].pop("merges")),
        "expected pairs as model.merges, got None",
    ),
    "another normalizer": (
        alone(lambda content: content.update(normalizer={"type": "Lowercase"})),
        "the normalizer {'type': 'Lowercase'} is not supported",
    ),
    "no base64": (
        alone(lambda content: set_table(content, "?")),
        "expected a table in base64",
    ),
    "a damaged table": (
        alone(lambda content: set_table(content, "AAAA////")),
        r"tokenizer\.json: Not a SentencePiece model",
    ),
    "no SentencePiece model": (lambda folder: (folder / MODEL_NAME).unlink(), "sentencepiece.bpe"),
    "a damaged SentencePiece model": (write_text(MODEL_NAME, "\xff" * 9), "Not a SentencePiece"),
    "no codes": (
        write_text("special_tokens_map.json", "{}"),
        "no codes of languages; expected extra_special_tokens or additional_special_tokens in",
    ),
    "codes of another kind": (
        edit_json("special_tokens_map.json", additional_special_tokens=["eng Latn"]),
        r"special_tokens_map\.json: no file states the id of 'eng Latn'",
    ),
    "codes that are lists": (
        edit_json("special_tokens_map.json", additional_special_tokens=[["eng_Latn"], {}]),
        r"expected the code of a language. Received: \['eng_Latn'\]",
    ),
    "a code twice": (
        edit_json("special_tokens_map.json", additional_special_tokens=["fra_Latn", "fra_Latn"]),
        "expected the code of each language once",
    ),
    "more names than rows": (
        edit_json(
            "special_tokens_map.json",
            additional_special_tokens=["aa", "ab", "ac", "ad", "ae", "af"],
        ),
        f"the tokenizer has {NUM_NAMES + 4} ids, more than vocab_size={NUM_ROWS}",
    ),
    "a matrix one short": (
        edit_json("config.json", vocab_size=NUM_ROWS - 1),
        rf"a row for each of the {NUM_ROWS - 1} entries of the vocabulary, got the shape",
    ),
    "unscaled embeddings": (edit_json("config.json", scale_embedding=False), "scale_embedding"),
    "another pad": (
        edit_json("config.json", pad_token_id=0),
        "pad_token_id must be the id of <pad>. Rec",
    ),
    "another start": (
        edit_json("config.json", decoder_start_token_id=10**6),
        "decoder_start_token_id must be the id of </s>. Received: 1000000",
    ),
    "a missing weight": (
        without("model.decoder.layer_norm.bias"),
        r"No weight 'model\.decoder\.layer_norm\.bias'",
    ),
    "a weight too many": (
        edit_weights(lambda arrays: arrays | {"model.encoder.moe": np.zeros(3, "float32")}),
        r"no weights for model\.encoder\.moe",
    ),
    "a tokenizer without ids": (
        write_tokenizer(lambda content: content.update(model=[])),
        "ids of pieces as model.vocab",
    ),
    "a tokenizer with a gap": (
        write_tokenizer(lambda content: content["added_tokens"].pop(0)),
        rf"each once; {1 + NUM_PIECES} is missing",
    ),
    "a tokenizer with ids that are no numbers": (
        write_tokenizer(lambda content: content["model"]["vocab"].update(a=[1], b={})),
        "expected names and ids of tokens, got",
    ),
    "a vocabulary of unknown languages": (
        lambda folder: (
            write_text("vocab.json", json.dumps({name: i for i, name in enumerate(SPECIAL)}))(
                folder
            ),
            write_text("tokenizer_config.json", '{"language_codes": "wmt22"}')(folder),
        ),
        "language_codes='wmt22' is not supported, only 'm2m100' or 'wmt21'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(folder, tmp_path, fault):
    change, message = FAULTS[fault]
    change(folder)
    with pytest.raises((ValueError, OSError), match=message) as error:
        import_model(folder, tmp_path / "new")
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs"]


def test_another_architecture_is_named(folder):
    assert isinstance(find_format(folder), HFM2M100)
    edit_json("config.json", model_type="nllb-moe")(folder)
    with pytest.raises(ValueError, match="model_type 'nllb-moe' is not supported"):
        find_format(folder)


def test_ids(folder, original):
    """The order of `tokenizer.json` counts, in which the mask precedes the codes."""
    imported = HFM2M100().read(original)
    before = Vocabulary(imported.source_model)
    assert before.vocab_size == NUM_ROWS
    assert before.pieces[-5:] == [
        "\u2581>>eng_Latn<<", "\u2581>>deu_Latn<<", "<mask>",
        f"<row {NUM_ROWS - 2}>", f"<row {NUM_ROWS - 1}>",
    ]  # fmt: skip
    assert before.languages == [">>eng_Latn<<", ">>deu_Latn<<"]
    write_tokenizer(lambda content: None)(folder)
    after = Vocabulary(HFM2M100().read(folder).source_model)
    assert after.pieces[-5:-2] == ["<mask>", "\u2581>>eng_Latn<<", "\u2581>>deu_Latn<<"]
    assert after.pieces[:-5] == before.pieces[:-5]


def test_the_rows_are_permuted(original):
    """No row is added or lost: the softmax is that of the original."""
    weights = HFM2M100().read(original)
    ours = dict(weights.weights)["target_embedding/embeddings"]
    theirs = open_tensors(original / "model.safetensors")["model.decoder.embed_tokens.weight"]
    np.testing.assert_array_equal(ours[:4], theirs[[1, 3, 0, 2]])
    np.testing.assert_array_equal(ours[4:], theirs[4:])
    assert weights.config.begin_embedding == "end" and not weights.config.logits_bias
    assert (weights.config.positions, weights.config.first_position) == ("concatenated", 2)
