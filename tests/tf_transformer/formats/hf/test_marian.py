"""Damaged, foreign and unsupported folders of Transformers' Marian: one line, and no files."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest

from tests.tf_transformer.formats.random_model import train_vocabularies, write_random_model
from tf_transformer.__main__ import main
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.hf.marian import HFMarian
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.recognition import find_format
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage import json_files

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    write_random_model(folder / "ours", train_vocabularies(True), positions="marian")
    convert_model(folder / "ours", "hf", folder / "theirs")
    return folder / "theirs"


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "theirs")


def test_settings_are_read_once(folder, monkeypatch):
    names = []
    monkeypatch.setattr(
        json_files, "read_regular", lambda path, limit: names.append(path.name) or path.read_bytes()
    )
    (folder / "generation_config.json").write_text("{}")
    HFMarian().read(folder)
    assert {"config.json", "generation_config.json"} <= set(names)
    assert len(names) == len(set(names))


def edit_json(name, **changes):
    def edit(folder):
        values = json.loads((folder / name).read_text())
        for key, value in changes.items():
            if value is None:
                del values[key]
            else:
                values[key] = value
        (folder / name).write_text(json.dumps(values))

    return edit


def write_json_file(name, content):
    return lambda folder: (folder / name).write_text(json.dumps(content))


def edit_weights(edit):
    def change(folder):
        path = folder / "model.safetensors"
        arrays = edit({name: np.array(array) for name, array in open_tensors(path).items()})
        write_safetensors(path, {name: x.shape for name, x in arrays.items()}, arrays.items())

    return change


def last_of(vocabulary):
    return max(vocabulary, key=vocabulary.get)


def edit_vocabulary(edit):
    def change(folder):
        path = folder / "vocab.json"
        vocabulary = json.loads(path.read_text())
        edit(vocabulary)
        path.write_text(json.dumps(vocabulary))

    return change


def exchange(vocabulary):
    """Gives all pieces but the special ones other names."""
    for piece in [piece for piece in vocabulary if not piece.startswith("<")]:
        vocabulary[f"{piece}{piece}!"] = vocabulary.pop(piece)


def without(*names):
    return edit_weights(lambda arrays: {n: x for n, x in arrays.items() if n not in names})


FAULTS = {
    "no file": (lambda folder: (folder / "source.spm").unlink(), r"source\.spm"),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "no weights; expected model.safetensors or pytorch_model.bin",
    ),
    "a setting of another architecture": (
        edit_json("config.json", normalize_before=True),
        "normalize_before=True is not supported, only normalize_before=False",
    ),
    "activation": (
        edit_json("config.json", activation_function="gelu_new"),
        "activation_function='gelu_new' is not supported, only relu, gelu, swish, silu",
    ),
    "a size is missing": (edit_json("config.json", encoder_ffn_dim=None), r"shape \(32, 4096\)"),
    "a size twice": (
        edit_json("config.json", num_hidden_layers=3),
        "num_hidden_layers=3 and encoder_layers=2 are the same setting",
    ),
    "a size is text": (edit_json("config.json", d_model="32"), "d_model: Input should be a valid"),
    "a size is huge": (edit_json("config.json", encoder_layers=10**9), "encoder_layers: Input"),
    "heads": (edit_json("config.json", encoder_attention_heads=5), "num_heads"),
    "a layer too many": (
        edit_json("config.json", decoder_layers=3),
        r"No weight 'model\.decoder\.layers\.2\.self_attn\.q_proj\.weight'",
    ),
    "a layer too few": (
        edit_json("config.json", decoder_layers=1),
        r"The model has no weights for model\.decoder\.layers\.1\.encoder_attn\.k_proj\.bias, ",
    ),
    "another width": (edit_json("config.json", decoder_ffn_dim=40), r"expected the shape \(32, 40"),
    "an id out of range": (
        edit_json("generation_config.json", decoder_start_token_id=130),
        "decoder_start_token_id must be one of the 130 ids. Received: 130",
    ),
    "a vocabulary one short": (
        edit_vocabulary(lambda ids: ids.pop(last_of(ids))),
        "vocab.json: expected 130 pieces, the model's number, got 129 with the added tokens",
    ),
    "a vocabulary and a setting one short": (
        lambda folder: (
            edit_vocabulary(lambda ids: ids.pop(last_of(ids)))(folder),
            edit_json("config.json", vocab_size=129)(folder),
        ),
        r"a row for each of the 129 entries of the vocabulary, got the shape \(130, 32\)",
    ),
    "ids twice": (
        edit_vocabulary(lambda ids: ids.update({last_of(ids): 5})),
        "expected the ids 0 to 129, each once, got 5 for",
    ),
    "ids that are no numbers": (
        edit_vocabulary(lambda ids: ids.update({last_of(ids): "x"})),
        "each once, got 'x' for",
    ),
    "no unknown piece": (
        edit_vocabulary(lambda ids: ids.update({"x" * 9: ids.pop("<unk>")})),
        "expected the piece <unk>",
    ),
    "an added token too many": (
        write_json_file("added_tokens.json", {"Cologne": 130}),
        "vocab.json: expected 130 pieces, the model's number, got 131 with the added tokens",
    ),
    "an added token with the id of another": (
        write_json_file("added_tokens.json", {"Cologne": 129}),
        r"the id 129 is that of '.+' in vocab\.json and that of 'Cologne' in added_tokens\.json",
    ),
    "an added token whose description differs": (
        lambda folder: (
            write_json_file("added_tokens.json", {"Cologne": 130})(folder),
            edit_json(
                "tokenizer_config.json", added_tokens_decoder={"131": {"content": "Cologne"}}
            )(folder),
        ),
        r"'Cologne' has the id 130 in added_tokens\.json and 131 in tokenizer_config\.json",
    ),
    "a first token": (
        edit_json("config.json", forced_bos_token_id=7),
        "forced_bos_token_id=7 is not supported; without it in generation_config.json and config",
    ),
    "a first token of generation": (
        edit_json("generation_config.json", forced_bos_token_id=7),
        "forced_bos_token_id=7 is not supported",
    ),
    "banned phrases": (
        edit_json("generation_config.json", bad_words_ids=[[7], [8, 9]]),
        r"bad_words_ids=\[\[7\], \[8, 9\]\] is not supported",
    ),
    "a banned end": (
        edit_json("generation_config.json", suppress_tokens=[3]),
        r"suppress_tokens=\[3\] is not supported",
    ),
    "banned text": (
        edit_json("generation_config.json", suppress_tokens="7"),
        "suppress_tokens='7' is not supported",
    ),
    "an id that is banned, but too large": (
        edit_json("generation_config.json", suppress_tokens=[130]),
        r"suppress_tokens=\[130\] is not supported",
    ),
    "tokens that are banned at the start": (
        edit_json("generation_config.json", begin_suppress_tokens=[7]),
        r"begin_suppress_tokens=\[7\] is not supported",
    ),
    "several ends": (
        edit_json("generation_config.json", eos_token_id=[3, 7]),
        "eos_token_id: Input should be a valid integer",
    ),
    "no SentencePiece model": (
        lambda folder: (folder / "target.spm").write_bytes(b"\xff" * 50),
        r"target\.spm: Not a SentencePiece model \(50 bytes\)",
    ),
    "an empty SentencePiece model": (
        lambda folder: (folder / "source.spm").write_bytes(b""),
        r"source\.spm: Not a SentencePiece model \(0 bytes\)",
    ),
    "a SentencePiece model of another vocabulary": (
        edit_vocabulary(lambda ids: exchange(ids)),
        r"source\.spm: most of its pieces are not in the vocabulary",
    ),
    "a pointer in place of weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(POINTER),
        "this is a pointer of Git LFS in place of the file; run: git lfs pull",
    ),
    "a missing weight": (
        without("model.encoder.layers.0.fc1.bias"),
        r"No weight 'model\.encoder\.layers\.0\.fc1\.bias'",
    ),
    "a superfluous weight": (
        edit_weights(lambda arrays: arrays | {"model.encoder.extra": np.zeros(3, "float32")}),
        r"no weights for model\.encoder\.extra",
    ),
    "a copy with other values": (
        edit_weights(lambda arrays: arrays | {"lm_head.weight": 2 * arrays["model.shared.weight"]}),
        r"lm_head\.weight must equal model\.shared\.weight, which it is tied to",
    ),
    "a table of another width": (
        edit_weights(
            lambda arrays: (
                arrays | {"model.encoder.embed_positions.weight": np.zeros((9, 3), "float32")}
            )
        ),
        r"must be 32 columns wide, got the shape \(9, 3\)",
    ),
    "values that are not finite": (
        edit_weights(
            lambda arrays: arrays | {"final_logits_bias": np.full((1, 130), np.nan, "float32")}
        ),
        "130 of the 130 numbers in logits_bias are NaN or infinite",
    ),
    "truncated": (
        lambda folder: os.truncate(folder / "model.safetensors", 5000),
        "model.safetensors: ",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(folder, tmp_path, fault, capsys):
    change, message = FAULTS[fault]
    change(folder)
    target = tmp_path / "models" / "new"
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises((ValueError, OSError), match=message) as error:
        import_model(folder, target, "hf-marian")
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    assert not target.exists()
    leftovers = sorted(path.name for path in tmp_path.iterdir() if path.name != "models")
    assert leftovers == before and not list(tmp_path.glob("models/*"))


def test_the_bias_may_be_missing(folder, original, tmp_path):
    """Transformers then uses zeros."""
    without("final_logits_bias")(folder)
    imported = HFMarian().read(folder)
    assert not imported.config.logits_bias
    # As in published models.
    edit_json("generation_config.json", decoder_start_token_id=0, suppress_tokens=None)(folder)
    imported = HFMarian().read(folder)
    assert imported.config.logits_bias and imported.config.begin_embedding == "own"
    bias = dict(imported.weights)["logits_bias"]
    np.testing.assert_array_equal(bias, [-100, 0, -100] + [0] * (len(bias) - 3))


def test_a_model_that_may_be_of_another_language(folder):
    """Its pieces are hardly in the vocabulary, which is told and no error."""
    assert HFMarian().read(folder).notes == ()
    vocabulary = json.loads((folder / "vocab.json").read_text())
    names = [piece for piece in vocabulary if not piece.startswith("<")]
    for piece in names[len(names) // 3 :]:
        vocabulary[f"{piece}{piece}!"] = vocabulary.pop(piece)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    notes = HFMarian().read(folder).notes
    assert len(notes) == 2 and "% of the pieces of source.spm are in the vocabulary" in notes[0]


def test_formats_are_found(folder, tmp_path):
    assert isinstance(find_format(folder), HFMarian)
    with pytest.raises(FileNotFoundError):
        find_format(tmp_path / "nothing")
    with pytest.raises(ValueError, match="not recognized as a model of one of the formats hf-m"):
        find_format(tmp_path)
    with pytest.raises(ValueError, match=r"unknown format 'hf-marina'.*did you mean 'hf-marian'"):
        find_format(folder, "hf-marina")


@pytest.mark.slow
def test_commands(original, tmp_path, capsys):
    words = ["import", "--input", str(original), "--model-dir", str(tmp_path / "new")]
    assert main(words) == 0
    assert "tf-transformer translate --model-dir" in capsys.readouterr().out
    assert main(words) == 2
    assert "expected a new or empty folder" in capsys.readouterr().err
    words = ["convert", "--model-dir", str(tmp_path / "new"), "--to", "hf"]
    assert main([*words, "--output", str(tmp_path / "hf")]) == 0
    assert "converted to the format hf" in capsys.readouterr().out
    for name in ("config.json", "vocab.json", "source.spm", "model.safetensors"):
        assert (tmp_path / "hf" / name).read_bytes() == (original / name).read_bytes(), name


AS_M2M100 = dict(norm_position="pre", positions="concatenated", first_position=2)
UNSUPPORTED = {
    "decoder.norm_position": dict(encoder=dict(norm_position="pre")),
    "final_norm": dict(final_norm=True),
    "begin_embedding": dict(begin_embedding="end"),
    "encoder.final_norm": dict(norm_position="pre", final_norm=False),
    "positions": dict(norm_position="pre"),
    "first_position": dict(norm_position="pre", positions="concatenated"),
    "tied_embeddings": AS_M2M100 | dict(tied_embeddings="target"),
    "logits_bias": AS_M2M100 | dict(logits_bias=True),
    "norm_type": dict(norm_type="rms"),
    "relative_positions": dict(relative_positions="keys"),
    "layer_history": dict(layer_history=True),
    "activation": dict(activation="swiglu"),
    "decoder_autoregression": dict(decoder_autoregression="ssru"),
    "source_end": dict(source_end=False),
    "layer_norm_epsilon": dict(layer_norm_epsilon=1e-3),
    "d_model": dict(encoder=dict(d_model=16), tied_embeddings="target"),
    "decoder.cross_num_heads": dict(decoder=dict(cross_num_heads=2)),
}


@pytest.mark.parametrize("setting", UNSUPPORTED)
def test_what_the_format_cannot_hold(tmp_path, setting):
    models = train_vocabularies(True)
    write_random_model(tmp_path / "ours", models, **UNSUPPORTED[setting])
    with pytest.raises(ValueError, match=rf"the format hf cannot hold a model with .*{setting}="):
        convert_model(tmp_path / "ours", "hf", tmp_path / "theirs")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours"]


def test_a_shared_embedding_needs_one_vocabulary(tmp_path):
    models = train_vocabularies(True)
    other = train_vocabularies(True, "bpe")
    write_random_model(tmp_path / "ours", (models[0], other[1]), tied_embeddings="all")
    with pytest.raises(ValueError, match=r"needs the same pieces in source\.spm"):
        convert_model(tmp_path / "ours", "hf", tmp_path / "theirs")


def test_generation(folder):
    """Banned ids have no share of the softmax, and `generation_config.json` wins."""
    edit_json("config.json", num_beams=6, suppress_tokens=[8])(folder)
    edit_json(
        "generation_config.json", bad_words_ids=[[7], [0], [3]], suppress_tokens=[0, 9],
        eos_token_id=[3], num_beams=4, no_repeat_ngram_size=3, decoder_start_token_id=5,
    )(folder)  # fmt: skip
    imported = HFMarian().read(folder)
    assert imported.notes == (
        "the original's search has no_repeat_ngram_size=3; options of a search are no part of a "
        "model here, but given for each translation",
    )
    weights = dict(imported.weights)
    theirs = open_tensors(folder / "model.safetensors")["model.shared.weight"]
    np.testing.assert_array_equal(weights["target_embedding/embeddings"][2], theirs[5])
    banned = np.flatnonzero(weights["logits_bias"] == -100)
    np.testing.assert_array_equal(weights["target_embedding/embeddings"][banned], theirs[[7, 9]])


def test_defaults(folder):
    """Of `MarianConfig`, which `tests/parity/test_hf_defaults.py` compares."""
    names = ("activation_function", "attention_dropout", "max_position_embeddings")
    edit_json("config.json", **dict.fromkeys(names))(folder)
    config = HFMarian().read(folder).config
    assert (config.activation, config.attention_dropout_rate, config.max_length) == (
        "gelu", 0.0, 1024,
    )  # fmt: skip


def test_embeddings_that_are_not_scaled(folder, original):
    edit_json("config.json", scale_embedding=None)(folder)
    imported = HFMarian().read(folder)
    assert imported.config == dataclasses.replace(
        HFMarian().read(original).config, scaled_embeddings=False
    )
