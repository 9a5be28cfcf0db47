"""Uses the public API with Keras' `fit`: a model learns to write digits in reverse.

python examples/custom_fit.py
"""

from tf_transformer import (  # isort: skip  # before TensorFlow, to hide its messages
    LabelSmoothedCrossEntropy,
    NoamSchedule,
    Perplexity,
    TokenAccuracy,
    Transformer,
    TransformerConfig,
)

import keras
import numpy as np
import tensorflow as tf

BEGIN, END, VOCAB_SIZE = 2, 3, 14


def batches(num_batches, seed):
    """Yields rows of 2 to 8 digits (ids 4 to 13); the labels are the digits in reverse order."""
    random = np.random.default_rng(seed)
    for _ in range(num_batches):
        source = np.zeros((64, 9), np.int32)
        labels = np.zeros((64, 9), np.int32)
        for row, length in enumerate(random.integers(2, 9, 64)):
            digits = random.integers(4, VOCAB_SIZE, length)
            source[row, : length + 1] = [*digits, END]
            labels[row, : length + 1] = [*digits[::-1], END]
        target = np.concatenate([np.full((64, 1), BEGIN), labels[:, :-1]], axis=1)
        yield {"source": source, "target": target}, labels


def main(steps=600):
    """Trains the model and returns its accuracy."""
    keras.utils.set_random_seed(1)
    signature = ({name: tf.TensorSpec([None, None], tf.int32) for name in ("source", "target")},
                 tf.TensorSpec([None, None], tf.int32))  # fmt: skip
    training = tf.data.Dataset.from_generator(
        lambda: batches(steps, seed=1), output_signature=signature
    ).repeat()
    config = TransformerConfig.preset(
        "tiny", source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE, dropout_rate=0.0,
        num_encoder_layers=2, num_decoder_layers=2, d_model=64,
    )  # fmt: skip
    model = Transformer(config)
    model.compile(
        optimizer=keras.optimizers.Adam(NoamSchedule(64, 200, 0.5), beta_2=0.98, epsilon=1e-9),
        loss=LabelSmoothedCrossEntropy(0.1),
        metrics=[TokenAccuracy(), Perplexity()],
        jit_compile=False,
    )
    history = model.fit(training, steps_per_epoch=steps // 3, epochs=3, shuffle=False, verbose=2)
    return history.history["accuracy"][-1]


if __name__ == "__main__":
    main()
