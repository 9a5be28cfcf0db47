"""Tests of the memory of trained models."""

import gc
import weakref

import pytest
import tensorflow as tf

from tf_transformer.losses.fused_cross_entropy import projected_cross_entropy
from training.tuning.memory import free_trained_models


def _train() -> weakref.ref:
    """Returns a reference to the graph of a training step that is no longer in use."""
    matrix = tf.Variable(tf.ones([8, 4]))

    @tf.function
    def step(hidden):
        with tf.GradientTape() as tape:
            loss, _ = projected_cross_entropy(hidden, matrix, None, tf.constant([[1, 2]]), 2.0, 0.1)
        return tape.gradient(loss, matrix)

    graph = step.get_concrete_function(tf.ones([2, 4])).graph
    return weakref.ref(graph)


@pytest.mark.slow
def test_the_graph_of_a_training_that_has_ended_is_freed():
    graph = _train()
    gc.collect()
    assert graph() is not None  # TensorFlow's registry: if this fails, the function is not needed
    free_trained_models()
    assert graph() is None
