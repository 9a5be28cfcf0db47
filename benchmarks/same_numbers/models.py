"""Collects what models compute in Python: initial weights, logits, losses, gradients, `fit`."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from benchmarks.same_numbers.numbers import Numbers
from tf_transformer import (
    HeadMasks,
    LabelSmoothedCrossEntropy,
    LanguageModel,
    NoamSchedule,
    Perplexity,
    SmoothedLoss,
    TokenAccuracy,
    Transformer,
    TransformerConfig,
    prune_heads,
)

VOCABULARY = 50
SIZES = dict(
    source_vocab_size=VOCABULARY,
    target_vocab_size=VOCABULARY,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=16,
    d_ff=32,
    num_heads=4,
    dropout_rate=0.0,
    max_length=32,
)
TWO_LAYERS = dict(num_encoder_layers=2, num_decoder_layers=2)
DROPOUT = dict(dropout_rate=0.3, attention_dropout_rate=0.2, feed_forward_dropout_rate=0.1)
CONFIGS: dict[str, dict] = {
    "post norm": TWO_LAYERS,
    "pre norm, untied, marian's positions": dict(
        norm_position="pre", tied_embeddings="none", positions="marian"
    ),
    "tied inputs, biased logits, concatenated positions": dict(
        tied_embeddings="inputs", logits_bias=True, positions="concatenated"
    ),
    "relative keys, no positions": dict(
        relative_positions="keys", max_relative_distance=3, positions="none"
    ),
    "relative keys and values": dict(relative_positions="keys_values", max_relative_distance=3),
    "learned positions, gelu": dict(positions="learned", activation="gelu"),
    "swiglu, rms": dict(activation="swiglu", norm_type="rms", norm_position="pre"),
    "layer history": TWO_LAYERS | dict(layer_history=True, norm_position="pre"),
    "sides of different widths": dict(
        source_vocab_size=40,
        encoder=dict(d_model=24, d_ff=40, num_heads=2, norm_position="pre"),
        decoder=dict(cross_num_heads=8, norm_type="l1"),
    ),
    "sample_std, depth-scaled": TWO_LAYERS
    | dict(norm_type="sample_std", norm_position="pre", depth_scaled_initialization=True),
    "dropout": DROPOUT,
    "dropout, pre norm, history, relative": DROPOUT
    | dict(norm_position="pre", layer_history=True, relative_positions="keys_values"),
    "language model": dict(source_vocab_size=None, decoder_only=True, norm_position="pre"),
    "language model, dropout": DROPOUT | dict(source_vocab_size=None, decoder_only=True),
    "mixed_bfloat16": DROPOUT,
    "mixed_float16": dict(norm_position="pre"),
}
LOSSES = ("all", "others", "others_but_padding")


def make_model(name: str) -> keras.Model:
    """Returns a new model of a configuration in `CONFIGS`."""
    config = TransformerConfig(**(SIZES | CONFIGS[name]))
    dtype = name if name.startswith("mixed") else "float32"
    return (LanguageModel if config.decoder_only else Transformer)(config, dtype=dtype)


def make_batch() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns inputs and labels of three padded rows."""
    random = np.random.default_rng(1)
    source, labels = random.integers(4, 40, size=(2, 3, 9))
    source[1, 6:], source[2, 4:], labels[1, 3:], labels[2, 7:] = 0, 0, 0, 0
    target = np.where(labels, np.roll(labels, 1, axis=1), 0)
    target[:, 0] = 2
    return {"source": source.astype("int32"), "target": target.astype("int32")}, labels


def write(files: pathlib.Path) -> None:
    """Saves a model of each configuration in both Keras formats, with noise on all weights."""
    random = np.random.default_rng(1)
    for name in CONFIGS:
        model = make_model(name)
        for weight in model.weights:
            weight.assign_add(0.1 * random.normal(size=weight.shape))
        model.save(files / f"{name}.keras")
        model.save_weights(files / f"{name}.weights.h5")


def dump(numbers: Numbers, files: pathlib.Path) -> None:
    """Collects the numbers of new models and of those that `write` saved."""
    for name in CONFIGS:
        keras.utils.set_random_seed(1)
        model = make_model(name)
        numbers.add("initial weights for a seed", name, _weights(model))
        _dump_read_model(numbers, files, name)
    _dump_fit(numbers, files)
    _dump_pruned(numbers, files)
    _dump_losses(numbers)
    steps = [0, 1, 5, 9, 10, 11, 100, 10000]
    schedule = NoamSchedule(512, 10, 2.0, 0.01, 0.001)
    numbers.add("learning rates", "NoamSchedule", {"": [float(schedule(step)) for step in steps]})


def _dump_read_model(numbers, files, name):
    inputs, labels = make_batch()
    model = keras.saving.load_model(files / f"{name}.keras")
    numbers.add("weights of .keras", name, _weights(model))
    numbers.add("logits", name, {"": model(inputs)})
    keras.utils.set_random_seed(2)
    model = make_model(name)
    model.load_weights(files / f"{name}.weights.h5")
    numbers.add("weights of .weights.h5", name, _weights(model))
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)
        loss = LabelSmoothedCrossEntropy(0.1)(labels, logits)
    numbers.add("logits, training=True", name, {"": logits})
    numbers.add("loss", name, {"": loss})
    gradients = tape.gradient(loss, model.trainable_variables)
    by_path = zip(map(_path, model.trainable_variables), gradients, strict=True)
    numbers.add("gradients", name, {path: tf.convert_to_tensor(x) for path, x in by_path})


def _path(weight):
    """Returns the path without the model's name, which Keras numbers."""
    return weight.path.partition("/")[2]


def _weights(model):
    return {_path(weight): weight for weight in model.weights}


def _dump_fit(numbers, files):
    """Trains three steps with Keras' `fit`."""
    inputs, labels = make_batch()
    keras.utils.set_random_seed(3)
    model = make_model("dropout")
    model.load_weights(files / "dropout.weights.h5")
    model.compile(
        keras.optimizers.Adam(NoamSchedule(16, 2, 0.1)),
        loss=LabelSmoothedCrossEntropy(0.1),
        # With a name, since the default was different before e39c3ed.
        metrics=[SmoothedLoss(name="smoothed"), TokenAccuracy(), Perplexity()],
    )
    history = model.fit(inputs, labels, batch_size=3, epochs=3, shuffle=False, verbose=0)
    numbers.add("weights after 3 steps of fit", "dropout", _weights(model))
    for name, values in history.history.items():
        numbers.add("losses and metrics of fit", name, {"": values})


def _dump_pruned(numbers, files):
    model = keras.saving.load_model(files / "post norm.keras")
    masks = [np.array([[1, 0, 1, 1], [0, 1, 1, 0]], "float32") * keep for keep in (1, 1, 0)]
    prune_heads(model, HeadMasks(*masks))
    numbers.add("logits with heads pruned", "post norm", {"": model(make_batch()[0])})


def _dump_losses(numbers):
    _, labels = make_batch()
    values = np.random.default_rng(1).normal(size=(*labels.shape, VOCABULARY), scale=5)
    logits = tf.constant(values, tf.float32)
    for smoothed_over in LOSSES:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = LabelSmoothedCrossEntropy(0.2, smoothed_over=smoothed_over)(labels, logits)
        numbers.add("losses of given logits", smoothed_over, {"": loss})
        gradient = tape.gradient(loss, logits)
        numbers.add("gradients of given logits", smoothed_over, {"": gradient})
