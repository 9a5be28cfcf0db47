"""Damaged, foreign and unsupported checkpoints of fairseq: one line, and no files."""

import argparse
import os
import shutil

import numpy as np
import pytest

from tests.tf_transformer.formats.checkpoints.faults import check_refused
from tests.tf_transformer.formats.checkpoints.torch_files import (
    Code,
    random_arrays,
    running,
    write_torch,
)
from tests.tf_transformer.formats.random_model import train_vocabularies
from tf_transformer import TransformerConfig
from tf_transformer.__main__ import main
from tf_transformer.formats.checkpoints.fairseq import NAMES, Fairseq
from tf_transformer.formats.naming import reverted_shapes
from tf_transformer.formats.recognition import find_format
from tf_transformer.storage.weight_shapes import weight_shapes

WORDS = {"en": ["hel@@", "lo", "a", "b", "c", "d"], "de": ["hal@@", "lo", "ä", "b"]}
SIDES = ("encoder", "decoder")


class Original:
    """A checkpoint and its files, to be changed.

    Attributes:
        args: settings.
        weights: arrays by name.
        dictionaries: text of the dictionaries by language.
        state: other entries of the checkpoint, which replace these.
    """

    def __init__(self):
        self.args = dict(
            arch="transformer", task="translation", source_lang="en", target_lang="de",
            share_decoder_input_output_embed=True, max_source_positions=60, activation_fn="relu",
        )  # fmt: skip
        for side in SIDES:
            self.args |= {
                f"{side}_{name}": value
                for name, value in dict(
                    layers=2, embed_dim=8, ffn_embed_dim=12, attention_heads=2,
                    normalize_before=True,
                ).items()
            }  # fmt: skip
        config = TransformerConfig(
            source_vocab_size=10, target_vocab_size=8, num_encoder_layers=2, num_decoder_layers=2,
            d_model=8, d_ff=12, num_heads=2, norm_position="pre",
        )  # fmt: skip
        self.weights = random_arrays(reverted_shapes(NAMES, weight_shapes(config)))
        self.weights |= {f"{side}.version": np.full(1, 3, "float32") for side in SIDES}
        self.dictionaries = {
            language: "".join(f"{word} 100\n" for word in words)
            for language, words in WORDS.items()
        }
        self.state = {}

    def write(self, folder):
        folder.mkdir()
        for language, text in self.dictionaries.items():
            (folder / f"dict.{language}.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
        state = {"args": argparse.Namespace(**self.args), "model": self.weights}
        write_torch(folder / "model.pt", state | self.state)
        return folder


@pytest.fixture
def original():
    return Original()


def setting(**values):
    return lambda original: original.args.update(values)


def weight(name, array):
    return lambda original: original.weights.update({name: array})


def dictionary(edit):
    def change(original):
        original.dictionaries["de"] = edit(original.dictionaries["de"])

    return change


def state(**values):
    return lambda original: original.state.update(values)


def refused(**values):
    (name,) = values
    return setting(**values), rf"{name}=.* is not supported"


FAULTS = {
    "task": (setting(task="multilingual_translation"), "task='multilingual_translation' is not"),
    "unscaled": refused(no_scale_embedding=True),
    "no positions": refused(no_token_positional_embeddings=True),
    "norm of the embedding": refused(layernorm_embedding=True),
    "adaptive softmax": refused(adaptive_softmax_cutoff=[5]),
    "cross and self": refused(cross_self_attention=True),
    "experts": refused(moe_freq=2),
    "base layers": refused(base_layers=1),
    "layers to keep": refused(encoder_layers_to_keep="0"),
    "noise": refused(quant_noise_pq=0.1),
    "merged": refused(merge_src_tgt_embed=True),
    "activation": (setting(activation_fn="gelu_fast"), "'gelu_fast' is not supported, only relu, "),
    "positions": (setting(encoder_learned_pos=True), "decoder_learned_pos=False is not supp"),
    "output": (setting(decoder_output_dim=4), "decoder_output_dim=4 is not supported, only .*=8"),
    "a size is text": (
        setting(encoder_layers="2"),
        r"encoder_layers: .*integer.*\. Received: encoder_layers='2'",
    ),
    "a size is huge": (setting(encoder_layers=10**9), "encoder_layers: Input should be less"),
    "heads": (setting(encoder_attention_heads=3), r"`encoder\.num_heads` must divide"),
    "a layer too many": (setting(decoder_layers=3), r"No weight 'decoder\.layers\.2\.self_at"),
    "a layer too few": (setting(decoder_layers=1), r"no weights for decoder\.layers\.1\.encoder_"),
    "another width": (setting(encoder_ffn_embed_dim=16), r"expected the shape \(8, 16\)"),
    "tied otherwise": (setting(share_all_embeddings=True), "needs equal dictionaries of both"),
    "norm in spite of its version": (
        weight("decoder.version", np.full(1, 2, "float32")),
        r"no weights for decoder\.layer_norm\.bias, decoder\.layer_norm\.weight",
    ),
    "one more weight": (
        weight("encoder.layers.0.moe.w", np.zeros(3, "float32")),
        r"no weights for encoder\.layers\.0\.moe\.w",
    ),
    "a missing weight": (
        lambda original: original.weights.pop("encoder.layers.0.fc1.bias"),
        r"No weight 'encoder\.layers\.0\.fc1\.bias'",
    ),
    "a weight with two names": (
        weight("encoder.layers.0.layer_norms.0.bias", np.zeros(8, "float32")),
        r"layer_norms\.0\.bias and encoder\.layers\.0\.self_attn_layer_norm\.bias are the same",
    ),
    "a copy with other values": (
        weight("decoder.output_projection.weight", np.zeros((8, 8), "float32")),
        r"output_projection\.weight must equal decoder\.embed_tokens\.weight, which it is tied",
    ),
    "a shape": (
        weight("encoder.layers.1.fc1.weight", np.zeros((12, 9), "float32")),
        r"layers\.1\.fc1\.weight: expected the shape \(8, 12\) .* Received: \(9, 12\)",
    ),
    "not finite": (
        weight("encoder.layer_norm.bias", np.full(8, np.nan, "float32")),
        "8 of the 8 numbers in encoder/final_norm/beta are NaN",
    ),
    "one entry less": (
        dictionary(lambda text: text.replace("lo 100\n", "")),
        r"embed_tokens\.weight must have a row for each of the 7 entries .* shape \(8, 8\)",
    ),
    "an entry twice": (dictionary(lambda text: text.replace("b ", "ä ")), r"txt:4: 'ä' occurs tw"),
    "a special entry": (dictionary(lambda text: text.replace("b ", "<s> ")), "'<s>' occurs twice"),
    "no count": (dictionary(lambda text: text.replace("b 100", "b")), r"de\.txt:4: expected ENT"),
    "no entry": (dictionary(lambda text: text + "\n"), r"de\.txt:5: expected ENTRY COUNT, got ''"),
    "not UTF-8": (dictionary(lambda text: text + "\ud800 1\n"), r"de\.txt: not UTF-8"),
    "no language, and equal sizes": (
        lambda original: (
            setting(target_lang=None)(original),
            original.dictionaries.update(en=original.dictionaries["de"]),
            weight("encoder.embed_tokens.weight", np.zeros((8, 8), "float32"))(original),
        ),
        r"dict\.source\.txt and dict\.target\.txt, of 8 and 8 ids; found dict\.de\.txt, dict\.en",
    ),
    "no language, and no dictionaries": (
        lambda original: (setting(target_lang=None)(original), original.dictionaries.clear()),
        r"of 10 and 8 ids; found none",
    ),
    "a folder in place of a language": (
        setting(target_lang="../de"),
        r"expected the name of a language\. Received: '\.\./de'",
    ),
    "no dictionary": (setting(target_lang="fr"), r"dict\.fr\.txt"),
    "settings are missing": (state(args=None), "a checkpoint of fairseq, with args or cfg"),
    "no weights": (state(model=None), "expected a checkpoint of fairseq, with model"),
    "a name that is not printable": (
        weight("decoder.\x7f", np.zeros(3, "float32")),
        r"the name of a tensor is not printable text: 'decoder\.\\x7f'",
    ),
    "weights are no tensors": (state(model={"a": 5}), r"model: 'a' must be a tensor, got a int"),
    "an object of omegaconf": (
        state(cfg=Code(b"comegaconf.dictconfig\nDictConfig\n)\x81")),
        r"contains omegaconf\.dictconfig\.DictConfig, which is not a tensor or a plain value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(original, tmp_path, fault):
    change, message = FAULTS[fault]
    change(original)
    check_refused(original.write(tmp_path / "theirs"), tmp_path, message, "fairseq")


def test_code_is_not_run(original, tmp_path, capsys):
    original.state["extra_state"] = running(tmp_path / "run")
    folder = original.write(tmp_path / "theirs")
    check_refused(
        folder, tmp_path, r"contains os\.system, which is not a tensor or a plain value", "fairseq"
    )
    words = ["import", "--input", str(folder), "--model-dir", str(tmp_path / "new")]
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("size", [0, 3, 100, 2000, -200, -1])
def test_truncated_files(original, tmp_path, size):
    folder = original.write(tmp_path / "theirs")
    path = folder / "model.pt"
    os.truncate(path, size % path.stat().st_size)
    check_refused(folder, tmp_path, r"model\.pt: ", "fairseq")


def test_several_checkpoints(original, tmp_path):
    folder = original.write(tmp_path / "theirs")
    path = (folder / "model.pt").rename(folder / "checkpoint1.pt")
    assert Fairseq().read(folder).config == Fairseq().read(path).config
    shutil.copy(path, folder / "checkpoint2.pt")
    message = r"one checkpoint \*\.pt; found checkpoint1\.pt, checkpoint2\.pt"
    check_refused(folder, tmp_path, message, "fairseq")
    shutil.copy(path, folder / "checkpoint_best.pt")
    assert Fairseq().read(folder).config == Fairseq().read(path).config


def test_recognition(original, tmp_path):
    folder = original.write(tmp_path / "theirs")
    assert find_format(folder).name == find_format(folder / "model.pt").name == "fairseq"
    (folder / "dict.en.txt").unlink()
    (folder / "dict.de.txt").unlink()
    for path in (folder, folder / "model.pt", tmp_path):
        with pytest.raises(ValueError, match="not recognized"):
            find_format(path)


def test_languages_are_found(original, tmp_path):
    """The command line of fairseq needs none: it finds them by the names of its data."""
    del original.args["source_lang"]
    expected = Fairseq().read(original.write(tmp_path / "one"))
    for side, language in (("source", "en"), ("target", "de")):
        original.dictionaries[side] = original.dictionaries.pop(language)
    found = Fairseq().read(original.write(tmp_path / "two"))
    assert found[:3] == expected[:3] and found.config.source_vocab_size == 10


def test_settings_of_the_model(original, tmp_path):
    original.args |= dict(
        dropout=0.2, relu_dropout=0.3, attention_dropout=0, no_scale_embedding=None
    )
    config = Fairseq().read(original.write(tmp_path / "theirs")).config
    assert (config.dropout_rate, config.feed_forward_dropout_rate) == (0.2, 0.3)
    assert (config.max_length, config.begin_embedding, config.first_position) == (60, "end", 2)
    assert config.side("encoder").final_norm and config.tied_embeddings == "target"


SENTENCEPIECE_FAULTS = {
    "no model": (["spm.model"], [b"\xff" * 50], r"spm\.model: Not a SentencePiece model"),
    "of another vocabulary": (["spm.model"], None, r"most of its pieces are not in the vocabulary"),
    "which one": (
        ["a.model", "b.model"],
        [b"", b""],
        r"one SentencePiece model, or one for each side with names such as en\.model; found a\.mod",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", SENTENCEPIECE_FAULTS)
def test_sentencepiece_faults(original, tmp_path, fault):
    names, contents, message = SENTENCEPIECE_FAULTS[fault]
    for language, text in original.dictionaries.items():
        original.dictionaries[language] = text.replace("lo ", "\u2581lo ")
    folder = original.write(tmp_path / "theirs")
    for name, content in zip(names, contents or train_vocabularies(True), strict=False):
        (folder / name).write_bytes(content)
    check_refused(folder, tmp_path, message, "fairseq")


def test_models_of_other_tools_are_ignored(original, tmp_path):
    """A vocabulary without SentencePiece's spaces has no SentencePiece model."""
    folder = original.write(tmp_path / "theirs")
    (folder / "truecase.model").write_text("hello (1/1)")
    assert Fairseq().read(folder).notes


@pytest.mark.slow
def test_command(original, tmp_path, capsys):
    folder = original.write(tmp_path / "theirs")
    words = ["import", "--input", str(folder), "--model-dir", str(tmp_path / "new")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "text must be tokenized and split into the vocabulary's words before" in lines[0]
    assert "two sentences translated" in lines[1]
