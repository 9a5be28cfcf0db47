"""Strings in, strings out."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.errors import InputError
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator
from tf_transformer.predictors.completer import Completer
from tf_transformer.storage.model_dir import load_model

ODD = [
    b"",
    b"   ",
    b"\xff\xfe\xe4",
    "😀 e\u0301".encode(),
    b"word " * 1000,
    b"x" * 5000,
    b"\x00\t\r",
]


@pytest.fixture(scope="module")
def loaded(talkative):
    return load_model(talkative)


@pytest.fixture(scope="module")
def make(loaded):
    """Makes a translator with options, once for all tests: its graph is expensive."""
    return functools.cache(lambda **options: Translator(*loaded, **options))


@pytest.fixture(scope="module", params=[1, 4], ids=["greedy", "beam"])
def translator(make, request):
    return make(beam_size=request.param)


@pytest.fixture(scope="module")
def sentences(corpus):
    return (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:70]


@pytest.mark.slow
def test_one_answer_a_row_for_odd_strings(translator):
    found = translator.translate(tf.constant(ODD))
    assert found.text.shape == (len(ODD), 1)
    for text in found.text.numpy()[:, 0]:
        text.decode("utf-8")
    assert np.all(np.isfinite(found.scores))
    assert found.text.numpy()[:2, 0].tolist() == [b"", b""]
    assert found.scores.numpy()[:2, 0].tolist() == [0.0, 0.0]
    assert found.truncated.numpy().tolist() == [False, False, False, False, True, True, False]


@pytest.mark.slow
def test_truncation_keeps_the_beginning(loaded, translator):
    """The limit is the config's 40 tokens, one of them the end."""
    tokenizer = loaded[1]
    ids = tokenizer.tokenize(tf.constant(["the train to Vienna " * 20])).values
    whole = tokenizer.detokenize(ids[tf.newaxis, :39])
    found = translator.translate(tf.concat([["the train to Vienna " * 20], whole], 0))
    assert found.truncated.numpy().tolist() == [True, False]
    assert found.text[0, 0] == found.text[1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 70])
def test_any_batch_size(translator, sentences, size):
    found = translator.translate(tf.constant(sentences[:size], tf.string))
    assert found.text.shape == (size, 1)
    assert found.truncated.shape == (size,)


@pytest.mark.slow
def test_batch_equals_sentences_one_by_one(translator, sentences):
    together = translator.translate(tf.constant(sentences))
    for row in range(0, len(sentences), 3):
        alone = translator.translate(tf.constant([sentences[row]]))
        assert alone.text[0, 0] == together.text[row, 0]
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-4)


def test_order_does_not_matter(translator, sentences):
    mixed = ODD + [sentence.encode() for sentence in sentences]
    order = np.random.default_rng(0).permutation(len(mixed))
    there = translator.translate(tf.constant(mixed)).text.numpy()
    back = translator.translate(tf.constant([mixed[place] for place in order])).text.numpy()
    np.testing.assert_array_equal(there[order], back)


@pytest.mark.slow
def test_n_best_is_sorted_and_starts_with_the_best(make, sentences):
    best = make(beam_size=4).translate(tf.constant(sentences))
    found = make(beam_size=4, num_best=4).translate(tf.constant(sentences))
    assert found.text.shape == (70, 4)
    np.testing.assert_array_equal(found.text[:, 0], best.text[:, 0])
    assert np.all(np.diff(found.scores, axis=1) <= 0)


def test_translate_lines_keeps_order_over_batches(translator, sentences):
    lines = list(translator.translate_lines(sentences, batch_size=16))
    found = translator.translate(tf.constant(sentences)).text.numpy()
    assert [best[0].text.encode() for best in lines] == found[:, 0].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam_size": 0}, "`beam_size` must be an integer between 1 and 1000. .*beam_size=0"),
        ({"beam_size": "4"}, "integer between 1 and 1000. Received: beam_size='4'"),
        ({"beam_size": 2.5}, "Received: beam_size=2.5"),
        ({"beam_size": True}, "Received: beam_size=True"),
        ({"beam_size": None}, "Received: beam_size=None"),
        ({"num_best": "1"}, "`num_best` must be an integer between 1 and `beam_size`"),
        (
            {"length_penalty": "high"},
            "`length_penalty` must be between 0 and 10. Received: length_penalty='high'",
        ),
        ({"max_length_factor": None}, "`max_length_factor` must be at least 0"),
        ({"max_length_constant": "a"}, "`max_length_constant` must be at least 0"),
        ({"chunk_size": 1.5}, "`chunk_size` must be a positive integer. Received: chunk_size=1.5"),
        ({"end_pieces": "ab"}, "`end_pieces` must be a list of strings.*a single string, 'ab'"),
        ({"end_pieces": 7}, "`end_pieces` must be a list of strings. Received: int"),
        ({"beam_size": 2, "num_best": 3}, "Received: num_best=3, beam_size=2"),
        (
            {"length_penalty": -1.0},
            "`length_penalty` must be between 0 and 10. Received: length_penalty=-1.0",
        ),
        ({"max_length_factor": -0.5}, "`max_length_factor` must be at least 0"),
        ({"max_length_factor": float("inf")}, "`max_length_factor` must be at least 0 and at most"),
        ({"max_length_constant": 2**21}, "`max_length_constant` must be at least 0 and at most"),
        ({"chunk_size": 0}, "`chunk_size` must be a positive integer"),
    ],
)
def test_refuses(loaded, arguments, message):
    with pytest.raises(ValueError, match=message):
        Translator(*loaded, **arguments)


def test_a_source_needs_its_tokenizer(loaded):
    model, _, target_tokenizer = loaded
    with pytest.raises(ValueError, match="`source_tokenizer` must be a `Tokenizer`"):
        Translator(model, None, target_tokenizer)


@pytest.mark.slow
def test_an_end_piece_ends_the_output(loaded, make, sentences):
    """Where greedy search meets it, the output stops before it; the rest stays as it is.

    It holds for samples and scores too.
    """
    tokenizer = loaded[2]
    text = tf.constant(sentences)
    ids = tokenizer.tokenize(make(beam_size=1).translate(text).text[:, 0]).to_list()
    common = max(range(4, tokenizer.vocab_size), key=lambda piece: sum(piece in x for x in ids))
    ended = Translator(
        *loaded, beam_size=1, length_penalty=0.0, end_pieces=[tokenizer.pieces[common]]
    )
    found = ended.translate(text)
    found_ids = tokenizer.tokenize(found.text[:, 0]).to_list()
    cut = [row[: row.index(common)] if common in row else row for row in ids]
    assert found_ids != ids
    assert sum(ours == theirs for ours, theirs in zip(found_ids, cut, strict=True)) > 0.9 * len(cut)
    assert not any(common in row for row in found_ids)

    rows = tf.zeros(len(sentences), tf.int32)
    zeros = tf.zeros(len(sentences))
    options = SamplingOptions(zeros, rows, zeros, tf.cast(rows, tf.int64), rows)
    assert (sample_translations(ended, text, options).text == found.text[:, 0]).numpy().all()
    scores = score_pairs(ended, text, found.text[:, 0]).log_prob
    # What is split into other pieces when it is read again has another score.
    near = np.abs(scores - found.scores[:, 0]) < 1e-3
    assert near.mean() > 0.9


def test_end_pieces_must_be_in_the_vocabulary(loaded):
    with pytest.raises(ValueError, match=r"`end_pieces` must be pieces .* Received: 'Zugspitze'"):
        Translator(*loaded, end_pieces=["Zugspitze"])


@pytest.mark.slow
def test_bfloat16_translates_nearly_alike(talkative, loaded, make, sentences):
    """Half the bytes of the layers, scores in float32."""
    half = load_model(talkative, "bfloat16")
    assert half[0].encode(tf.constant([[5, 3]])).dtype == tf.bfloat16
    sizes = [
        sum(weight.numpy().nbytes for weight in model.encoder.weights)
        for model in (half[0], loaded[0])
    ]
    assert sizes[0] * 2 == sizes[1]
    ours, theirs = (
        translator.translate(tf.constant(sentences))
        for translator in (Translator(*half, beam_size=4), make(beam_size=4))
    )
    assert ours.scores.dtype == tf.float32
    np.testing.assert_allclose(np.median(ours.scores - theirs.scores), 0, atol=0.03)
    same = [a == b for a, b in zip(ours.text.numpy(), theirs.text.numpy(), strict=True)]
    assert np.mean(same) > 0.5


# As a user of Python has it: one object, lists of strings


@pytest.mark.slow
def test_a_loaded_translator_is_called_with_a_list(talkative, sentences, make):
    """The same translations as by hand, as plain strings; a path may be a string."""
    translator = Translator.load(str(talkative), beam_size=4, num_best=4)
    found = make(beam_size=4, num_best=4).translate(tf.constant(sentences))
    expected = [[text.decode() for text in row] for row in found.text.numpy().tolist()]
    assert translator(sentences) == [row[0] for row in expected]
    best = translator.n_best(sentences)
    assert [[translation.text for translation in row] for row in best] == expected
    scores = [[translation.score for translation in row] for row in best]
    np.testing.assert_allclose(scores, found.scores, atol=1e-4)
    truncated = [row[0].truncated for row in best]
    assert truncated == found.truncated.numpy().tolist()
    assert set(truncated) == {True, False}


def test_lists_of_any_kind_and_size(translator, sentences):
    expected = translator(sentences[:3])
    assert all(type(text) is str for text in expected)
    assert translator(tuple(sentences[:3])) == expected
    assert translator(np.array(sentences[:3])) == expected
    assert translator(tf.constant(sentences[:3])) == expected
    assert len(list(translator.translate_lines(tf.constant(sentences[:3])))) == 3
    assert translator(text.encode() for text in sentences[:3]) == expected
    assert translator([]) == translator.n_best([]) == []
    assert translator([""]) == [""]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("A man sleeps.", "`sentences` must be a list of strings.*single string, 'A man sleeps.'"),
        (b"A man sleeps.", "single string"),
        (["A man sleeps.", None], "Received: NoneType at index 1"),
        ({"A man sleeps.": 1}, r"Received: dict\. Give its texts as a list"),
        (tf.constant("A man sleeps."), "single string"),
        (7, "Received: int$"),
        (
            ["A man.", "a\ud800"],
            r"`sentences`, index 1: not Unicode text: a lone surrogate, U\+D800",
        ),
    ],
    ids=["string", "bytes", "None", "dictionary", "scalar", "number", "surrogate"],
)
def test_what_is_no_list_of_strings_is_named(translator, sentences, message):
    with pytest.raises(ValueError, match=message):
        translator(sentences)
    with pytest.raises(ValueError, match=message):
        translator.n_best(sentences)
    for translate in (translator.translate_batch, lambda x: list(translator.translate_lines(x))):
        with pytest.raises(ValueError, match=message.replace("`sentences`", "`lines`")):
            translate(sentences)


@pytest.mark.parametrize("dtype", ["float16", "int4", "float64", None, ["int8"]])
def test_dtypes_that_are_none_for_decoding(talkative, dtype):
    message = r"`dtype` must be one of \('float32', 'bfloat16', 'int8'\). Received: "
    with pytest.raises(ValueError, match=message + re.escape(repr(dtype))):
        Translator.load(talkative, dtype=dtype)


@pytest.mark.parametrize("path", [b"/tmp", bytearray(b"/tmp"), 3, None, "/a\0b", [None], [b"/tmp"]])
def test_what_is_no_path_is_named(talkative, path):
    one = path[0] if isinstance(path, list) else path
    message = "must be the path of a model directory, .*Received: "
    with pytest.raises(InputError, match=f"^`model_dir` {message}") as caught:
        Translator.load(path)
    assert "\n" not in str(caught.value)
    for load in (Completer.load, load_model):
        with pytest.raises(InputError, match=f"^`model_dir` {message}"):
            load(one)
    if one is not None:
        for name in ("adapter", "shortlist"):
            with pytest.raises(InputError, match=f"^`{name}` must be the path of the file of a"):
                Translator.load(talkative, **{name: one})


@pytest.mark.parametrize("weights", [3, "ab", [None, 1.0], [True, 1.0], {"a": 1}])
def test_weights_that_are_no_numbers(talkative, weights):
    with pytest.raises(InputError, match=r"^`ensemble_weights` must be a list of numbers, "):
        Translator.load([talkative, talkative], ensemble_weights=weights)


@pytest.mark.parametrize("size", [0, -1, "3", 1.5, None])
def test_batch_sizes_that_are_none(translator, size):
    with pytest.raises(InputError, match=r"^`batch_size` must be a positive integer\. Received"):
        next(translator.translate_lines(["A man sleeps."], batch_size=size))


def test_loading_what_does_not_translate(tmp_path, talkative):
    with pytest.raises(ValueError, match="is not a model directory"):
        Translator.load(tmp_path)
    with pytest.raises(ValueError, match="beam_size"):
        Translator.load(talkative, beam_size=0)
