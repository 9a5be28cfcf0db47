"""The training step, which never holds all logits, against Keras' own over the plain loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import LanguageModel, Transformer, TransformerConfig
from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy
from tf_transformer.losses.metrics import Perplexity, SmoothedLoss, TokenAccuracy
from training.step import TrainableLanguageModel, TrainableTransformer

VOCAB = 13
SIZES = dict(
    target_vocab_size=VOCAB,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=8,
    d_ff=16,
    num_heads=2,
    dropout_rate=0.0,
)
SMOOTHING = dict(label_smoothing=0.1, smoothed_over="others_but_padding")


def batch():
    rng = np.random.default_rng(1)
    ids = rng.integers(4, VOCAB, size=(3, 4, 6)).astype("int32")
    for row, length in enumerate((6, 2, 0, 4)):  # a row of padding alone, too
        ids[:, row, length:] = 0
    source, target, labels = ids
    return {"source": source, "target": target}, labels


def train(model_class, config, dtype, num_micro_batches=1, r_drop=0.0, run_eagerly=False):
    """The updates of two steps, and the metrics; without tracing, if it should `run_eagerly`."""
    keras.utils.set_random_seed(1)
    model = model_class(config, dtype=dtype)
    model.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=LabelSmoothedCrossEntropy(**SMOOTHING),
        metrics=[SmoothedLoss(**SMOOTHING, name="smoothed"), Perplexity(), TokenAccuracy()],
        jit_compile=False,
        run_eagerly=run_eagerly,
    )
    if num_micro_batches > 1:
        model.num_micro_batches = num_micro_batches
    if r_drop:
        model.r_drop = r_drop
    inputs, labels = batch()
    if config.decoder_only:
        del inputs["source"]
    before = model.get_weights()
    history = model.fit(inputs, labels, batch_size=len(labels), epochs=2, shuffle=False, verbose=0)
    updates = [new - old for new, old in zip(model.get_weights(), before, strict=True)]
    names = ("smoothed", "perplexity", "accuracy")
    return updates, [history.history[name] for name in names]


# Micro-batches and weight of R-Drop: neither and both, which differ in all that is computed.
NEITHER_AND_BOTH, PARTS_ALONE = ((1, 0.0), (2, 5.0)), ((2, 0.0),)


@pytest.mark.representatives(
    "mixed_bfloat16-{'tied_embeddings': 'all'}-neither and both",
    "float32-{'decoder_only': True}-neither and both",
)
@pytest.mark.slow
@pytest.mark.parametrize(
    "passes", [NEITHER_AND_BOTH, PARTS_ALONE], ids=["neither and both", "micro-batches"]
)
@pytest.mark.parametrize(
    "switches",
    [
        dict(tied_embeddings="all"),
        dict(tied_embeddings="all", logits_bias=True),
        dict(tied_embeddings="none"),
        dict(tied_embeddings="none", logits_bias=False),
        dict(decoder_only=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_step_is_that_of_the_plain_loss(switches, dtype, passes):
    is_language_model = switches.get("decoder_only", False)
    config = TransformerConfig(
        **SIZES, **switches, source_vocab_size=None if is_language_model else VOCAB
    )
    plain = LanguageModel if is_language_model else Transformer
    trained = TrainableLanguageModel if is_language_model else TrainableTransformer
    expected, expected_metrics = train(plain, config, dtype, run_eagerly=True)
    # bfloat16 rounds what lies below the logits, in another order: 8 bits.
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    # Without dropout, both passes of R-Drop are equal, and the update is that of one.
    for num_micro_batches, r_drop in passes:
        # All trainings trace the step without both.
        is_usual = num_micro_batches == 1
        found, metrics = train(
            trained, config, dtype, num_micro_batches, r_drop, run_eagerly=is_usual
        )
        largest = max(np.abs(update).max() for update in expected)
        assert largest > 0.01
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=tolerance * largest)
        *losses, accuracy = metrics
        *expected_losses, expected_accuracy = expected_metrics
        np.testing.assert_allclose(losses, expected_losses, rtol=tolerance)
        # Which of two nearly equal logits is the larger one may be rounding: for one of 12 tokens.
        a_token = 0 if dtype == "float32" else 1 / 12
        np.testing.assert_allclose(accuracy, expected_accuracy, rtol=1e-5, atol=a_token)


@pytest.mark.representatives("False")
@pytest.mark.slow
@pytest.mark.parametrize("decoder_only", [False, True])
def test_passes_of_r_drop_have_different_dropout(decoder_only):
    """So their divergence is in the loss of the first step, in proportion to its weight."""
    sizes = SIZES | dict(dropout_rate=0.5, decoder_only=decoder_only)
    config = TransformerConfig(**sizes, source_vocab_size=None if decoder_only else VOCAB)
    trained = TrainableLanguageModel if decoder_only else TrainableTransformer
    small, medium, large = (
        train(trained, config, "float32", r_drop=weight, run_eagerly=True)[1][0][0]
        for weight in (1e-6, 1.0, 2.0)
    )
    assert medium - small > 0.01
    assert large - medium == pytest.approx(medium - small, rel=1e-3)


HEAD, WEIGHT = 1, 3.0


def guided_batch():
    """The batch, with random alignments of its real tokens; some have none, some several."""
    inputs, labels = batch()
    alignment = np.random.default_rng(2).random((*labels.shape, inputs["source"].shape[1])) < 0.4
    alignment &= (labels != 0)[:, :, None] & (inputs["source"] != 0)[:, None]
    return inputs | {"alignment": alignment}, labels


def updates_of(model, inputs, labels):
    model.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=LabelSmoothedCrossEntropy(**SMOOTHING),
        metrics=[SmoothedLoss(**SMOOTHING, name="smoothed")],
        jit_compile=False,
    )
    before = model.get_weights()
    history = model.fit(inputs, labels, batch_size=len(labels), shuffle=False, verbose=0).history
    return [a - b for a, b in zip(model.get_weights(), before, strict=True)], history


def plain_guided_updates(model, inputs, labels):
    """Of the padded model's logits and attention weights, by automatic differentiation."""
    alignment = inputs["alignment"].astype("float32")
    shares = alignment / np.maximum(alignment.sum(axis=-1, keepdims=True), 1.0)
    with tf.GradientTape() as tape:
        states = model.states(inputs)
        weights = tf.cast(states.decoder.cross_attention[0][:, HEAD], tf.float32)
        alignment_loss = -tf.reduce_sum(shares * tf.math.log(weights + 1e-30))
        loss = LabelSmoothedCrossEntropy(**SMOOTHING)(labels, states.logits)
        loss += WEIGHT * alignment_loss / np.count_nonzero(labels)
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
    mean = float(alignment_loss) / np.count_nonzero(shares.sum(axis=-1))
    return [-0.5 * np.asarray(tf.convert_to_tensor(gradient)) for gradient in gradients], mean


@pytest.mark.representatives("float32-neither and both")
@pytest.mark.slow
@pytest.mark.parametrize(
    "passes", [NEITHER_AND_BOTH, PARTS_ALONE], ids=["neither and both", "micro-batches"]
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_guided_step_is_that_of_the_plain_losses(dtype, passes):
    config = TransformerConfig(
        **SIZES, source_vocab_size=VOCAB, tied_embeddings="none", alignment_head=HEAD
    )
    inputs, labels = guided_batch()
    keras.utils.set_random_seed(1)
    model = Transformer(config, dtype=dtype)
    start = model.get_weights()
    expected, mean = plain_guided_updates(model, inputs, labels)
    # The reference takes the logarithm of weights that are rounded to 8 bits.
    tolerance = 1e-5 if dtype == "float32" else 6e-2
    for num_micro_batches, r_drop in passes:
        trained = TrainableTransformer(config, dtype=dtype)
        trained.set_weights(start)
        trained.num_micro_batches, trained.r_drop = num_micro_batches, r_drop
        trained.alignment_weight = WEIGHT
        found, history = updates_of(trained, inputs, labels)
        for weight, ours, theirs in zip(trained.weights, found, expected, strict=True):
            largest = max(np.abs(theirs).max(), 0.01)
            np.testing.assert_allclose(ours, theirs, atol=tolerance * largest, err_msg=weight.path)
        assert history["alignment_loss"][0] == pytest.approx(mean, rel=tolerance)
    trained.alignment_weight = 0.0
    trained.set_weights(start)
    unguided, _ = updates_of(trained, inputs, labels)
    queries = [weight.path.endswith("cross_attention/query/kernel") for weight in trained.weights]
    (query,) = np.flatnonzero(queries)
    assert np.abs(unguided[query] - expected[query]).max() > 0.1 * np.abs(expected[query]).max()


def test_other_metrics_are_refused():
    model = TrainableTransformer(TransformerConfig(**SIZES, source_vocab_size=VOCAB))
    with pytest.raises(ValueError, match="must be `TokenMean`s"):
        model.compile(loss=LabelSmoothedCrossEntropy(), metrics=[keras.metrics.Mean()])
