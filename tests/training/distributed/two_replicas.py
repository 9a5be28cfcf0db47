"""Run by test_distribution.py: one device against two, or two workers, printed as JSON.

A process of its own, because the number of logical devices is fixed once TensorFlow has started;
`TF_CONFIG` makes it one of two workers.
"""

import json
import math
import os
import sys

import keras
import numpy as np
import tensorflow as tf

from tf_transformer import (
    LabelSmoothedCrossEntropy,
    Perplexity,
    TokenAccuracy,
    Transformer,
    TransformerConfig,
)
from tf_transformer.layers.dropout import Dropout
from tf_transformer.losses.metrics import SmoothedLoss
from training.optimizer import Adam
from training.step import TrainableTransformer
from training.trained_weights import freeze

VOCAB = 11
METRICS = ("smoothed", "accuracy", "perplexity")
# Tokens of each row. In every batch the two halves hold very different numbers of tokens.
LENGTHS = {
    "even": ([9, 8, 1, 2], 4),
    "odd": ([1, 2, 9, 8, 7], 5),
    "several_steps": ([1, 2, 9, 8, 7, 9, 1, 1, 3, 5, 1, 1, 8, 9], 5),
    "padding_alone_on_one_device": ([9, 4, 0, 0], 4),
    "a_row_for_one_device_alone": ([6, 7, 3], 2),
}


def make_rows(lengths):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(3, VOCAB, size=(len(lengths), 9)).astype("int32") for _ in range(2)]
    for array in arrays:
        array[np.arange(9) >= np.array(lengths)[:, None]] = 0
    source, labels = arrays
    target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    return {"source": source, "target": target}, labels


def make_dataset(name, is_guided=False):
    lengths, batch_size = LENGTHS[name]
    inputs, labels = make_rows(lengths)
    if is_guided:
        alignment = np.random.default_rng(2).random((*labels.shape, 9)) < 0.3
        real = (labels != 0)[:, :, None] & (inputs["source"] != 0)[:, None]
        inputs["alignment"] = alignment & real
    return tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(batch_size)


def make_model(optimizer, model_class=Transformer, alignment_head=None, run_eagerly=False):
    model = model_class(
        TransformerConfig(
            source_vocab_size=VOCAB,
            target_vocab_size=VOCAB,
            num_encoder_layers=1,
            num_decoder_layers=1,
            d_model=8,
            d_ff=16,
            num_heads=2,
            dropout_rate=0.0,
            alignment_head=alignment_head,
        )
    )
    model.compile(
        optimizer=optimizer,
        loss=LabelSmoothedCrossEntropy(0.1),
        metrics=[SmoothedLoss(0.1, name="smoothed"), TokenAccuracy(), Perplexity()],
        jit_compile=False,
        run_eagerly=run_eagerly,
    )
    return model


def fit_from_start(model, weights, name):
    """Updates of the weights, steps and metrics of one epoch of plain gradient descent."""
    model.set_weights(weights)
    done = int(model.optimizer.iterations.numpy())
    dataset = make_dataset(name, is_guided=getattr(model, "alignment_weight", 0.0) > 0)
    history = model.fit(dataset, epochs=1, verbose=0).history
    updates = [new - old for new, old in zip(model.get_weights(), weights, strict=True)]
    steps = int(model.optimizer.iterations.numpy()) - done
    names = [*METRICS, "alignment_loss"] if "alignment_loss" in history else METRICS
    return updates, steps, {key: history[key][0] for key in names}


def compare(one, two, name):
    lengths, batch_size = LENGTHS[name]
    weights = one.get_weights()
    updates, steps, metrics = fit_from_start(one, weights, name)
    updates_two, steps_two, metrics_two = fit_from_start(two, weights, name)
    largest = max(np.abs(update).max() for update in updates)
    difference = max(np.abs(a - b).max() for a, b in zip(updates, updates_two, strict=True))
    return {
        "largest_update": float(largest),
        "relative_difference": float(difference / largest),
        "steps": [steps, steps_two],
        "expected_steps": math.ceil(len(lengths) / batch_size),
        "metrics": [metrics, metrics_two],
    }


def compare_all(strategy):
    """A model outside of any strategy and its equal under one, through all of `LENGTHS`.

    Without a strategy, the few steps take less time than tracing one.
    """
    keras.utils.set_random_seed(1)
    one = make_model(keras.optimizers.SGD(0.5), run_eagerly=True)
    with strategy.scope():
        two = make_model(keras.optimizers.SGD(0.5))
    uneven_first_batch = fit_uneven_first_batch(two)
    results = {name: compare(one, two, name) for name in LENGTHS}
    evaluated = [
        model.evaluate(make_dataset("several_steps"), verbose=0, return_dict=True)
        for model in (one, two)
    ]
    evaluated = [{key: values[key] for key in METRICS} for values in evaluated]
    return results, evaluated, uneven_first_batch


def compare_micro_batches(strategy, r_drop=0.0, frozen=()):
    """Keras' step over whole batches on one device, the project's over parts of them on two.

    Without dropout, R-Drop changes nothing.
    """
    keras.utils.set_random_seed(1)
    one = make_model(keras.optimizers.SGD(0.5), run_eagerly=True)
    with strategy.scope():
        two = make_model(keras.optimizers.SGD(0.5), model_class=TrainableTransformer)
    for model in (one, two):
        freeze(model, frozen)
    two.num_micro_batches = 3
    two.r_drop = r_drop
    return {name: compare(one, two, name) for name in LENGTHS}


def compare_guided(strategy):
    """Guided alignment over whole batches on one device, and over parts of them on two."""
    keras.utils.set_random_seed(1)
    settings = dict(model_class=TrainableTransformer, alignment_head=1)
    one = make_model(keras.optimizers.SGD(0.5), **settings, run_eagerly=True)
    with strategy.scope():
        two = make_model(keras.optimizers.SGD(0.5), **settings)
    one.alignment_weight = two.alignment_weight = 3.0
    two.num_micro_batches = 3
    return {name: compare(one, two, name) for name in LENGTHS}


def apply_adam(strategy):
    """Three updates, the second not finite on one device; clipped by the norm of the sum."""
    starts = [np.ones((3, 4), "float32"), np.ones(5, "float32")]
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(3, 2, 17)).astype("float32")  # of every update and replica
    gradients[1, 1, 3] = np.nan

    def split(flat):
        return [tf.reshape(flat[:12], (3, 4)), flat[12:]]

    def run(strategy, updates):
        with strategy.scope():
            variables = [keras.Variable(start) for start in starts]
            optimizer = Adam(0.1, clip_norm=1.0)
            optimizer.build(variables)

        def apply(update):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            optimizer.apply(split(tf.gather(update, replica)), variables)

        step = tf.function(lambda update: strategy.run(apply, args=(update,)))
        for update in updates:
            step(tf.constant(update))
        values = np.concatenate([variable.numpy().ravel() for variable in variables])
        return {"values": values.tolist(), "skipped": int(optimizer.skipped.numpy())}

    default = tf.distribute.get_strategy()
    return [run(default, gradients.sum(axis=1, keepdims=True)), run(strategy, gradients)]


def draw_dropout(strategy):
    """Two successive masks of each replica."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        dropout = Dropout(0.5)

    @tf.function
    def draw():
        return strategy.run(lambda: dropout(tf.ones((8, 8)), training=True))

    draws = [strategy.experimental_local_results(draw()) for _ in range(2)]
    return [[mask.numpy().tolist() for mask in draw] for draw in draws]


def fit_uneven_first_batch(model):
    """Of a new model; the batch has 5 rows for 2 devices."""
    dataset = make_dataset("several_steps")
    history = model.fit(dataset, epochs=8, verbose=0).history
    return {
        "first_batch": len(next(iter(dataset))[1]),
        "smoothed": history["smoothed"],
        "iterations": int(model.optimizer.iterations.numpy()),
    }


def make_strategy():
    if os.environ.get("TF_CONFIG"):
        return tf.distribute.MultiWorkerMirroredStrategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def main():
    strategy = make_strategy()
    comparisons, evaluated, uneven_first_batch = compare_all(strategy)
    kinds = {
        "micro_batches": lambda: compare_micro_batches(strategy),
        "r_drop": lambda: compare_micro_batches(strategy, r_drop=5.0),
        "frozen": lambda: compare_micro_batches(strategy, frozen=["encoder/*", "*embedding*"]),
        "guided": lambda: compare_guided(strategy),
    }
    results = {
        "replicas": strategy.num_replicas_in_sync,
        "uneven_first_batch": uneven_first_batch,
        "comparisons": comparisons,
        **{kind: kinds[kind]() for kind in sys.argv[1:]},
        "adam": apply_adam(strategy),
        "evaluated": evaluated,
        "dropout": draw_dropout(strategy),
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
