"""Recorded searches, against hypotheses scored as a whole and against the translator."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.formats.random_model import (
    SOURCES,
    train_vocabularies,
    write_random_model,
)
from tf_transformer.inference.translator import Translator
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, SUPPRESSED_IDS
from training.plots.recorded_search import num_candidates, record_search

SMALL = dict(num_encoder_layers=1, num_decoder_layers=1)
LIMIT = 6


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "model"
    write_random_model(folder, train_vocabularies(True), end_bias=5.0, logits_bias=True, **SMALL)
    return folder


def _score_extensions(translator, source, hypotheses):
    """The log-probability of each hypothesis with one more token, without a cache, in float64."""
    extended = {}
    for ids, log_prob in hypotheses.items():
        inputs = {"source": np.array([[*source, END_ID]]), "target": np.array([[BEGIN_ID, *ids]])}
        logits = np.asarray(translator.model(inputs), "float64")[0, -1]
        token_log_probs = logits - np.log(np.sum(np.exp(logits - logits.max()))) - logits.max()
        for token, token_log_prob in enumerate(token_log_probs):
            if token not in SUPPRESSED_IDS and (token == END_ID or len(ids) < LIMIT):
                extended[(*ids, token)] = (log_prob + token_log_prob, token_log_prob)
    return extended


@pytest.mark.representatives("3")
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_step_chooses_from_the_best_extensions(model_dir, beam_size):
    translator = Translator.load(
        model_dir, beam_size=beam_size, max_length_factor=0, max_length_constant=LIMIT
    )
    source = translator.source_tokenizer.tokenize([SOURCES[0]])[0].numpy().tolist()
    tree = record_search(translator, SOURCES[0])
    live, num_ended = {(): 0.0}, 0
    assert 3 < len(tree.steps) <= LIMIT + 1
    for candidates in tree.steps:
        extended = _score_extensions(translator, source, live)
        assert len(candidates) == min(num_candidates(beam_size), len(extended))
        for candidate in candidates:
            log_prob, token_log_prob = extended[candidate.ids]
            assert candidate.log_prob == pytest.approx(log_prob, abs=1e-4)
            assert candidate.token_log_prob == pytest.approx(token_log_prob, abs=1e-4)
        best = sorted((log_prob for log_prob, _ in extended.values()), reverse=True)
        found = [candidate.log_prob for candidate in candidates]
        np.testing.assert_allclose(found, best[: len(found)], atol=1e-4)
        kept = [candidate.is_kept for candidate in candidates]
        assert kept == [rank < beam_size - num_ended for rank in range(len(candidates))]
        ended = [c for c in candidates if c.is_kept and c.ids[-1] == END_ID]
        assert [c for c in candidates if c.score is not None] == ended
        for candidate in ended:
            penalty = ((5 + len(candidate.ids)) / 6) ** translator.search.length_penalty
            assert candidate.score == pytest.approx(candidate.log_prob / penalty, abs=1e-5)
            assert tree.finished[candidate.ids[:-1]] == pytest.approx(candidate.score, abs=1e-5)
        num_ended += len(ended)
        live = {c.ids: c.log_prob for c in candidates if c.is_kept and c not in ended}
    assert num_ended == len(tree.finished) == beam_size
    assert tree.live.keys() == {
        (),
        *(c.ids for step in tree.steps[:-1] for c in step if c.is_kept and c.score is None),
    }


@pytest.mark.representatives("3")
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_what_has_ended_is_what_the_translator_finds(model_dir, beam_size):
    translator = Translator.load(model_dir, beam_size=beam_size, num_best=beam_size)
    (expected,) = translator.n_best([SOURCES[1]])
    tree = record_search(translator, SOURCES[1])
    texts = [
        translator.target_tokenizer.detokenize(tf.constant([ids]))[0].numpy().decode()
        for ids in tree.finished
    ]
    assert texts == [translation.text for translation in expected]
    np.testing.assert_allclose(
        list(tree.finished.values()), [found.score for found in expected], atol=1e-5
    )
