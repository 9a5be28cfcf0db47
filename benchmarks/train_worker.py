"""Runs training steps of one system with one dtype; started by `train.py`.

Every line on standard input is a number of steps to run on the saved batches, in cyclic order,
after one step that is not timed. Every line on standard output is
`{"seconds": ..., "loss": ..., "memory": peak in bytes}`, for `Peak` also with `"gflops"`.
OpenNMT-tf runs in a separate environment, so only the standard library and NumPy are imported
before a system is selected.
"""

import ctypes
import gc
import itertools
import json
import os
import pathlib
import queue
import resource
import sys
import threading
import time
import traceback

import numpy as np

from benchmarks.saved_batches import read_batches

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
BFLOAT16 = "mixed_bfloat16"


class Fit:
    """A Keras model in a single call of `fit`, in a thread that waits between turns."""

    def __init__(self, tf, model, batches):
        requests, losses = queue.Queue(), queue.Queue()

        def examples():
            for source, target, labels in itertools.cycle(batches):
                requests.get()
                yield {"source": source, "target": target}, labels

        class PutLoss(tf.keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                losses.put(logs["loss"])

        ids = tf.TensorSpec([None, None], tf.int32)
        data = tf.data.Dataset.from_generator(
            examples, output_signature=({"source": ids, "target": ids}, ids)
        )

        def fit():
            try:
                model.fit(data, verbose=0, shuffle=False, callbacks=[PutLoss()])
            finally:  # the data are endless, so that only an exception ends `fit`
                traceback.print_exc()
                os._exit(1)

        threading.Thread(target=fit, daemon=True).start()
        self._requests, self._losses = requests, losses

    def run(self, steps):
        for _ in range(steps):
            self._requests.put(None)
        return [self._losses.get() for _ in range(steps)][-1]


class Own(Fit):
    """This project's training step."""

    def __init__(self, settings, batches):
        from training.malloc import keep_freed_memory

        keep_freed_memory()
        tf = _tensorflow(settings)
        from training.model import build_model
        from training.settings import make_config

        config = make_config(
            {
                "preset": settings["preset"],
                "optimization": {"dtype": settings["dtype"], "warmup_steps": 4000},
            }
        )
        vocab_size = settings["vocab_size"]
        super().__init__(tf, build_model(config, vocab_size, vocab_size), batches)


class KerasHub(Fit):
    """KerasHub's layers, without label smoothing, which Keras' sparse loss does not support."""

    def __init__(self, settings, batches):
        tf = _tensorflow(settings)
        import keras
        import keras_hub

        keras.config.set_dtype_policy(settings["dtype"])
        sizes, layers = settings["sizes"], keras_hub.layers
        arguments = dict(
            intermediate_dim=sizes["d_ff"],
            num_heads=sizes["num_heads"],
            dropout=sizes["dropout_rate"],
            normalize_first=sizes["norm_position"] == "pre",
        )
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        embedding = layers.ReversibleEmbedding(
            settings["vocab_size"], sizes["d_model"], reverse_dtype="float32"
        )
        positions = layers.SinePositionEncoding()
        masks = [keras.ops.not_equal(ids, 0) for ids in (source, target)]
        memory, hidden = (
            keras.layers.Dropout(sizes["dropout_rate"])(vectors + positions(vectors))
            for vectors in (embedding(source), embedding(target))
        )
        for _ in range(sizes["num_encoder_layers"]):
            memory = layers.TransformerEncoder(**arguments)(memory, padding_mask=masks[0])
        for _ in range(sizes["num_decoder_layers"]):
            hidden = layers.TransformerDecoder(**arguments)(
                hidden, memory, decoder_padding_mask=masks[1], encoder_padding_mask=masks[0]
            )
        model = keras.Model({"source": source, "target": target}, embedding(hidden, reverse=True))
        model.compile(
            optimizer=keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
            jit_compile=False,
        )
        super().__init__(tf, model, batches)


class OpenNMT:
    """OpenNMT-tf's own model and trainer, with the settings of its `auto_config`."""

    def __init__(self, settings, batches):
        tf = _tensorflow(settings)
        import opennmt

        sizes, directory = settings["sizes"], pathlib.Path(settings["directory"])
        model = opennmt.models.Transformer(
            num_layers=(sizes["num_encoder_layers"], sizes["num_decoder_layers"]),
            num_units=sizes["d_model"],
            num_heads=sizes["num_heads"],
            ffn_inner_dim=sizes["d_ff"],
            dropout=sizes["dropout_rate"],
            attention_dropout=sizes["attention_dropout_rate"],
            ffn_dropout=sizes["feed_forward_dropout_rate"],
            pre_norm=sizes["norm_position"] == "pre",
            share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        )
        vocabulary = directory / f"vocabulary-{settings['vocab_size']}"
        pieces = ["<blank>", "<s>", "</s>"]  # OpenNMT-tf adds one for unknown words
        pieces += [f"p{number}" for number in range(4, settings["vocab_size"])]
        vocabulary.write_text("\n".join(pieces) + "\n")
        paths = {"source_vocabulary": str(vocabulary), "target_vocabulary": str(vocabulary)}
        model.initialize(paths, model.auto_config()["params"])
        trainer = opennmt.training.Trainer(model, model.get_optimizer())
        statistics = opennmt.training.TrainingStats(model, trainer._optimizer)
        statistics._record_oov_tokens = lambda *_: None  # it needs the text
        trainer._training_stats = statistics
        ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        data = tf.data.Dataset.from_generator(
            self._examples(batches),
            output_signature=(
                {"ids": ids, "length": lengths},
                {"ids": ids, "ids_out": ids, "length": lengths},
            ),
        )
        model.create_variables(trainer._optimizer)
        self._steps = trainer._steps(data)

    def _examples(self, batches):
        def examples():
            for source, target, labels in itertools.cycle(batches):
                lengths = np.count_nonzero(labels, axis=1).astype("int32")
                yield (
                    {"ids": source, "length": np.count_nonzero(source, axis=1).astype("int32")},
                    {"ids": target, "ids_out": labels, "length": lengths},
                )

        return examples

    def run(self, steps):
        for _ in range(steps):
            loss = next(self._steps)
        return loss


class Torch:
    """`torch.nn.Transformer` with tied embeddings and PyTorch's fused Adam."""

    def __init__(self, settings, batches):
        import torch

        torch.set_num_threads(settings["threads"])
        torch.manual_seed(1)
        sizes = settings["sizes"]
        width = sizes["d_model"]
        model = torch.nn.Transformer(
            d_model=width,
            nhead=sizes["num_heads"],
            num_encoder_layers=sizes["num_encoder_layers"],
            num_decoder_layers=sizes["num_decoder_layers"],
            dim_feedforward=sizes["d_ff"],
            dropout=sizes["dropout_rate"],
            norm_first=sizes["norm_position"] == "pre",
            batch_first=True,
        )
        for layer in (*model.encoder.layers, *model.decoder.layers):
            layer.dropout.p = sizes["feed_forward_dropout_rate"]
            for name in ("self_attn", "multihead_attn"):
                if hasattr(layer, name):
                    getattr(layer, name).dropout = sizes["attention_dropout_rate"]
        embedding = torch.nn.Embedding(settings["vocab_size"], width)
        torch.nn.init.normal_(embedding.weight, std=width**-0.5)
        self._model, self._embedding, self._torch = model, embedding, torch
        self._positions = torch.from_numpy(_sinusoids(512, width))
        self._dropout = torch.nn.Dropout(sizes["dropout_rate"])
        self._loss = torch.nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
        self._optimizer = torch.optim.Adam(
            [*model.parameters(), *embedding.parameters()],
            lr=1e-4,
            betas=(0.9, 0.98),
            eps=1e-9,
            fused=True,
        )
        self._is_mixed = settings["dtype"] == BFLOAT16
        self._batches = itertools.cycle(
            [tuple(torch.from_numpy(ids).long() for ids in batch) for batch in batches]
        )

    def _embed(self, ids):
        vectors = self._embedding(ids) * self._embedding.weight.shape[1] ** 0.5
        return self._dropout(vectors + self._positions[: ids.shape[1]])

    def run(self, steps):
        for source, target, labels in itertools.islice(self._batches, steps):
            with self._torch.autocast("cpu", self._torch.bfloat16, enabled=self._is_mixed):
                hidden = self._model(
                    self._embed(source),
                    self._embed(target),
                    tgt_mask=self._causal_mask(target.shape[1]),
                    src_key_padding_mask=source == 0,
                    tgt_key_padding_mask=target == 0,
                    memory_key_padding_mask=source == 0,
                    tgt_is_causal=True,
                )
                logits = hidden @ self._embedding.weight.T
            loss = self._loss(logits.float().flatten(0, 1), labels.flatten())
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        return loss.item()

    def _causal_mask(self, length):
        return self._torch.ones(length, length, dtype=self._torch.bool).triu(1)


class Peak:
    """TensorFlow's matrix products, as the peak speed of the machine."""

    SHAPES = ((4096, 512, 2048), (2048, 2048, 2048))

    def __init__(self, settings, batches):
        tf = _tensorflow(settings)
        dtype = "bfloat16" if settings["dtype"] == BFLOAT16 else "float32"
        self._pairs = [
            (tf.cast(tf.random.normal([a, b]), dtype), tf.cast(tf.random.normal([b, c]), dtype))
            for a, b, c in self.SHAPES
        ]
        self._product, self.gflops = tf.linalg.matmul, 0

    def run(self, steps):
        self.gflops = 0
        for (a, b, c), pair in zip(self.SHAPES, self._pairs, strict=True):
            for _ in range(10):
                start = time.perf_counter()
                self._product(*pair).numpy()
                seconds = time.perf_counter() - start
                self.gflops = max(self.gflops, 2e-9 * a * b * c / seconds)
        return 0.0


def _sinusoids(length, width):
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width).astype("float32")


def _tensorflow(settings):
    """Imports TensorFlow and sets its threads."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
    tf.keras.utils.set_random_seed(1)
    return tf


def _give_memory_back():
    """Returns freed memory to the system, for the other systems' turns."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def main() -> None:
    """Runs the numbers of steps on standard input."""
    settings = json.loads(sys.argv[1])
    batches = read_batches(pathlib.Path(settings["directory"]))
    kinds = {kind.__name__: kind for kind in (Own, KerasHub, OpenNMT, Torch, Peak)}
    system = kinds[settings["kind"]](settings, batches)
    for line in sys.stdin:
        system.run(1)  # not timed, since it allocates the memory again
        steps = int(line)
        start = time.perf_counter()
        loss = float(system.run(steps))
        answer = {"seconds": time.perf_counter() - start, "loss": loss}
        answer["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer["gflops"] = getattr(system, "gflops", None)
        _give_memory_back()
        print(json.dumps(answer), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
