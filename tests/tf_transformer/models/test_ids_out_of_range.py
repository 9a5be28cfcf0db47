"""Ids that the vocabulary does not have are an error, in the model as in the loss."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.losses.fused_cross_entropy import projected_cross_entropy
from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy, cross_entropy
from tf_transformer.losses.metrics import TokenAccuracy

VOCABULARY = 7
WRONG = [-1, -VOCABULARY, VOCABULARY, 2**31 - 1, -(2**31)]


@pytest.fixture(scope="module")
def model():
    sizes = dict(num_encoder_layers=1, num_decoder_layers=1, d_model=4, d_ff=6, num_heads=2)
    vocabularies = dict(source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)
    return Transformer(TransformerConfig(**sizes, **vocabularies))


def ways(function):
    """Eagerly, and in a graph."""
    return (function, tf.function(function))


@pytest.mark.representatives("source--1", "target-7")
@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("side", ["source", "target"])
def test_the_model_refuses_ids(model, side, wrong):
    ids = {"source": [[2, 3]], "target": [[2, 3]]}
    model({name: tf.constant(rows) for name, rows in ids.items()})
    ids[side] = [[2, wrong]]
    for call in (*ways(model.call), model):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{wrong} is not in"):
            call({name: tf.constant(rows) for name, rows in ids.items()})


@pytest.mark.representatives("-1", "2147483647")
@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_the_loss_refuses_labels(wrong):
    labels = tf.constant([[2, wrong]])
    logits = tf.random.stateless_normal([1, 2, VOCABULARY], [1, 2])
    loss, accuracy = LabelSmoothedCrossEntropy(), TokenAccuracy()
    for function in (
        lambda: loss.token_losses(labels, logits),
        lambda: cross_entropy(labels, logits),
        lambda: accuracy.values(labels, logits),
        lambda: projected_cross_entropy(logits[0], tf.eye(VOCABULARY), None, labels, 1.0, 0.1)[0],
    ):
        for way in ways(function):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"{wrong} is not in"):
                way()


def test_rows_and_gradients_are_those_of_take():
    """In fewer operations."""
    embedding = TokenEmbedding(vocab_size=VOCABULARY, d_model=4)
    embedding.build()
    ids = tf.constant([[1, 2, 1], [0, 6, 2]])

    def take(ids):
        return ops.take(embedding.embeddings, ids, axis=0) * 2.0

    np.testing.assert_array_equal(embedding(ids), take(ids))
    gradients, sizes = [], []
    for function in (embedding.call, take):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(ids) ** 2)
        gradients.append(tape.gradient(loss, embedding.embeddings.value))
        traced = tf.function(function).get_concrete_function(tf.TensorSpec([None, None], tf.int32))
        sizes.append(len(traced.graph.get_operations()))
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
    np.testing.assert_array_equal(*(gradient.indices for gradient in gradients))
    np.testing.assert_array_equal(*(gradient.values for gradient in gradients))
    assert sizes[0] < sizes[1]


def test_xla_compiles_the_rows():
    embedding = TokenEmbedding(vocab_size=VOCABULARY, d_model=4)
    embedding.build()
    ids = tf.constant([[1, 2, 1]])
    compiled = tf.function(embedding.call, jit_compile=True)
    np.testing.assert_array_equal(compiled(ids), embedding(ids))
