"""Metrics against NumPy, and against keras-nlp's perplexity."""

import json

import keras
import keras_nlp
import numpy as np
import pytest

from tests.numpy_reference import token_losses
from tf_transformer import LabelSmoothedCrossEntropy
from tf_transformer.losses.metrics import Perplexity, SmoothedLoss, TokenAccuracy

VOCAB = 6
METRICS = [TokenAccuracy, Perplexity, lambda: SmoothedLoss(0.2)]


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


def make_batch(rng, lengths):
    """Labels and logits; the logits lean towards the labels, and at padding towards the pad."""
    labels = np.zeros((len(lengths), max(lengths)), "int32")
    for row, length in enumerate(lengths):
        labels[row, :length] = rng.integers(1, VOCAB, size=length)
    logits = rng.normal(size=(*labels.shape, VOCAB)).astype("float32")
    for index in np.ndindex(labels.shape):
        logits[(*index, labels[index])] += 1.0
    return labels, logits


@pytest.fixture
def batches(rng):
    """Of unequal size in rows, tokens and width."""
    return [make_batch(rng, lengths) for lengths in ([3, 1], [9], [2, 2, 5, 1, 1])]


def reference(metric, batches):
    """Over all real tokens of all batches at once."""
    values = []
    for labels, logits in batches:
        real = labels != 0
        if isinstance(metric, TokenAccuracy):
            values.append((logits.argmax(axis=-1) == labels)[real])
        else:
            label_smoothing = 0.2 if isinstance(metric, SmoothedLoss) else 0.0
            values.append(token_losses(labels, logits, label_smoothing)[real])
    mean = np.concatenate(values).mean()
    return np.exp(mean) if isinstance(metric, Perplexity) else mean


@pytest.mark.parametrize("make", METRICS)
def test_value(make, batches):
    for batch in batches:
        metric = make()
        metric.update_state(*batch)
        np.testing.assert_allclose(metric.result(), reference(metric, [batch]), rtol=1e-5)


@pytest.mark.parametrize("make", METRICS)
def test_batches_of_unequal_size_combine_exactly(make, batches):
    metric = make()
    for batch in batches:
        metric.update_state(*batch)
    expected = reference(metric, batches)
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)
    # The mean over batches is another number: the test can tell the two apart.
    assert abs(expected - np.mean([reference(metric, [batch]) for batch in batches])) > 1e-3


@pytest.mark.parametrize("make", METRICS)
def test_reset(make, batches):
    metric = make()
    metric.update_state(*batches[0])
    metric.reset_state()
    metric.update_state(*batches[1])
    np.testing.assert_allclose(metric.result(), reference(metric, [batches[1]]), rtol=1e-5)


@pytest.mark.parametrize("make", METRICS)
def test_padding_contributes_nothing(make, batches):
    labels, logits = batches[0]
    metric = make()
    metric.update_state(labels, logits)
    expected = float(metric.result())
    metric.reset_state()
    logits = np.where(labels[..., None] == 0, 100 * logits[..., ::-1], logits)
    metric.update_state(np.pad(labels, [(0, 1), (0, 4)]), np.pad(logits, [(0, 1), (0, 4), (0, 0)]))
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-6)


@pytest.mark.parametrize("make", METRICS)
def test_batch_of_padding_alone(make, batches):
    """It leaves the result as it was, and by itself it is no division by zero."""
    metric = make()
    padding = np.zeros((2, 3), "int32"), np.ones((2, 3, VOCAB), "float32")
    metric.update_state(*padding)
    assert np.isfinite(metric.result())
    metric.update_state(*batches[0])
    metric.update_state(*padding)
    np.testing.assert_allclose(metric.result(), reference(metric, [batches[0]]), rtol=1e-5)


def test_perplexity_is_that_of_keras_nlp(batches):
    ours, theirs = Perplexity(), keras_nlp.metrics.Perplexity(from_logits=True, mask_token_id=0)
    for batch in batches:
        ours.update_state(*batch)
        theirs.update_state(*batch)
        np.testing.assert_allclose(ours.result(), theirs.result(), rtol=1e-5)


def test_perplexity_of_a_uniform_model_is_the_vocabulary(batches):
    metric = Perplexity()
    labels, logits = batches[1]
    metric.update_state(labels, np.zeros_like(logits))
    np.testing.assert_allclose(metric.result(), VOCAB, rtol=1e-6)


@pytest.mark.parametrize("make", METRICS)
def test_sample_weight(make, rng, batches):
    """A weight for every token; a whole number is so many copies of it."""
    labels, logits = batches[2]
    weights = rng.integers(0, 4, size=labels.shape)
    metric = make()
    metric.update_state(labels, logits, sample_weight=weights)
    copies = [
        (labels[index].reshape(1, 1), logits[index].reshape(1, 1, VOCAB))
        for index in np.ndindex(labels.shape)
        if labels[index]
        for _ in range(weights[index])
    ]
    np.testing.assert_allclose(metric.result(), reference(metric, copies), rtol=1e-5)


@pytest.mark.parametrize("make", METRICS)
def test_equal_sample_weights_change_nothing(make, batches):
    labels, logits = batches[0]
    metric = make()
    metric.update_state(labels, logits, sample_weight=np.full(labels.shape, 0.01))
    np.testing.assert_allclose(metric.result(), reference(metric, [batches[0]]), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "name", "config"),
    [
        (TokenAccuracy, "accuracy", {}),
        (Perplexity, "perplexity", {}),
        (lambda: SmoothedLoss(0.2), "smoothed_loss", {"label_smoothing": 0.2}),
    ],
)
def test_config_and_serialisation(make, name, config, batches):
    metric = make()
    assert metric.name == name
    assert config.items() <= metric.get_config().items()
    serialised = json.loads(json.dumps(keras.saving.serialize_keras_object(metric)))
    assert serialised["registered_name"] == f"tf_transformer>{type(metric).__name__}"
    restored = keras.saving.deserialize_keras_object(serialised)
    assert restored.get_config() == metric.get_config()
    for each in (metric, restored):
        each.update_state(*batches[0])
    np.testing.assert_array_equal(restored.result(), metric.result())


@pytest.fixture(scope="module")
def evaluated():
    """A compiled model that has computed its metrics, plain and weighted ones."""
    inputs = keras.Input((None, VOCAB))
    model = keras.Model(inputs, keras.layers.Activation("linear")(inputs))
    model.compile(
        loss=LabelSmoothedCrossEntropy(0.1),
        metrics=[SmoothedLoss(name="nats_per_token"), TokenAccuracy()],
        weighted_metrics=[Perplexity(), TokenAccuracy(name="weighted_accuracy")],
        run_eagerly=True,
    )
    model.evaluate(np.ones((2, 3, VOCAB)), np.ones((2, 3), "int32"), verbose=0)
    return model


@pytest.mark.parametrize(
    ("name", "is_better_higher"),
    [
        ("nats_per_token", False),
        ("perplexity", False),
        ("accuracy", True),
        ("weighted_accuracy", True),
        ("loss", False),
    ],
)
@pytest.mark.parametrize("prefix", ["", "val_"])
def test_callbacks_know_what_is_better(name, is_better_higher, prefix, evaluated, tmp_path):
    """`EarlyStopping` and `ModelCheckpoint` without a `mode`."""
    for values, improves in (((0.4, 0.5), is_better_higher), ((0.5, 0.4), not is_better_higher)):
        path, monitored = tmp_path / f"{improves}.keras", prefix + name
        stopping = keras.callbacks.EarlyStopping(monitored, patience=1)
        saving = keras.callbacks.ModelCheckpoint(path, monitored, save_best_only=True)
        written = []
        for callback in (stopping, saving):
            callback.set_model(evaluated)
            evaluated.stop_training = False
            callback.on_train_begin()
            for epoch, value in enumerate(values):
                callback.on_epoch_end(epoch, {monitored: value})
                if callback is saving:
                    written.append(path.stat().st_mtime_ns)
            if callback is stopping:
                assert evaluated.stop_training != improves
        assert (written[0] != written[1]) == improves
