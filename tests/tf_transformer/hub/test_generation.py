"""`generate` returns what this project's search and sampling return."""

import functools

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.hub.tasks import SOURCES, make_task
from tf_transformer import Translator
from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.hub import TransformerSeq2SeqLM
from tf_transformer.hub.generation_options import RowOptions, options_of_sampler
from tf_transformer.inference.sampler import sample_translations
from tf_transformer.storage.model_dir import load_model

TEXTS = ["The museum opens at 3 a.m.", "", "Jan paid $548 for the horse.", "A hat.", "  "]
ROWS = len(TEXTS)


@pytest.fixture(scope="module")
def task(talkative):
    return TransformerSeq2SeqLM.from_model_dir(talkative)


@pytest.fixture(scope="module")
def loaded(talkative):
    return load_model(talkative)


@pytest.fixture(scope="module")
def translator(loaded):
    return Translator(*loaded)


# ---- Beam search ----


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_defaults_are_those_of_the_translator(task, translator):
    expected = translator(TEXTS)
    assert task.generate(TEXTS) == expected
    assert len(set(expected)) == 4
    assert task.generate(TEXTS[0]) == expected[0]
    for inputs in (
        tuple(TEXTS),
        np.array(TEXTS),
        tf.constant(TEXTS),
        [text.encode() for text in TEXTS],
        {"encoder_text": TEXTS},
        {"encoder_text": TEXTS, "decoder_text": [""] * ROWS},
        tf.data.Dataset.from_tensor_slices(TEXTS).batch(2),
        tf.data.Dataset.from_tensor_slices({"encoder_text": TEXTS}).batch(2),
    ):
        assert task.generate(inputs) == expected
    assert task.generate([]) == []


@functools.cache
def graph_of(translator):
    return tf.function(translator.translate_in_graph, autograph=False)


def searched(translator, prompts=("",) * ROWS, **options):
    """Translations of `TEXTS` with options per sentence, straight from the search."""
    values = TranslationOptions.defaults(ROWS)._asdict()
    for name, value in options.items():
        values[name] = tf.cast(tf.broadcast_to(value, [ROWS]), values[name].dtype)
    found = graph_of(translator)(
        tf.constant(TEXTS), TranslationOptions(**values), tf.constant(prompts)
    )
    return [text.decode() for text in found.text[:, 0].numpy()]


@pytest.mark.slow
def test_options_are_those_of_the_search(task, translator):
    default = task.generate(TEXTS)
    for options in (
        dict(length_penalty=2.0, max_length=5),
        dict(length_penalty=0.0, min_length=9, no_repeat_ngram=2),
        dict(coverage_penalty=1.0, max_length=[3, 0, 7, 1, 2]),
        dict(beam_size=[1, 4, 2, 4, 3]),
    ):
        assert task.generate(TEXTS, **options) == searched(translator, **options)
    assert task.generate(TEXTS, beam_size=1) == searched(translator, beam_size=1) != default
    longest = task.generate(TEXTS, max_length=3)
    assert max(task.tokenizers[1].tokenize(tf.constant(longest)).row_lengths()) == 3


@pytest.mark.exhaustive
@pytest.mark.slow
def test_larger_beams_than_the_default(task, loaded):
    assert task.generate(TEXTS, beam_size=6) == Translator(*loaded, beam_size=6)(TEXTS)


@pytest.mark.slow
def test_outputs_continue_the_prompts(task, translator):
    prompts = ["Ein Huhn", "", "", "Zwei", ""]
    found = task.generate({"encoder_text": TEXTS, "decoder_text": prompts})
    assert found == searched(translator, prompts)
    assert found[0].startswith("Ein Huhn") and found[3].startswith("Zwei")


@pytest.mark.slow
def test_further_ids_that_end_an_output(task):
    whole = task.generate(TEXTS)
    assert "um" in whole[0].split()
    token_id = task.preprocessor.target_tokenizer.token_to_id("▁um")
    found = task.generate(TEXTS, stop_token_ids=[3, token_id])
    assert "um" not in " ".join(found).split()
    assert len(found) == ROWS and found != whole


# ---- Sampling ----


@pytest.mark.slow
def test_samples_are_this_project_s(task, translator):
    columns = [
        np.full(ROWS, 0.7, "float32"),
        np.full(ROWS, 20, "int32"),
        np.full(ROWS, 0.95, "float32"),
        5 + np.arange(ROWS),
        np.full(ROWS, 12, "int32"),
    ]
    found = sample_translations(translator, tf.constant(TEXTS), SamplingOptions(*columns))
    expected = [text.decode() for text in found.text.numpy()]
    options = dict(temperature=0.7, top_k=20, top_p=0.95, seed=5, max_length=12)
    assert task.generate(TEXTS, **options) == expected
    assert task.generate(TEXTS, **options | {"seed": [5, 6, 7, 8, 9]}) == expected
    greedy = task.generate(TEXTS, beam_size=1)
    assert task.generate(TEXTS, temperature=0) == greedy


@pytest.mark.slow
def test_samples_differ_unless_they_are_seeded(task):
    same = [TEXTS[0]] * 8
    first = task.generate(same, temperature=2.0)
    assert len(set(first)) > 4
    assert task.generate(same, temperature=2.0) != first
    assert len(set(task.generate(same, temperature=2.0, seed=[7] * 8))) == 1
    found = []
    for _ in range(2):
        np.random.seed(3)  # as `keras.utils.set_random_seed` does
        found.append(task.generate(same, top_k=9))
    assert found[0] == found[1]


@pytest.mark.slow
def test_samplers_of_keras_hub_choose_the_options(task):
    beam, greedy = task.generate(TEXTS), task.generate(TEXTS, beam_size=1)
    sample = task.generate(TEXTS, top_k=5, seed=1)
    task.compile(sampler="greedy")
    assert task.generate(TEXTS) == greedy
    assert task.generate(TEXTS, beam_size=4) == beam
    assert task.generate(TEXTS, top_k=5, seed=1) == sample
    task.compile(sampler=keras_hub.samplers.TopKSampler(k=5, seed=1))
    assert task.generate(TEXTS) == sample
    assert task.generate(TEXTS, beam_size=4) == beam
    task.compile()
    assert task.generate(TEXTS) == beam


def test_options_of_samplers():
    samplers = keras_hub.samplers
    plain = {"temperature": 1.0, "seed": None}
    for sampler, expected in (
        ("auto", {}),
        ("greedy", {"beam_size": 1}),
        ("beam", {"beam_size": 5}),
        (samplers.BeamSampler(num_beams=7), {"beam_size": 7}),
        ("random", plain),
        ("top_k", plain | {"top_k": 5}),
        ("top_p", plain | {"top_p": 0.1, "top_k": 0}),
        (
            samplers.TopPSampler(p=0.9, k=40, temperature=0.5, seed=3),
            {"top_p": 0.9, "top_k": 40, "temperature": 0.5, "seed": 3},
        ),
    ):
        assert options_of_sampler(sampler) == expected
    for sampler in ("contrastive", "no such", None, 3):
        with pytest.raises(ValueError, match=r'`sampler` must be "auto", or the greedy, beam'):
            options_of_sampler(sampler)


# ---- What is refused ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_sise": 4}, r"Unknown option: 'beam_sise'; did you mean 'beam_size'"),
        ({"beam_size": 4, "top_k": 3}, r"cannot be combined. Received: \['beam_size', 'top_k'\]"),
        ({"beam_size": 0}, r"`beam_size` must be an integer between 1 and 1000. Received: .*=0"),
        ({"beam_size": 1001}, r"between 1 and 1000. Received: beam_size=1001"),
        ({"beam_size": 2.0}, r"`beam_size` must be an integer of at least 0.*beam_size=2.0"),
        ({"beam_size": [1, 2]}, r"or one for each of 3 sentences. Received: beam_size=\[1, 2\]"),
        ({"length_penalty": -1}, r"`length_penalty` must be a number of at least 0"),
        ({"length_penalty": "a"}, r"Received: length_penalty='a'"),
        ({"max_length": 2**31}, r"`max_length` must be an integer of at least 0"),
        ({"max_length": True}, r"Received: max_length=True"),
        ({"temperature": float("nan")}, r"`temperature` must be a number.*temperature=nan"),
        ({"temperature": 1e300}, r"`temperature` must be a number"),
        ({"seed": -1}, r"`seed` must be an integer of at least 0"),
        ({"seed": 2**63}, r"`seed` must be an integer of at least 0"),
        ({"top_p": [[0.1]] * 3}, r"`top_p` must be a number"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RowOptions.make(options, {}, 3)


def test_columns():
    options = RowOptions.make({"beam_size": [1, 8, 2], "max_length": None}, {"beam_size": 3}, 3)
    assert (options.is_sampling, options.beam_size) == (False, 8)
    columns = TranslationOptions(*options.columns)
    assert columns.beam_size.tolist() == [1, 8, 2]
    assert columns.length_penalty.tolist() == [-1.0] * 3
    assert [column.dtype for column in columns] == ["int32", "float32", *["int32"] * 3, "float32"]
    assert RowOptions.make({}, {}, 2).beam_size == 4
    assert RowOptions.make({}, {}, 0).columns[0].shape == (0,)
    options = RowOptions.make({"max_length": 9}, {"top_k": 5, "seed": 2}, 3)
    assert options.is_sampling
    columns = SamplingOptions(*options.columns)
    assert columns.temperature.tolist() == [1.0] * 3
    assert columns.top_k.tolist() == [5] * 3
    assert columns.seed.tolist() == [2, 3, 4]
    assert columns.max_length.tolist() == [9] * 3
    assert not RowOptions.make({"min_length": 1}, {"top_k": 5}, 3).is_sampling


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (5, {}, r"`inputs` must be a list of strings. Received: int"),
        ([5], {}, r"`inputs` must be a list of strings. Received: int at index 0"),
        ({"text": ["a"]}, {}, r"must have the key encoder_text. Received: the keys \['text'\]"),
        ({"encoder_text": ["a"], "decoder_text": []}, {}, r"one string for each .* 0 and 1"),
        (["a"], {"strip_prompt": True}, r"`strip_prompt` must be False"),
        (["a"], {"stop_token_ids": None}, r'must be "auto" or a list of token ids. Rec.*=None'),
        (["a"], {"stop_token_ids": [999]}, r"stop_token_ids=\[999\]"),
        ({"encoder_text": ["a"], "decoder_text": ["b"]}, {"top_k": 2}, r"Sampling cannot continue"),
    ],
)
def test_inputs_that_are_refused(task, inputs, options, message):
    with pytest.raises(ValueError, match=message):
        task.generate(inputs, **options)


@pytest.mark.slow
def test_scores_that_are_not_finite():
    task = make_task()
    task.backbone.transformer.target_embedding.embeddings.assign(
        np.full(task.backbone.transformer.target_embedding.embeddings.shape, 3e38)
    )
    with pytest.raises(ValueError, match=r"the model's logits are NaN or infinite"):
        task.generate(SOURCES, beam_size=1)
