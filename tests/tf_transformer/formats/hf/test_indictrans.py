"""Damaged, foreign and unsupported folders of IndicTrans2: one line, and no files.

`tests/parity/test_hf_indictrans.py` compares what is read with the original.
"""

import json
import shutil

import numpy as np
import pytest

from tests.published_models.folders import write_small
from tests.published_models.models import MODELS
from tests.tf_transformer.formats.hf.test_marian import edit_json, edit_weights, without
from tf_transformer.__main__ import main
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.hf.folder import read_files
from tf_transformer.formats.hf.indictrans import HFIndicTrans, read_settings
from tf_transformer.formats.import_model import import_model
from tf_transformer.storage.model_dir import read_config
from tf_transformer.text.vocabulary import Vocabulary

PUBLISHED = next(model for model in MODELS if model.name.endswith("en-indic-dist-200M"))
SIZE = 560


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indictrans") / "theirs"
    write_small(folder, PUBLISHED)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "theirs")


@pytest.fixture(scope="module")
def model_dir(original, tmp_path_factory):
    path = tmp_path_factory.mktemp("imported") / "model"
    import_model(original, path)
    return path


def write_bytes(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def edit_names(side, edit):
    """Changes the list of names of a dictionary."""

    def change(folder):
        path = folder / f"dict.{side}.json"
        names = edit(list(json.loads(path.read_text())))
        path.write_text(json.dumps({name: token_id for token_id, name in enumerate(names)}))

    return change


FAULTS = {
    "no size": (
        edit_json("config.json", encoder_vocab_size=None),
        r"config\.json: encoder_vocab_size: Field required",
    ),
    "a size that is text": (
        edit_json("config.json", decoder_vocab_size="560"),
        "decoder_vocab_size: Input should be a valid integer",
    ),
    "a huge size": (
        edit_json("config.json", decoder_vocab_size=10**12),
        "decoder_vocab_size: Input should be less than",
    ),
    "switches that are numbers": (
        edit_json("config.json", layernorm_embedding=1),
        "layernorm_embedding: Input should be a valid boolean",
    ),
    "other numbers of positions": (
        edit_json("config.json", max_source_positions=1),
        "max_source_positions: Input should be greater than or equal to 2",
    ),
    "stacks of different width": (
        edit_json("config.json", decoder_embed_dim=32),
        "encoder_embed_dim=64 and decoder_embed_dim=32 must be equal",
    ),
    "an activation": (
        edit_json("config.json", activation_function="gelu_new"),
        "activation_function='gelu_new' is not supported, only relu, gelu, swish, silu",
    ),
    "two numbers of heads": (
        edit_json("config.json", num_attention_heads=4),
        "num_attention_heads=4 and encoder_attention_heads=8 are the same setting",
    ),
    "another pad": (
        edit_json("config.json", pad_token_id=4),
        r"dict\.SRC\.json: pad_token_id must be the id of <pad>. Received: 4",
    ),
    "another start": (
        edit_json("config.json", decoder_start_token_id=-1),
        "decoder_start_token_id must be the id of </s>. Received: -1",
    ),
    "outputs that begin with a piece": (
        edit_json("config.json", forced_bos_token_id=7),
        "forced_bos_token_id=7 is not supported",
    ),
    "no dictionary": (lambda folder: (folder / "dict.TGT.json").unlink(), r"dict\.TGT\.json"),
    "a dictionary that is a list": (write_bytes("dict.SRC.json", b"[1]"), r"dict\.SRC\.json"),
    "a gap": (
        write_bytes("dict.TGT.json", b'{"<s>": 0, "<pad>": 2}'),
        r"dict\.TGT\.json: expected the ids 0 to 1, each once, got 2 for '<pad>'",
    ),
    "more names than rows": (
        edit_names("SRC", lambda names: [*names, "more"]),
        rf"dict\.SRC\.json: has {SIZE + 1} ids, and encoder_vocab_size={SIZE}; expected as many",
    ),
    "far fewer names than rows": (
        edit_names("TGT", lambda names: names[:300]),
        rf"dict\.TGT\.json: has 300 ids, and decoder_vocab_size={SIZE}; expected as many",
    ),
    "no unknown piece": (
        edit_names("TGT", lambda names: ["unk" if x == "<unk>" else x for x in names]),
        r"dict\.TGT\.json: expected the piece <unk>",
    ),
    "special pieces of the target elsewhere": (
        edit_names("TGT", lambda names: [names[1], names[0], *names[2:]]),
        r"dict\.TGT\.json: pad_token_id must be the id of <pad>. Received: 1",
    ),
    "no codes": (
        edit_names("SRC", lambda names: [*names[:-34], *map(str.upper, names[-34:])]),
        r"dict\.SRC\.json: no codes of languages; expected some, such as hin_Deva",
    ),
    "an added word": (
        edit_json("tokenizer_config.json", added_tokens_decoder={"560": {"content": "word"}}),
        r"tokenizer_config\.json: 'word' was added to the tokenizer, which is not supported",
    ),
    "an added token with another id": (
        edit_json("tokenizer_config.json", added_tokens_decoder={"4": {"content": "<pad>"}}),
        "the id 4 is that of '!' in dict.SRC.json and that of '<pad>' in tokenizer_config.json",
    ),
    "no SentencePiece model": (lambda folder: (folder / "model.SRC").unlink(), r"model\.SRC"),
    "a damaged SentencePiece model": (
        write_bytes("model.TGT", b"\xff" * 9),
        r"model\.TGT: Not a SentencePiece model",
    ),
    "a SentencePiece model of others": (
        edit_names("TGT", lambda names: [*names[:4], *(f"other {name}" for name in names[4:])]),
        r"model\.TGT: most of its pieces are not in the vocabulary",
    ),
    "a missing weight": (
        without("model.encoder.layernorm_embedding.bias"),
        r"No weight 'model\.encoder\.layernorm_embedding\.bias'",
    ),
    "no embedding of the source": (
        without("model.encoder.embed_tokens.weight"),
        r"No weight 'model\.encoder\.embed_tokens\.weight'",
    ),
    "a weight too many": (
        edit_weights(lambda arrays: arrays | {"model.shared.weight": np.zeros((3, 64), "f4")}),
        r"shared",
    ),
    "another copy of a tied weight": (
        edit_weights(lambda arrays: arrays | {"lm_head.weight": np.zeros((SIZE, 64), "f4")}),
        r"lm_head\.weight",
    ),
    "a matrix of another size": (
        edit_weights(
            lambda arrays: arrays | {"model.encoder.embed_tokens.weight": np.zeros((9, 64), "f4")}
        ),
        rf"a row for each of the {SIZE} entries of the vocabulary, got the shape \(9, 64\)",
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


def test_defaults(folder):
    """Of the original's class `IndicTransConfig`."""
    sizes = {"encoder_vocab_size": SIZE, "decoder_vocab_size": SIZE}
    (folder / "config.json").write_text(json.dumps({"model_type": "IndicTrans"} | sizes))
    assert read_settings(read_files(folder)).model_dump() == sizes | {
        "encoder_embed_dim": 512, "decoder_embed_dim": 512, "max_source_positions": 210,
        "max_target_positions": 210, "encoder_layers": 6, "encoder_ffn_dim": 2048,
        "encoder_attention_heads": 8, "decoder_layers": 6, "decoder_ffn_dim": 2048,
        "decoder_attention_heads": 8, "activation_function": "relu",
        "encoder_normalize_before": False, "decoder_normalize_before": False,
        "layernorm_embedding": False, "share_decoder_input_output_embed": False, "dropout": 0.1,
        "attention_dropout": 0.0, "activation_dropout": 0.0, "scale_embedding": True,
        "decoder_start_token_id": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
    }  # fmt: skip


def test_settings_of_each_side(folder):
    """A stack whose layers have their norms behind has none at its end."""
    edit_json("config.json", encoder_normalize_before=False, max_target_positions=99)(folder)
    with pytest.raises(ValueError, match=r"no weights for model\.encoder\.layer_norm\.bias"):
        HFIndicTrans().read(folder)
    without(*(f"model.encoder.layer_norm.{name}" for name in ("weight", "bias")))(folder)
    imported = HFIndicTrans().read(folder)
    encoder, decoder = map(imported.config.side, ("encoder", "decoder"))
    assert (encoder.norm_position, decoder.norm_position) == ("post", "pre")
    assert (encoder.final_norm, decoder.final_norm) == (False, True)
    assert imported.config.max_length == 99


def test_tags_and_rows(original):
    """The codes are tags of the source; the decoder's outputs have none."""
    imported = HFIndicTrans().read(original)
    source, target = (Vocabulary(x) for x in (imported.source_model, imported.target_model))
    assert len(source.languages) == 34 and ">>hin_Deva<<" in source.languages
    assert target.languages == []
    assert source.vocab_size == target.vocab_size == SIZE
    assert imported.config.language_tags == "both_in_source"
    assert any("IndicProcessor" in note for note in imported.notes)


def test_tables_of_positions_are_left_out(folder):
    """Old files contain them."""
    names = [f"model.{stack}.embed_positions.weights" for stack in ("encoder", "decoder")]
    edit_weights(lambda arrays: arrays | dict.fromkeys(names, np.zeros((258, 64), "f4")))(folder)
    assert dict(HFIndicTrans().read(folder).weights)


@pytest.mark.slow
def test_commands(model_dir, tmp_path, capsys):
    """`translate` with both languages, whose order in text is the same as of other models."""
    (tmp_path / "in").write_text("A man\n\nten horses\n")
    command = ["translate", "--model-dir", str(model_dir), "--input", str(tmp_path / "in")]
    both = ["--source-language", "eng_Latn", "--target-language", "hin_Deva"]
    assert main([*command, *both, "--output", str(tmp_path / "out")]) == 0
    (tmp_path / "in").write_text(
        "".join(f">>hin_Deva<< >>eng_Latn<< {x}\n" for x in ("A man", "ten horses"))
    )
    assert main([*command, "--output", str(tmp_path / "tagged")]) == 0
    found = (tmp_path / "out").read_text().splitlines()
    assert [found[0], found[2]] == (tmp_path / "tagged").read_text().splitlines()
    capsys.readouterr()
    (tmp_path / "in").write_text("A man\n")
    assert main([*command, *both[2:]]) == 2
    assert "the model needs a tag for the source language, too" in capsys.readouterr().err
    assert main(command) == 2
    assert "must start with the tags of the target language and its own" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("output_format", ["hf", "marian"])
def test_not_convertible(model_dir, tmp_path, output_format):
    with pytest.raises(ValueError, match=f"the format {output_format} cannot hold") as error:
        convert_model(model_dir, output_format, tmp_path / "back")
    assert "\n" not in str(error.value) and not (tmp_path / "back").exists()
    assert read_config(model_dir).embedding_norm
