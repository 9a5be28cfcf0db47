"""Damaged, foreign and unsupported checkpoints of OpenNMT-py: one line, and no files."""

import argparse
import os

import numpy as np
import pytest

from tests.tf_transformer.formats.checkpoints.faults import check_refused
from tests.tf_transformer.formats.checkpoints.torch_files import (
    random_arrays,
    running,
    write_torch,
)
from tf_transformer import TransformerConfig
from tf_transformer.formats.checkpoints.opennmt_py import NAMES, OpenNMTPy
from tf_transformer.formats.naming import reverted_shapes
from tf_transformer.formats.recognition import find_format
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.weight_shapes import weight_shapes

SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]


class Original:
    """A checkpoint, to be changed.

    Attributes:
        opt: options.
        weights: arrays by name, those of the generator too.
        vocab: entries of the vocabularies.
        state: other entries of the checkpoint, which replace these.
    """

    def __init__(self):
        self.opt = dict(
            model_type="text", encoder_type="transformer", decoder_type="transformer",
            enc_layers=2, dec_layers=2, heads=2, transformer_ff=12, position_encoding=True,
            share_decoder_embeddings=True, dropout=[0.2], attention_dropout=[0.1],
        )  # fmt: skip
        config = TransformerConfig(
            source_vocab_size=10, target_vocab_size=8, num_encoder_layers=2, num_decoder_layers=2,
            d_model=8, d_ff=12, num_heads=2, norm_position="pre", logits_bias=True,
        )  # fmt: skip
        self.weights = random_arrays(reverted_shapes(NAMES, weight_shapes(config)))
        self.weights["generator.weight"] = self.weights[
            "decoder.embeddings.make_embedding.emb_luts.0.weight"
        ]
        self.weights["encoder.embeddings.make_embedding.pe.pe"] = np.zeros((9, 1, 8), "float32")
        self.vocab = {
            "src": [*SPECIAL, *"abcdef"],
            "tgt": [*SPECIAL, *"uvwx"],
            "data_task": "seq2seq",
        }
        self.state = {}

    def write(self, folder):
        folder.mkdir()
        parts = {"model": {}, "generator": {}}
        for name, array in self.weights.items():
            is_logits = name.startswith("generator.")
            parts["generator" if is_logits else "model"][name.removeprefix("generator.")] = array
        state = parts | {"vocab": self.vocab, "opt": argparse.Namespace(**self.opt)}
        write_torch(folder / "model_step_9.pt", state | self.state)
        return folder


@pytest.fixture
def original():
    return Original()


def option(**values):
    return lambda original: original.opt.update(values)


def weight(name, array):
    return lambda original: original.weights.update({name: array})


def vocab(**values):
    return lambda original: original.vocab.update(values)


def state(**values):
    return lambda original: original.state.update(values)


def refused(**values):
    (name,) = values
    return option(**values), rf"{name}=.* is not supported"


FAULTS = {
    "recurrent": refused(encoder_type="brnn"),
    "language model": refused(model_task="lm"),
    "images": refused(model_type="img"),
    "copies": refused(copy_attn=True),
    "features": refused(n_src_feats=1),
    "rotary": (option(max_relative_positions=-1), r"=-1 \(rotary positions\) is not supported"),
    "ALiBi": (option(max_relative_positions=-2), r"=-2 \(ALiBi\) is not supported"),
    "buckets": refused(relative_positions_buckets=32),
    "several queries for a key": refused(num_kv=1),
    "one key": refused(multiquery=True),
    "experts": refused(num_experts=2),
    "parallel": refused(parallel_residual=True),
    "norm": refused(layer_norm="rms"),
    "window": refused(sliding_window=9),
    "LoRA": refused(lora_layers=["linear_keys"]),
    "quantized": refused(quant_layers=["w_1"]),
    "sparse": refused(generator_function="sparsemax"),
    "attention": (option(self_attn_type="average"), "self_attn_type='average' is not supported"),
    "activation": (option(pos_ffn_activation_fn="tanh"), "'tanh' is not supported, only relu, "),
    "sinusoids": refused(position_encoding_type="Other"),
    "no positions": (option(position_encoding=False), "needs `relative_positions`"),
    "a size is text": (option(enc_layers="2"), "enc_layers: Input should be a valid integer"),
    "a size is missing": (
        lambda original: original.opt.pop("transformer_ff"),
        "transformer_ff: Field required",
    ),
    "a size is huge": (option(transformer_ff=10**9), "transformer_ff: Input should be less"),
    "heads": (option(heads=3), "`num_heads` must divide"),
    "a layer too many": (option(dec_layers=3), r"No weight 'decoder\.transformer_layers\.2\."),
    "a layer too few": (option(enc_layers=1), r"no weights for encoder\.transformer\.1\.feed_"),
    "another width": (option(transformer_ff=16), r"expected the shape \(8, 16\)"),
    "tied otherwise": (option(share_embeddings=True), "needs equal vocabularies of both sides"),
    "a missing weight": (
        lambda original: original.weights.pop("encoder.transformer.0.layer_norm.bias"),
        r"No weight 'encoder\.transformer\.0\.layer_norm\.bias'",
    ),
    "one bias of several": (
        lambda original: original.weights.pop("encoder.transformer.0.self_attn.linear_keys.bias"),
        r"No weight 'encoder\.transformer\.0\.self_attn\.linear_keys\.bias'",
    ),
    "one more weight": (
        weight("decoder.transformer_layers.0.moe.w", np.zeros(3, "float32")),
        r"no weights for decoder\.transformer_layers\.0\.moe\.w",
    ),
    "a weight with two names": (
        weight("generator.0.bias", np.zeros(8, "float32")),
        r"generator\.0\.bias and generator\.bias are the same weight",
    ),
    "a copy with other values": (
        weight("generator.weight", np.zeros((8, 8), "float32")),
        r"generator\.weight must equal decoder\.embeddings\..*, which it is tied to",
    ),
    "a shape": (
        weight("encoder.transformer.1.feed_forward.w_1.weight", np.zeros((12, 9), "float32")),
        r"w_1\.weight: expected the shape \(8, 12\) .* Received: \(9, 12\)",
    ),
    "not finite": (
        weight("encoder.layer_norm.bias", np.full(8, np.inf, "float32")),
        "8 of the 8 numbers in encoder/final_norm/beta are NaN or infinite",
    ),
    "one entry less": (
        vocab(tgt=[*SPECIAL, *"uvw"]),
        r"emb_luts\.0\.weight must have a row for each of the 7 entries .* shape \(8, 8\)",
    ),
    "an entry twice": (vocab(tgt=[*SPECIAL, *"uvwu"]), "tokens of tgt must be different strings"),
    "an entry that is no text": (vocab(src=[*SPECIAL, 1]), "tokens of src must be different str"),
    "an entry with a space": (vocab(tgt=[*SPECIAL, "a b", *"uvw"]), "without spaces in them"),
    "half a character": (vocab(tgt=[*SPECIAL, "\ud800", *"uvw"]), "without spaces in them"),
    "no unknown token": (vocab(src=["<blank>", *"abcdefghi"]), "expected the token <unk>"),
    "no end": (vocab(tgt=["<blank>", "<unk>", "<s>", *"uvwxy"]), "expected the token </s>"),
    "a start": (vocab(decoder_start_token="<go>"), "decoder_start_token='<go>' is not supported"),
    "vocabularies of features": (vocab(src_feats=[["a"]]), "features of words"),
    "an old vocabulary": (state(vocab=[["src", 5]]), "vocab is of a version before 1.0"),
    "no list": (vocab(src=5), "src must be a list of tokens"),
    "options are missing": (state(opt=None), "a checkpoint of OpenNMT-py, with vocab, opt"),
    "options are a number": (state(opt=5), "opt must be a namespace, got 5"),
    "no logits": (state(generator=None), "expected a checkpoint of OpenNMT-py, with generator"),
    "no weights": (state(model=None), r"no weights; expected .*, or model_step_9\.safetensors bes"),
    "a name that is not printable": (
        weight("decoder.\x7f", np.zeros(3, "float32")),
        r"the name of a tensor is not printable text: 'decoder\.\\x7f'",
    ),
    "weights are no tensors": (state(model={"a": 5}), r"model: 'a' must be a tensor, got a int"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(original, tmp_path, fault):
    change, message = FAULTS[fault]
    change(original)
    check_refused(original.write(tmp_path / "theirs"), tmp_path, message, "opennmt-py")


def test_code_is_not_run(original, tmp_path):
    original.state["optim"] = running(tmp_path / "run")
    folder = original.write(tmp_path / "theirs")
    check_refused(folder, tmp_path, r"contains os\.system, which is not a tensor", "opennmt-py")


@pytest.mark.parametrize("size", [0, 3, 100, 2000, -200, -1])
def test_truncated_files(original, tmp_path, size):
    folder = original.write(tmp_path / "theirs")
    path = folder / "model_step_9.pt"
    os.truncate(path, size % path.stat().st_size)
    check_refused(folder, tmp_path, r"model_step_9\.pt: ", "opennmt-py")


def test_recognition(original, tmp_path):
    folder = original.write(tmp_path / "theirs")
    path = folder / "model_step_9.pt"
    assert find_format(folder).name == find_format(path).name == "opennmt-py"
    os.truncate(path, 30)
    with pytest.raises(ValueError, match="not recognized"):
        find_format(path)
    write_torch(path, {"state_dict": {"a": np.zeros(3, "float32")}})
    with pytest.raises(ValueError, match="not recognized"):
        find_format(folder)


def test_weights_in_a_file_of_their_own(original, tmp_path):
    expected = OpenNMTPy().read(original.write(tmp_path / "one"))
    original.state |= {"model": None, "generator": None}
    original.vocab["decoder_start_token"] = "<s>"
    folder = original.write(tmp_path / "two")
    path = folder / "model_step_9.safetensors"
    shapes = {name: array.shape for name, array in original.weights.items()}
    write_safetensors(path, shapes, original.weights.items())
    assert find_format(folder).name == "opennmt-py"
    found = OpenNMTPy().read(folder)
    assert found[:3] == expected[:3]
    for (_, ours), (_, theirs) in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_settings_of_the_model(original, tmp_path):
    original.opt |= dict(layers=2, enc_layers=5, dec_layers=None, norm_eps=1e-5)
    config = OpenNMTPy().read(original.write(tmp_path / "theirs")).config
    assert (config.dropout_rate, config.attention_dropout_rate) == (0.2, 0.1)
    assert config.layer_norm_epsilon == 1e-5 and not config.source_end
    assert config.num_encoder_layers == config.num_decoder_layers == 2
