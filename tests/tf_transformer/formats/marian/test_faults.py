"""Damaged, foreign and unsupported files of Marian: one line, and no files."""

import os
import random
import shutil

import numpy as np
import pytest
import yaml

from tests.tf_transformer.formats.marian.marian_files import (
    HELD,
    SETTINGS,
    as_array,
    read_npz,
    write_npz,
)
from tests.tf_transformer.formats.random_model import train_vocabularies, write_random_model
from tf_transformer.errors import InputError
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.marian.reader import Marian

STUDENT = {"transformer-decoder-autoreg": "rnn"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    write_random_model(folder / "ours", train_vocabularies(True), **HELD)
    convert_model(folder / "ours", "marian", folder / "theirs")
    return folder / "theirs"


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "theirs")


def edit_weights(edit):
    def change(folder):
        path = folder / "model.npz"
        write_npz(path, edit(read_npz(path)))

    return change


def put(name, array):
    return edit_weights(lambda arrays: arrays | {name: array})


def without(*names):
    return edit_weights(lambda arrays: {n: x for n, x in arrays.items() if n not in names})


def stored_settings(text):
    return put(SETTINGS, as_array(text))


def edit_settings(**changes):
    """Replaces settings; None removes one. Underscores stand for hyphens."""

    def edit(arrays):
        values = yaml.safe_load(arrays[SETTINGS].tobytes()[:-1])
        values |= {name.replace("_", "-"): value for name, value in changes.items()}
        values = {name: value for name, value in values.items() if value is not None}
        return arrays | {SETTINGS: as_array(yaml.safe_dump(values))}

    return edit_weights(edit)


def decoder(**changes):
    def change(folder):
        values = yaml.safe_load((folder / "decoder.yml").read_text()) | changes
        (folder / "decoder.yml").write_text(yaml.safe_dump(values))

    return change


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def both(*changes):
    return lambda folder: [change(folder) for change in changes]


def yaml_vocabulary(content):
    """A folder without SentencePiece models, with one YAML vocabulary."""
    return both(
        remove("source.spm", "target.spm"),
        decoder(vocabs=["v.yml", "v.yml"]),
        write("v.yml", content),
    )


WORDS = "".join(f"w{number}: {number}\n" for number in range(2, 128))
VOCABULARY = ("</s>: 0\n<unk>: 1\n" + WORDS).encode()
FAULTS = {
    # files
    "no model": (remove("model.npz"), r"model\.npz"),
    "no files": (
        remove("model.npz", "decoder.yml"),
        r"expected decoder\.yml, or one \.npz or \.bin file of Marian, found none",
    ),
    "two models": (
        both(remove("decoder.yml"), write("b.npz", b"")),
        r"found b\.npz, model\.npz; name the file",
    ),
    "no vocabulary": (remove("source.spm"), r"source\.spm"),
    "vocabularies of unknown sides": (
        both(
            remove("decoder.yml"), lambda folder: (folder / "source.spm").rename(folder / "a.spm")
        ),
        r"found a\.spm, target\.spm",
    ),
    "an ensemble": (decoder(models=["a.npz", "b.npz"]), "expected one model, a .npz or .bin"),
    "another model": (decoder(models=["model.onnx"]), "expected one model, a .npz or .bin"),
    "no binary model": (decoder(models=["model.intgemm.bin"]), r"model\.intgemm\.bin"),
    "a wide beam": (decoder(**{"beam-size": 1001}), "expected 1 to 1000. Received: beam-size"),
    "a beam of text": (decoder(**{"beam-size": "4"}), "expected a number. Received: beam-size='"),
    "a shortlist of numbers": (decoder(shortlist=[1, 2]), "expected a list of files. Received: sh"),
    "no list": (decoder(models="model.npz"), r"expected a list of files. Received: models='mod"),
    "no text": (decoder(vocabs=[1, 2]), "expected a list of files"),
    "no names": (decoder(vocabs=["a/..", "/"]), "expected a list of files"),
    "NUL": (decoder(vocabs=["a\0", "b"]), "expected a list of files"),
    "one vocabulary": (decoder(vocabs=["source.spm"]), "expected two vocabularies"),
    "a factored vocabulary": (
        decoder(vocabs=["v.fsv", "v.fsv"]),
        r"v\.fsv: expected a vocabulary named .* factored \(\.fsv\)",
    ),
    "decoder.yml": (write("decoder.yml", b"a: [\n"), "decoder.yml: not YAML"),
    "decoder.yml in Latin-1": (write("decoder.yml", b"\xe4"), "decoder.yml: not UTF-8"),
    "decoder.yml of text": (write("decoder.yml", b"model.npz"), "expected settings with names"),
    # settings
    "foreign": (without(SETTINGS), "no array special:model.yml; expected a model of Marian"),
    "a matrix of settings": (put(SETTINGS, np.zeros((2, 2), np.int8)), r"got the shape \(2, 2\)"),
    "float settings": (put(SETTINGS, np.zeros(9, "f4")), "of type float32"),
    "huge settings": (put(SETTINGS, np.zeros(2**20 + 1, np.int8)), "at most 1,048,576 values"),
    "settings in Latin-1": (put(SETTINGS, np.array([-28, 0], np.int8)), "model.yml: not UTF-8"),
    "no settings": (stored_settings(""), "expected settings with names, got None"),
    "a list": (stored_settings("[a]"), "expected settings with names, got"),
    "an object": (stored_settings("!!python/object:os.system {}"), "expected no tags"),
    "deep settings": (stored_settings("a: " + "[" * 9999), "nested deeper than 20 levels"),
    "aliases": (
        stored_settings("a: &a [x, x, x]\n" + "".join(f"b{i}: [*a, *a]\n" for i in range(2000))),
        "more than 10,000 values",
    ),
    "text": (stored_settings("type: [transformer]"), r"type=\['transformer'\] is not supported"),
    "an RNN": (edit_settings(type="s2s"), "type='s2s' is not supported, only type='transformer'"),
    "heads": (edit_settings(transformer_heads=5), "num_heads"),
    "no width": (edit_settings(dim_emb=None), "dim-emb: Field required"),
    "a width of text": (edit_settings(dim_emb="32"), "dim-emb: Input should be a valid integer"),
    "a huge depth": (edit_settings(enc_depth=10**9), "enc-depth: Input should be less than"),
    "one vocabulary size": (edit_settings(dim_vocabs=[128]), "dim-vocabs: List should have at le"),
    "tied layers": (edit_settings(transformer_tied_layers=[1, 1]), "transformer-tied-layers"),
    "pooling": (edit_settings(transformer_pool=True), "transformer-pool=True is not supported"),
    "numbers for words": (edit_settings(right_left=0), "right-left=0 is not supported, only False"),
    "highway": (edit_settings(transformer_postprocess="dhn"), "transformer-postprocess='dhn'"),
    "rms norm": (edit_settings(transformer_postprocess="dar"), "transformer-postprocess='dar'"),
    "norm of embeddings": (
        edit_settings(transformer_postprocess_emb="nd"),
        "transformer-postprocess-emb='nd' is not supported, only 'd' or ''",
    ),
    "skip connection": (edit_settings(transformer_postprocess_top="a"), "postprocess-top='a'"),
    "activation": (edit_settings(transformer_ffn_activation="gelu"), "activation='gelu'"),
    "average attention": (
        edit_settings(transformer_decoder_autoreg="average-attention"),
        "transformer-decoder-autoreg='average-attention' is not supported",
    ),
    "GRU": (edit_settings(**STUDENT, dec_cell=None), "dec-cell='gru' is not supported, only 'ss"),
    "projection": (
        edit_settings(**STUDENT, transformer_rnn_projection=True),
        "transformer-rnn-projection=True is not supported",
    ),
    "norms in cells": (
        edit_settings(**STUDENT, layer_normalization=True),
        "layer-normalization=True is not supported",
    ),
    "old pre-norm": (
        edit_settings(
            transformer_preprocess="n", transformer_postprocess="da", version="v1.9.36 1a2b 2020"
        ),
        "of version 'v1.9.36 1a2b 2020' is not supported: before Marian 1.11",
    ),
    # weights
    "a missing weight": (without("encoder_l1_ffn_b1"), "No weight 'encoder_l1_ffn_b1' for"),
    "no embedding": (without("Wemb"), r"Wemb must have a row for each of the 128 .* shape None"),
    "no bias": (without("decoder_ff_logit_out_b"), "No weight 'decoder_ff_logit_out_b'"),
    "a superfluous weight": (put("Wpos", np.zeros((3, 3), "f4")), "no weights for Wpos"),
    "both matrices of logits": (
        both(
            edit_settings(tied_embeddings_all=False, tied_embeddings_src=True),
            put("decoder_ff_logit_out_W", np.zeros((32, 128), "f4")),
            put("decoder_ff_logit_out_Wt", np.zeros((128, 32), "f4")),
        ),
        "no weights for decoder_ff_logit_out_Wt",
    ),
    "a layer too many": (edit_settings(dec_depth=3), "No weight 'decoder_l3_self_Wq'"),
    "a layer too few": (edit_settings(dec_depth=1), "no weights for decoder_l2_context_Wk"),
    "another width": (edit_settings(transformer_dim_ffn=40), r"expected the shape \(32, 40\)"),
    "a wrong shape": (
        put("encoder_l1_self_Wq", np.zeros((3, 32), "f4")),
        "encoder_l1_self_Wq: expected parts of equal height",
    ),
    "a scalar": (put("encoder_l1_ffn_b1", np.float32(1)), "encoder_l1_ffn_b1: expected the shape"),
    "a row of logits too few": (
        put("decoder_ff_logit_out_b", np.zeros((1, 127), "f4")),
        r"expected a row for each of the 128 entries of the vocabulary, got a weight of shape \(12",
    ),
    "integers": (
        put("encoder_l1_self_Wq", np.zeros((32, 32), np.int8)),
        "encoder_l1_self_Wq is of type int8; only floating-point",
    ),
    "not finite": (
        put("encoder_l1_ffn_b1", np.full((1, 48), np.nan, "f4")),
        "48 of the 48 numbers in encoder/layer_0/feed_forward/inner/bias are NaN or infinite; "
        "expected finite weights. The file is damaged",
    ),
    "truncated": (lambda folder: os.truncate(folder / "model.npz", 5000), r"model\.npz: "),
    "no archive": (write("model.npz", b"PK\x03\x04" + bytes(99)), r"model\.npz: damaged"),
    "a pickle": (
        put("encoder_l1_ffn_b1", np.array([None])),
        r"encoder_l1_ffn_b1.*: an array of type '\|O' is not supported",
    ),
    # vocabularies
    "a vocabulary one short": (
        edit_settings(dim_vocabs=[129, 129]),
        "source.spm: expected 129 entries, as in dim-vocabs of the model, got 128",
    ),
    "an embedding one short": (
        put("Wemb", np.zeros((127, 32), "f4")),
        r"Wemb must have a row for each of the 128 entries of the vocabulary, got the shape \(127",
    ),
    "no SentencePiece model": (write("target.spm", b"\xff" * 50), "target.spm: Not a SentenceP"),
    "words missing": (yaml_vocabulary(VOCABULARY[:-10]), "expected 128 entries, as in dim-vocabs"),
    "an id twice": (
        yaml_vocabulary(VOCABULARY + b"x: 5\n"),
        "the ids 0 to 128, each once, got 5 for 'x'",
    ),
    "an id of text": (yaml_vocabulary(VOCABULARY + b"x: y\n"), "expected an id, got 'y' for 'x'"),
    "a negative id": (yaml_vocabulary(VOCABULARY + b"x: -1\n"), "an id, got '-1' for 'x'"),
    "a long id": (yaml_vocabulary(VOCABULARY + b"x: " + b"9" * 9999), "an id, got '999"),
    "a word twice": (yaml_vocabulary(VOCABULARY.replace(b"w2:", b"w3:")), "must be different"),
    "no end": (yaml_vocabulary(VOCABULARY.replace(b"</s>", b"x")), "expected the piece </s>"),
    "no unknown": (yaml_vocabulary(VOCABULARY.replace(b"<unk>", b"x")), "expected the piece <unk>"),
    "a nested vocabulary": (yaml_vocabulary(b"{a: {b: 1}}"), "expected only pieces and their ids"),
    "a vocabulary of lists": (yaml_vocabulary(b"[[a, b]]"), "expected only pieces and their ids"),
    "an alias": (yaml_vocabulary(b"a: &x 1\nb: *x\n"), "expected only pieces and their ids"),
    "a tag": (yaml_vocabulary(b"a: !!int 1\n"), "expected only pieces and their ids"),
    "two documents": (yaml_vocabulary(b"a: 1\n---\nb: 1\n"), "expected only pieces and their ids"),
    "an empty vocabulary": (yaml_vocabulary(b""), "expected only pieces and their ids"),
    "a word": (yaml_vocabulary(b"word"), "expected only pieces and their ids"),
    "no YAML": (yaml_vocabulary(b"a: 1\n b\n\t: ["), r"v\.yml: expected only pieces and"),
    "a binary vocabulary": (yaml_vocabulary(b"\xff\xff\x00"), r"v\.yml: not "),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(folder, tmp_path, fault):
    change, message = FAULTS[fault]
    change(folder)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises((InputError, FileNotFoundError), match=message) as error:
        import_model(folder, tmp_path / "models" / "new", "marian")
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    leftovers = sorted(path.name for path in tmp_path.iterdir() if path.name != "models")
    assert leftovers == before and not list(tmp_path.glob("models/*"))


@pytest.mark.slow
def test_random_damage(folder):
    """Whatever the bytes are: a model or one line."""
    generator = random.Random(1)
    contents = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    refused = 0
    for _ in range(150):
        path = generator.choice(list(contents))
        damaged = bytearray(contents[path])
        for _ in range(generator.choice([1, 1, 5, 50])):
            # The directory of the archive is at the end, settings and names are at the beginning.
            region = generator.choice([len(damaged), min(3000, len(damaged))])
            position = generator.randrange(region)
            damaged[-position if generator.random() < 0.5 else position] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            for _, array in Marian().read(folder).weights:
                assert array.dtype == np.float32
        except (InputError, FileNotFoundError) as error:
            refused += 1
            assert "\n" not in str(error)
        path.write_bytes(contents[path])
    assert 20 < refused < 150
