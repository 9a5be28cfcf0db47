"""Choosing among candidates of a predictor, with trained models."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.other_models import language_model, reverse_model
from tests.tf_transformer.reranking.test_choice import candidates as make_candidates
from tf_transformer.decoding.search_options import DEFAULT_SEARCH
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.reranking.channel_models import ChannelModels
from tf_transformer.reranking.choice import expected_utilities, noisy_channel_scores
from tf_transformer.reranking.model_scores import PairScorer, TextScorer
from tf_transformer.reranking.predictor_candidates import beam_candidates, sampled_candidates
from tf_transformer.reranking.reranker import Reranker
from tf_transformer.reranking.settings import MinimumBayesRisk, NoisyChannel
from tf_transformer.storage.model_dir import load_model
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.special_ids import BEGIN_ID, END_ID

SAMPLES = MinimumBayesRisk(num_samples=12, seed=3)


@pytest.fixture(scope="module")
def lines(corpus):
    text = (corpus.directory / "test.en").read_text(encoding="utf-8")
    return [line.encode() for line in text.splitlines()[:20]]


@pytest.fixture(scope="module")
def reverse(corpus, tmp_path_factory):
    return reverse_model(corpus, tmp_path_factory)


@pytest.fixture(scope="module")
def language(corpus, tmp_path_factory):
    return language_model(corpus, tmp_path_factory)


@pytest.fixture(scope="module")
def loaded(talkative, reverse, language):
    """Loaded after the trainings, which set random seeds, see `Tokenizer`."""
    return load_model(talkative)


@pytest.fixture(scope="module")
def translator(loaded):
    return Translator(*loaded, beam_size=5, num_best=5)


@pytest.fixture(scope="module")
def predictor(translator):
    """Shared, since its graphs are expensive."""
    return ModelPredictor.of(translator)


@pytest.mark.slow
def test_the_candidates_of_a_beam(loaded, lines):
    """Weights are probabilities: those of the search without a length penalty, normalized."""
    arguments = dict(beam_size=4, length_penalty=1.3)
    translator = Translator(*loaded, num_best=4, **arguments)
    source, _ = translator.tokenize_source(tf.constant(lines))
    hypotheses = translator.search.run(source, num_best=4)
    best = translator.n_best(lines)
    predictor = ModelPredictor.of(translator)
    for row, found in enumerate(beam_candidates(predictor, lines, {"length_penalty": 1.3})):
        texts = [translation.text for translation in best[row]]
        assert found.texts == list(dict.fromkeys(texts))
        if len(found.texts) == 4:
            log_probs = hypotheses.log_probs[row].numpy().astype(float)
            np.testing.assert_allclose(found.log_probs, log_probs, rtol=1e-4)
            expected = np.exp(log_probs) / np.exp(log_probs).sum()
            np.testing.assert_allclose(found.weights, expected, rtol=1e-3)
        np.testing.assert_allclose(found.weights.sum(), 1.0)


@pytest.mark.representatives("one model")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one model", "ensemble"])
def test_log_probs_of_samples(translator, predictor, lines, kind):
    """Each is that of the text as a translation, if its tokens are those of the text."""
    if kind == "ensemble":
        ensemble = Ensemble([translator.model] * 2, [3.0, 1.0])
        translator = Translator(ensemble, *translator.tokenizers)
        predictor = ModelPredictor.of(translator)
    num_equal = num_samples = 0
    samples = sampled_candidates(predictor, lines, SAMPLES)
    for line, found in zip(lines, samples, strict=True):
        np.testing.assert_allclose(found.weights.sum(), 1.0)
        texts = tf.constant(found.texts)
        scores = score_pairs(translator, tf.fill([len(found.texts)], line), texts)
        num_equal += np.isclose(scores.log_prob, found.log_probs, rtol=1e-3).sum()
        num_samples += len(found.texts)
    assert num_samples > 4 * len(lines)
    assert num_equal > 0.6 * num_samples  # the others have other tokens than their texts


@pytest.mark.exhaustive
@pytest.mark.slow
def test_samples_depend_on_their_seed_and_sentence_alone(loaded, lines):
    predictor = ModelPredictor.of_model(*loaded)

    def texts(lines, **given):
        settings = MinimumBayesRisk(num_samples=12, **given)
        return [found.texts for found in sampled_candidates(predictor, lines, settings)]

    together = texts(lines)
    assert texts(lines) == together
    assert texts(lines[::-1])[::-1] == together
    assert texts(lines[3:4]) == together[3:4]
    assert texts([lines[0], lines[0]]) == [together[0]] * 2
    assert texts(lines, seed=2) != together
    assert texts(lines, epsilon=None) != together
    assert sum(map(len, texts(lines, top_p=0.2, epsilon=None))) < sum(map(len, together))
    assert sum(map(len, texts(lines, temperature=0.02))) < 4 * len(lines)


@pytest.mark.representatives("chrf", "samples")
@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [MinimumBayesRisk(), MinimumBayesRisk(utility="bleu"), SAMPLES],
    ids=["chrf", "bleu", "samples"],
)
def test_minimum_bayes_risk(predictor, lines, choice):
    """The translations are candidates, with falling expected utilities; blank lines are empty."""
    reranker = Reranker(predictor, choice, {"beam_size": 5}, num_best=3)
    given = [*lines[:2], b"", b"  ", *lines[2:]]
    found = reranker.translate_batch(given)
    assert found[2] == found[3] == [("", 0.0, False)]
    candidates = reranker.candidates(lines)
    changed = 0
    for own, best in zip(candidates, found[:2] + found[4:], strict=True):
        expected = dict(zip(own.texts, expected_utilities(own, choice.utility), strict=True))
        assert [translation.score for translation in best] == sorted(expected.values())[::-1][:3]
        assert all(expected[translation.text] == translation.score for translation in best)
        changed += best[0].text != own.texts[0]
    assert changed or choice.utility == "bleu"  # the criterion is not that of the search
    as_text = reranker.translate_batch([line.decode() for line in given[:3]])
    assert [[x.text for x in best] for best in as_text] == [
        [x.text for x in best] for best in found[:3]
    ]


@pytest.mark.slow
def test_arguments(predictor):
    with pytest.raises(ValueError, match=r"between 1 and the number of candidates, 4.*num_best=5"):
        Reranker(predictor, MinimumBayesRisk(), {"beam_size": 4}, num_best=5)
    reranker = Reranker(predictor, SAMPLES, {"beam_size": 1}, num_best=12)
    assert reranker.translate_batch([]) == []
    with pytest.raises(ValueError, match=r"`top_p` and `epsilon` .*top_p=0\.9, epsilon=0\.02"):
        MinimumBayesRisk(num_samples=2, top_p=0.9)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_scores_of_other_models(loaded, reverse, language, lines):
    """Log-probabilities of the reverse pair and of the text, token by token."""
    predictor = ModelPredictor.of_model(*loaded, beam_size=3)
    candidates = list(beam_candidates(predictor, lines, DEFAULT_SEARCH | {"beam_size": 3}))
    channel = NoisyChannel(reverse=TrainedModels((reverse,)), language_model=language)
    scores = ChannelModels(channel, []).scores(lines, candidates)
    backwards = Translator(*load_model(reverse))
    model, _, tokenizer = load_model(language)
    for line, own, (from_source, of_text) in zip(lines, candidates, scores, strict=True):
        assert len(own.texts) == len(from_source) == len(of_text)
        expected = score_pairs(backwards, tf.constant(own.texts), tf.fill([len(own.texts)], line))
        np.testing.assert_allclose(from_source, expected.log_prob, rtol=1e-4)
        for text, log_prob in zip(own.texts, of_text, strict=True):
            ids = tokenizer.tokenize([text])[0].numpy().tolist()[: model.config.max_length - 1]
            logits = model({"target": np.array([[BEGIN_ID, *ids]], "int32")})
            table = np.array(tf.nn.log_softmax(logits))[0]
            total = sum(table[place, label] for place, label in enumerate([*ids, END_ID]))
            assert math.isclose(log_prob, total, rel_tol=1e-4)


@pytest.mark.slow
def test_noisy_channel(translator, predictor, reverse, language, lines):
    models = dict(reverse=TrainedModels((reverse,)), language_model=language)

    def translate(reverse_weight, language_model_weight):
        channel = NoisyChannel(
            **models, reverse_weight=reverse_weight, language_model_weight=language_model_weight
        )
        return Reranker(predictor, channel, {"beam_size": 5}, num_best=5).translate_batch(lines)

    # Without weights, everything is that of the search.
    for own, expected in zip(translate(0.0, 0.0), translator.translate_batch(lines), strict=True):
        assert [x.text for x in own] == list(dict.fromkeys(x.text for x in expected))
        np.testing.assert_allclose(own[0].score, expected[0].score, rtol=1e-4)
    candidates = list(beam_candidates(predictor, lines, DEFAULT_SEARCH | {"beam_size": 5}))
    scores = ChannelModels(NoisyChannel(**models), []).scores(lines, candidates)
    changed = 0
    for own, others_, found in zip(candidates, scores, translate(0.8, 0.4), strict=True):
        expected = noisy_channel_scores(own, *others_, 0.8, 0.4)
        np.testing.assert_allclose([x.score for x in found], np.sort(expected)[::-1], rtol=1e-6)
        assert found[0].text == own.texts[int(np.argmax(expected))]
        changed += found[0].text != own.texts[0]
    assert changed


def test_the_reverse_model_sees_tags_of_its_own_only():
    """The sources lose theirs, and the candidates get those of the reverse model."""
    texts = ["a dog", "two cats", "x"]
    seen = {}

    class Recorder:
        def __call__(self, sources, targets):
            seen["sources"], seen["targets"] = sources, targets
            return np.zeros(len(sources))

    channel = NoisyChannel(reverse_tags="<2en> ", num_source_tags=2)
    models = ChannelModels(channel, ["de", "fr"])
    models._reverse = Recorder()
    candidates = [make_candidates([f"{text}!", ""]) for text in texts]
    tagged = [f"<2de> <2fr> {text}".encode() for text in texts]
    models.scores(tagged, candidates)
    assert seen["targets"] == [text for text in texts for _ in range(2)]
    assert seen["sources"] == [tag for text in texts for tag in (f"<2en> {text}!", "")]


@pytest.mark.slow
def test_models_of_the_wrong_kind(loaded, language):
    with pytest.raises(ValueError, match=r"expected a language model\. Received: a Transformer"):
        TextScorer(loaded[0], loaded[2])
    model, _, tokenizer = load_model(language)
    with pytest.raises(ValueError, match="has no source to translate"):
        PairScorer(model, None, tokenizer)
