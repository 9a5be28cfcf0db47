"""Converted model directories in CTranslate2: the same log-probabilities and translations."""

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from tests.tf_transformer.formats.random_model import (
    SOURCES,
    TARGETS,
    train_vocabularies,
    write_random_model,
)
from tf_transformer import Translator, load_model
from tf_transformer.formats.convert_model import convert_model

ctranslate2 = pytest.importorskip("ctranslate2")

pytestmark = pytest.mark.slow

LENGTH = 20
CASES = {
    "the paper": (True, dict()),
    "pre-norm": (False, dict(norm_position="pre", positions="concatenated", first_position=2)),
    "Marian": (
        True,
        dict(positions="marian", activation="swish", begin_embedding="zero"),
    ),
    "unequal sides": (
        False,
        dict(
            tied_embeddings="none",
            positions="learned",
            activation="gelu",
            encoder=dict(num_heads=2, d_ff=24, norm_position="pre"),
        ),
    ),
}


class Both:
    """A model directory, loaded, and the same in CTranslate2."""

    def __init__(self, folder, joint, **settings):
        settings = settings | dict(logits_bias=True, end_bias=4.0)
        write_random_model(folder / "ours", train_vocabularies(joint), **settings)
        convert_model(folder / "ours", "ctranslate2", folder / "theirs")
        self.model, self.source, self.target = load_model(folder / "ours")
        self.theirs = ctranslate2.Translator(str(folder / "theirs"), intra_threads=1)
        self.pieces = self.pieces_of(self.source, SOURCES)

    def pieces_of(self, tokenizer, texts):
        ids = tokenizer.tokenize(texts).to_list()
        return [[tokenizer.pieces[token_id] for token_id in row] for row in ids]

    def log_probs(self, source, target):
        """Of the tokens of targets and their ends, given sources; rows of pieces."""
        source_ids = [[*map(self.source.pieces.index, row), 3] for row in source]
        target_ids = [[2, *map(self.target.pieces.index, row), 3] for row in target]
        logits = self.model(
            {
                "source": tf.ragged.constant(source_ids, tf.int32).to_tensor(),
                "target": tf.ragged.constant(target_ids, tf.int32).to_tensor(),
            }
        )
        logits = np.asarray(logits, "float64")
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        return [
            row[np.arange(len(labels) - 1), labels[1:]]
            for row, labels in zip(logits, target_ids, strict=True)
        ]


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    joint, settings = CASES[request.param]
    return Both(tmp_path_factory.mktemp("ctranslate2"), joint, **settings)


def test_log_probabilities(both):
    source, target = both.pieces[:8], both.pieces_of(both.target, TARGETS[:8])
    theirs = both.theirs.score_batch(source, target)
    for ours, score in zip(both.log_probs(source, target), theirs, strict=True):
        assert len(ours) > 5
        np.testing.assert_allclose(ours, score.log_probs, atol=1e-4)


@pytest.mark.representatives("Marian-4")
@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations(both, beam_size):
    """Equal with greedy search, and most with a beam of 4.

    The searches differ: here the beam narrows by one for each hypothesis that ends, and the search
    ends when no live hypothesis can become the best. The scores of all results must be equal.
    """
    translator = Translator(
        both.model, both.source, both.target, beam_size=beam_size, length_penalty=0.0,
        max_length_factor=0.0, max_length_constant=LENGTH,
    )  # fmt: skip
    ours = [best for (best,) in translator.n_best(SOURCES[:100])]
    theirs = both.theirs.translate_batch(
        both.pieces[:100], beam_size=beam_size, length_penalty=0, max_decoding_length=LENGTH,
        min_decoding_length=0, return_scores=True,
    )  # fmt: skip
    decoder = sentencepiece.SentencePieceProcessor(model_proto=both.target.model)
    equal = compared = 0
    for best, result in zip(ours, theirs, strict=True):
        if len(result.hypotheses[0]) == LENGTH:  # cut off, and scored without an end there
            continue
        compared += 1
        if decoder.decode_pieces(result.hypotheses[0]) == best.text:
            assert abs(result.scores[0] - best.score) < 1e-3
            equal += 1
    assert compared > 10
    assert equal == compared if beam_size == 1 else equal > 0.7 * compared
