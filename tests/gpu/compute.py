"""Computes results on this process's device: `python -m tests.gpu.compute FILE FUNCTION ...`.

Writes the arrays that the function returns to an .npz file. `CUDA_VISIBLE_DEVICES=-1` makes the
device the CPU.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import tf_transformer.backend

if os.environ.get("REHEARSE_GPU") == "1":  # before other modules import it by name
    tf_transformer.backend.has_gpu = lambda: True

from tests.conftest import Corpus, small_config
from tf_transformer import Transformer, TransformerConfig
from tf_transformer.decoding.compiled.search_shapes import default_shapes
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.storage.model_dir import load_for_decoding, load_model, weights_digest
from tf_transformer.text.special_ids import BEGIN_ID
from training.model import build_model
from training.run import Devices
from training.trainer import train

VOCAB = 64
LENGTHS = (9, 2, 5, 16, 1, 12)


def make_batch(seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(4, VOCAB, size=(len(LENGTHS), 16)).astype("int32") for _ in range(2)]
    for array in arrays:
        array[np.arange(16) >= rng.permutation(LENGTHS)[:, None]] = 0
    source, labels = arrays
    target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=BEGIN_ID)
    return {"source": source, "target": target}, labels


def steps(dtype, tf32, micro_batches):
    """The losses of three steps with dropout, clipping and averages, and the gradients' means.

    Adam's updates would not do: where a gradient is 0 but for rounding, as that of the keys'
    biases, they are as large as elsewhere.
    """
    tf.config.experimental.enable_tensor_float_32_execution(tf32 == "tf32")
    config = small_config(
        optimization__dtype=dtype,
        optimization__micro_batches=int(micro_batches),
        optimization__clip_norm=1.0,
        optimization__average_decay=0.9,
        optimization__warmup_steps=4,
    )
    keras.utils.set_random_seed(1)
    model = build_model(config, VOCAB, VOCAB)
    found = {}
    for step in range(3):
        inputs, labels = make_batch(step)
        model.reset_metrics()
        history = model.fit(inputs, labels, batch_size=len(labels), verbose=0).history
        found[f"loss{step}"] = np.array(history["loss"])
        found[f"perplexity{step}"] = np.array(history["perplexity"])
    for weight, mean in zip(model.trainable_variables, model.optimizer._momentums, strict=True):
        found[f"gradient of {weight.path}"] = mean.numpy()
    found["skipped"] = model.optimizer.skipped.numpy()
    return found


def packed():
    """The decoder's output at the real positions, without and with computing the padding."""
    keras.utils.set_random_seed(1)
    config = TransformerConfig.preset("tiny", source_vocab_size=VOCAB, target_vocab_size=VOCAB)
    model = Transformer(config)
    inputs, labels = make_batch(0)
    inputs = {name: tf.constant(ids) for name, ids in inputs.items()}
    tf.config.experimental.enable_tensor_float_32_execution(False)

    def run(with_padding):
        with tf.GradientTape() as tape:
            if with_padding:
                hidden = tf.boolean_mask(model.hidden_states(inputs)[1], labels != 0)
            else:
                hidden = model.hidden_at(inputs, tf.constant(labels != 0))
            loss = tf.reduce_sum(tf.sin(hidden))
        weights = [weight.value for weight in model.trainable_weights]
        gradients = tape.gradient(loss, weights)
        return hidden, [tf.convert_to_tensor(g) for g in gradients if g is not None]

    found = {}
    for name in ("packed", "padded"):
        hidden, gradients = tf.function(run)(name == "padded")
        found[name] = hidden.numpy()
        found |= {f"{name}_gradient{i}": value.numpy() for i, value in enumerate(gradients)}
    return found


def translate(model_dir, source, dtype, xla):
    """The best translations of the lines of a file, and their scores."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    lines = pathlib.Path(source).read_text(encoding="utf-8").splitlines()[:64]
    loaded = load_for_decoding(pathlib.Path(model_dir), dtype)
    if xla == "on":
        assert default_shapes(loaded[0].config.max_length)
    (found,) = answer(ModelPredictor.of_model(*loaded, xla=xla), "nbest", {"text": lines})
    return {
        "texts": np.array([texts[:2] for texts in found["translations"]]),
        "scores": np.array([scores[:2] for scores in found["scores"]]),
    }


def answers(saved_model, source):
    """The answers of a SavedModel's signatures, whose weights are on the device."""
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    tf.config.experimental.enable_tensor_float_32_execution(False)
    lines = pathlib.Path(source).read_text(encoding="utf-8").splitlines()[:16]
    loaded = tf.saved_model.load(saved_model)
    places = {tf.DeviceSpec.from_string(weight.device).device_type for weight in loaded.weights}
    assert places == {device()}
    found = {}
    for name in ("serving_default", "nbest"):
        for output, values in loaded.signatures[name](text=tf.constant(lines)).items():
            array = values.numpy()
            if values.dtype == tf.string:
                array = np.array([text.decode() for text in array.flat]).reshape(array.shape)
            found[f"{name}_{output}"] = array
    return found


def digests(folder, corpus):
    """Digests of the weights of a run, of an interrupted one, and of another seed."""
    arguments = Corpus(pathlib.Path(corpus)).arguments
    arguments["devices"] = Devices(deterministic=True)

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = int(self.model.optimizer.iterations) == 13

    found = {}
    for name, seed, calls in (
        ("whole", 1, [()]),
        ("resumed", 1, [[Stop()], ()]),
        ("other", 2, [()]),
    ):
        model_dir = pathlib.Path(folder) / name
        for callbacks in calls:
            config = small_config(optimization__seed=seed)
            result = train(config, **arguments, model_dir=model_dir, callbacks=callbacks)
        assert result.step == config.optimization.steps
        found[name] = np.array(weights_digest(model_dir))
    return found


def logits(folder, corpus, num_devices):
    """The logits after a short training on some devices."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    config = small_config(
        optimization__steps=6,
        optimization__checkpoint_every=6,
        optimization__learning_rate_factor=3.0,
        model__dropout_rate=0.0,
    )
    model_dir = pathlib.Path(folder) / num_devices
    train(
        config,
        **Corpus(pathlib.Path(corpus)).arguments,
        model_dir=model_dir,
        devices=Devices(number=int(num_devices)),
    )
    model, *_ = load_model(model_dir)
    return {"logits": model(make_batch(0)[0]).numpy()}


def device():
    """The device on which a product is computed."""
    return tf.DeviceSpec.from_string((tf.ones((2, 2)) @ tf.ones((2, 2))).device).device_type


FUNCTIONS = (steps, packed, translate, answers, digests, logits)

if __name__ == "__main__":
    path, name, *arguments = sys.argv[1:]
    (function,) = (f for f in FUNCTIONS if f.__name__ == name)
    found = function(*arguments)
    np.savez(
        path, device=device(), **{key.replace("/", "."): value for key, value in found.items()}
    )
