"""Calibration: what is read from a text, and the ranges that its translation gives."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.inference.calibration import DEFAULT_PERCENTILE, Calibration
from tf_transformer.inference.translator import Translator
from tf_transformer.quantization.activation_ranges import products_of
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.quantization.int8_layers import Int8Product
from tf_transformer.storage.model_dir import load_for_decoding, load_model
from tf_transformer.text.text_file import TextFile


def read(path, content, languages=(), num_tags=1):
    path.write_bytes(content)
    file = TextFile.parse(path)
    return Calibration.read(file, DEFAULT_PERCENTILE, list(languages), num_tags)


def test_blank_lines_do_not_count(tmp_path):
    calibration = read(tmp_path / "text", "A dog.\r\n\n \t\n  Zwei Hünde\n".encode())
    assert calibration.sentences == ("A dog.", "  Zwei Hünde")
    assert calibration.facts["sentences"] == 2
    assert calibration.facts["percentile"] == DEFAULT_PERCENTILE
    packed = read(tmp_path / "text.gz", gzip.compress("A dog.\n  Zwei Hünde".encode()))
    assert packed.facts == calibration.facts
    other = read(tmp_path / "other", b"A cat.\nTwo dogs\n")
    assert other.facts["digest_blake2b"] != calibration.facts["digest_blake2b"]


@pytest.mark.parametrize(
    ("content", "languages", "message"),
    [
        (b"", (), "text: expected sentences to calibrate with"),
        (b"\n \n\r\n", (), "every line is blank"),
        (b"a dog\n\xff\xfe\n", (), "text:2: not UTF-8"),
        (b"a dog\0\n", (), "text:1: not text in UTF-8"),
        (b"x" * (2**20 + 5), (), "text:1: expected a sentence, got more than"),
        (b"<2de> a dog\n\na cat\n", ("de", "fr"), "text:3: a source for this vocabulary must"),
    ],
)
def test_faults(tmp_path, content, languages, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "text", content, languages)


def test_two_tags(tmp_path):
    read(tmp_path / "text", b"<2de> <2fr> un chien\n", ("de", "fr"), 2)
    with pytest.raises(ValueError, match=r"text:1: .* and its own"):
        read(tmp_path / "text", b"<2de> un chien\n", ("de", "fr"), 2)


@pytest.fixture
def sentences(corpus):
    lines = (corpus.directory / "validation.en").read_text(encoding="utf-8").splitlines()
    return tuple(lines[:20])


def ranges_of(model_dir, sentences, percentile, **search):
    model, *tokenizers = load_model(model_dir)
    found = Calibration(sentences, percentile).input_ranges(model, *tokenizers, **search)
    assert list(found) == products_of(model)
    assert not is_quantized(model)
    return list(found.values())


@pytest.mark.exhaustive
@pytest.mark.slow
def test_ranges_are_reproducible_and_grow_with_the_percentile(talkative, sentences):
    """The order of the sentences changes the batches, and therefore roundings, but not more."""
    expected = ranges_of(talkative, sentences, 100.0, beam_size=1)
    assert ranges_of(talkative, sentences, 100.0, beam_size=1) == expected
    assert all(np.isfinite(expected)) and min(expected) > 0
    smaller = ranges_of(talkative, sentences, 90.0, beam_size=1)
    assert all(one < other for one, other in zip(smaller, expected, strict=True))
    wide = ranges_of(talkative, sentences, 100.0)
    assert wide != expected  # the decoder's inputs are those of the search


@pytest.mark.slow
def test_a_calibrated_model_is_nearly_as_exact_as_one_with_a_scale_per_row(
    talkative, corpus, sentences
):
    """Scales of each row are the most exact; the ranges of a text cost little, wrong ones much."""
    model, source_tokenizer, target_tokenizer = load_model(talkative)
    lines = [
        (corpus.directory / f"test.{side}").read_text(encoding="utf-8").splitlines()[:60]
        for side in ("en", "de")
    ]
    inputs = {
        "source": tf.ragged.constant(source_tokenizer.encode(lines[0])).to_tensor(),
        "target": tf.ragged.constant(target_tokenizer.encode(lines[1])).to_tensor(),
    }
    expected = model(inputs).numpy()

    def error(input_ranges):
        quantized, *_ = load_for_decoding(talkative, "int8", input_ranges)
        products = [x for x in quantized._flatten_layers() if isinstance(x, Int8Product)]
        assert products
        assert all((x.input_range is None) == (input_ranges is None) for x in products)
        return np.linalg.norm(quantized(inputs).numpy() - expected) / np.linalg.norm(expected)

    def calibrated(*arguments, **options):
        ranges = Calibration(sentences).input_ranges(*arguments, **options)
        values.extend(ranges.values())
        return ranges

    def tenth(model, *_, **__):
        return {layer: value / 10 for layer, value in zip(products_of(model), values, strict=True)}

    values = []
    assert error(calibrated) < 2 * error(None) < error(tenth)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_order_of_rows_changes_no_translation(talkative, corpus, sentences):
    """But few: a last bit, which depends on the batch, can decide a rounding to an integer."""
    test = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:60]
    found = load_for_decoding(talkative, "int8", Calibration(sentences).input_ranges)
    translator = Translator(*found)
    one = translator.translate(tf.constant(test)).text[:, 0].numpy()
    other = translator.translate(tf.constant(test[::-1])).text[::-1, 0].numpy()
    assert np.mean(one == other) > 0.9


@pytest.mark.slow
def test_activations_that_are_not_finite_are_an_error(trained, sentences):
    model, *tokenizers = load_model(trained)
    inner = next(x for x in model._flatten_layers() if x.name == "inner")
    inner.kernel.assign(np.full(inner.kernel.shape, 3e38))
    with pytest.raises(ValueError, match="activations of the model are not finite"):
        Calibration(sentences[:2]).input_ranges(model, *tokenizers)
    assert all(layer.product is None for layer in products_of(model))
