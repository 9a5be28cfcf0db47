"""Damaged, foreign and unsupported folders of M2M100 and NLLB: one line, and no files."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import sentencepiece

from tests.tf_transformer.formats.hf.nllb_folder import (
    CODES,
    MODEL_NAME,
    NUM_NAMES,
    NUM_PIECES,
    NUM_ROWS,
    SPECIAL,
    write_nllb,
)
from tests.tf_transformer.formats.hf.test_marian import edit_json, edit_weights, without
from tf_transformer.formats.hf.m2m100 import HFM2M100
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.recognition import find_format
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_nllb(tmp_path_factory.mktemp("m2m100") / "theirs")


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
        "expected pre_tokenizer.type='Metaspace'. Received: 'ByteLevel'",
    ),
    "no pre-tokenizer": (
        alone(lambda content: content.pop("pre_tokenizer")),
        "expected an object 'pre_tokenizer', got None",
    ),
    "no space at the begin": (
        alone(lambda content: content["pre_tokenizer"].update(add_prefix_space=False)),
        "expected pre_tokenizer.add_prefix_space=True. Received: False",
    ),
    "each unknown character": (
        alone(lambda content: content["model"].update(fuse_unk=False)),
        "expected model.fuse_unk=True. Received: False",
    ),
    "another model of pieces": (
        alone(lambda content: content["model"].update(type="WordPiece")),
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
    "outputs that begin with a piece": (
        edit_json("config.json", forced_bos_token_id=7),
        "forced_bos_token_id=7 must be the id of a language's code",
    ),
    "outputs that begin with text": (
        edit_json("config.json", forced_bos_token_id="eng_Latn"),
        "forced_bos_token_id='eng_Latn' is not supported",
    ),
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
    "codes of languages behind the text": (
        write_text("tokenizer_config.json", '{"legacy_behaviour": true}'),
        "legacy_behaviour puts the code of the language behind the text",
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


def test_defaults(folder):
    """Of `M2M100Config`, which `tests/parity/test_hf_defaults.py` compares."""
    names = ("attention_dropout", "scale_embedding", "eos_token_id", "decoder_start_token_id")
    edit_json("config.json", attention_dropout=0.5)(folder)
    edit_json("config.json", **dict.fromkeys(names))(folder)
    assert HFM2M100().read(folder).config.attention_dropout_rate == 0.1


def test_embeddings_that_are_not_scaled(folder, original):
    edit_json("config.json", scale_embedding=False)(folder)
    unscaled, scaled = (HFM2M100().read(path).config for path in (folder, original))
    assert unscaled == dataclasses.replace(scaled, scaled_embeddings=False)


def test_a_language_that_outputs_begin_with(folder):
    """It is named by the user here, who is told so."""
    edit_json("config.json", forced_bos_token_id=NUM_PIECES + 2)(folder)
    (note,) = HFM2M100().read(folder).notes
    assert note.endswith("here it must be: --target-language deu_Latn")
