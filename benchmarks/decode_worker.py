"""Runs one system with one number of threads; started by `decode.py`.

Every line on standard input is a case in JSON: its `name`, `beam_size`, and `rows` of source ids to
translate to exactly `length` tokens, or to the natural end if it is 0. Every line on standard
output is `{"seconds": ..., "ids": [...], "memory": peak in bytes}`.
"""

import json
import pathlib
import resource
import sys
import time
from collections.abc import Callable

from benchmarks.worker_process import answer_requests

END = 3


class TensorFlow:
    """The exported SavedModels, one for each beam size."""

    def __init__(self, directory: pathlib.Path, dtype: str, threads: int, chunk_size: int):
        import tensorflow as tf

        _set_threads(threads)
        self._tf, self._directory, self._dtype, self._signatures = tf, directory, dtype, {}

    def prepare(self, rows, beam_size, length):
        tf = self._tf
        if beam_size not in self._signatures:
            path = str(self._directory / f"{self._dtype}-beam{beam_size}")
            self._signatures[beam_size] = tf.saved_model.load(path).signatures["tokens_options"]
        ids = self._signatures[beam_size].structured_input_signature[1]["ids"]
        width, count = ids.shape[1], len(rows)
        lengths = tf.fill([count], length)
        inputs = {
            "ids": tf.constant([row + [0] * (width - len(row)) for row in rows], tf.int32),
            "beam_size": tf.zeros([count], tf.int32),
            "length_penalty": tf.zeros([count]),
            "max_length": lengths,
            "min_length": lengths,
            "no_repeat_ngram": tf.zeros([count], tf.int32),
            "coverage_penalty": tf.zeros([count]),
        }
        return lambda: self._signatures[beam_size](**inputs)

    def ids(self, answer):
        lengths = answer["num_tokens"].numpy()
        rows = zip(answer["ids"].numpy().tolist(), lengths, strict=True)
        return [row[:length] for row, length in rows]


class CTranslate2:
    """The same weights in CTranslate2's format."""

    def __init__(self, directory: pathlib.Path, dtype: str, threads: int, chunk_size: int):
        import ctranslate2

        self._chunk_size = chunk_size
        self._translator = ctranslate2.Translator(  # one thread calls it at a time
            str(directory / f"ctranslate2-{dtype}"),
            compute_type=dtype,
            inter_threads=1,
            intra_threads=threads,
        )

    def prepare(self, rows, beam_size, length):
        source = [[f"p{number}" for number in row] for row in rows]
        longest = max(map(len, rows))
        limits = dict(max_decoding_length=int(1.5 * longest) + 20)  # as the default limit here
        if length:
            limits = dict(min_decoding_length=length, max_decoding_length=length)
        return lambda: self._translator.translate_batch(
            source,
            beam_size=beam_size,
            length_penalty=0,
            max_batch_size=0 if length else self._chunk_size,
            **limits,
        )

    def ids(self, answer):
        # It may choose a special piece, "<s>", where a length is forced.
        return [
            [int(piece[1:]) if piece[1:].isdecimal() else 0 for piece in result.hypotheses[0]]
            for result in answer
        ]


class Marian:
    """Hugging Face's MarianMTModel of the same shapes, with random weights."""

    def __init__(self, directory: pathlib.Path, dtype: str, threads: int, chunk_size: int):
        import torch
        from transformers import MarianConfig, MarianMTModel

        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self._torch = torch
        sizes = _read(directory)["config"]["config"]
        self._model = MarianMTModel(
            MarianConfig(
                vocab_size=sizes["target_vocab_size"],
                d_model=sizes["d_model"],
                encoder_layers=sizes["num_encoder_layers"],
                decoder_layers=sizes["num_decoder_layers"],
                encoder_attention_heads=sizes["num_heads"],
                decoder_attention_heads=sizes["num_heads"],
                encoder_ffn_dim=sizes["d_ff"],
                decoder_ffn_dim=sizes["d_ff"],
                pad_token_id=0,
                eos_token_id=END,
                decoder_start_token_id=2,
                bos_token_id=2,
                forced_eos_token_id=None,
            )
        ).eval()

    def prepare(self, rows, beam_size, length):
        torch = self._torch
        ids = torch.tensor([[*row, END] for row in rows])

        def run():
            with torch.inference_mode():
                return self._model.generate(
                    input_ids=ids,
                    attention_mask=ids != 0,
                    num_beams=beam_size,
                    min_new_tokens=length,
                    max_new_tokens=length,
                )

        return run

    def ids(self, answer):
        return answer[:, 1:].tolist()


class Uncached:
    """Beam search without a cache: every step runs the whole decoder over the whole target."""

    def __init__(self, directory: pathlib.Path, dtype: str, threads: int, chunk_size: int):
        import tensorflow as tf

        from tf_transformer import Transformer

        _set_threads(threads)
        self._tf = tf
        self._model = Transformer.from_config(_read(directory)["config"])
        self._model.load_weights(directory / "model.weights.h5")
        self._run = tf.function(self._search, reduce_retracing=True)

    def _search(self, ids, beam_size, length):
        tf = self._tf
        ids = tf.repeat(ids, beam_size, axis=0)
        memory, mask = self._model.encode(ids), ids != 0
        target = tf.fill([tf.shape(ids)[0], length + 1], 2)
        log_probs = tf.where(tf.range(beam_size) == 0, 0.0, float("-inf"))[tf.newaxis]
        rows = tf.shape(ids)[0] // beam_size
        log_probs = tf.tile(log_probs, [rows, 1])
        for step in tf.range(length):
            logits = self._model.decode(target, memory, mask)[:, step]
            found = tf.reshape(tf.nn.log_softmax(logits), [rows, beam_size, -1])
            found = tf.reshape(found + log_probs[:, :, tf.newaxis], [rows, -1])
            log_probs, chosen = tf.math.top_k(found, beam_size)
            parents = chosen // tf.shape(logits)[1] + tf.range(rows)[:, tf.newaxis] * beam_size
            target = tf.gather(target, tf.reshape(parents, [-1]))
            newest = tf.reshape(chosen % tf.shape(logits)[1], [-1])
            target = tf.where(tf.range(length + 1) == step + 1, newest[:, tf.newaxis], target)
        return target[::beam_size, 1:]

    def prepare(self, rows, beam_size, length):
        ids = self._tf.constant([[*row, END] for row in rows], self._tf.int32)
        return lambda: self._run(ids, self._tf.constant(beam_size), self._tf.constant(length))

    def ids(self, answer):
        return answer.numpy().tolist()


def _read(directory):
    return json.loads((directory / "model.json").read_text())


def _set_threads(threads):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def load() -> Callable[[dict], dict]:
    """Loads the system, and returns the function that answers a case."""
    system, dtype, threads, directory, chunk_size = sys.argv[1:]
    kinds = [TensorFlow, CTranslate2, Marian, Uncached]
    kind = {kind.__name__.lower(): kind for kind in kinds}[system]
    runner = kind(pathlib.Path(directory), dtype, int(threads), int(chunk_size))
    prepared = {}

    def answer(case):
        if case["name"] not in prepared:
            prepared[case["name"]] = runner.prepare(case["rows"], case["beam_size"], case["length"])
        start = time.perf_counter()
        ids = runner.ids(prepared[case["name"]]())
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"seconds": seconds, "ids": ids, "memory": memory}

    return answer


if __name__ == "__main__":
    answer_requests(load)
