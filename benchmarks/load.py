"""A translator under load: time to the first response, latencies of concurrent callers, memory.

    python -m benchmarks.load (--saved-model DIR | --server HOST:PORT | --web HOST:PORT)
        [--sentences FILE] [--requests 10000] [--callers 1 4 16] [--batch 1]
        [--session] [--session-config FILE] [--warm-up-threads 1]

DIR is a numbered version of an export. Every caller sends its next request when it has received the
response to the previous one. Each distinct request is first sent alone; a response under load that
differs from that one counts as wrong. Prints a table in Markdown. The memory is the resident memory
of this process, not of a server, after a tenth, a half and all of the requests. `--web` is the
address of `tf-transformer web`, whose limits the requests must not exceed.
"""

import argparse
import concurrent.futures
import itertools
import pathlib
import resource
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tqdm
import urllib3

from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.predictors.client import Client
from tf_transformer.predictors.client.messages import read_tensor
from tf_transformer.predictors.client.serving_pb2 import PredictionLog

SENTENCES = b"""Thank you.
Where is the station?
The train to Vienna leaves at half past nine.
My brother bought three lamps and two chairs for 120 euros.
A man in a blue shirt is standing on a ladder cleaning a window.
The invoice of March 3 has been paid.
Two young people are sitting on a bench in the park and talking about their work.
The committee will meet again on Thursday, 14 May, to decide how the money is to be spent.
What the report says about prices is true, but it leaves out what happened to wages in those years.
It is cold.""".splitlines()


def open_saved_model(directory: pathlib.Path) -> Callable[[Sequence[bytes]], list]:
    """Loads a SavedModel and returns a function that translates the sentences of a request."""
    import tensorflow as tf

    translate = tf.saved_model.load(str(directory)).signatures["serving_default"]
    return lambda texts: translate(text=tf.constant(texts))["translation"].numpy().tolist()


def open_session(options: argparse.Namespace) -> Callable[[Sequence[bytes]], list]:
    """Loads and warms up a SavedModel in a session, as TF Serving does; returns the function."""
    import tensorflow as tf
    from google.protobuf import text_format

    config = tf.compat.v1.ConfigProto()
    if options.session_config:
        text_format.Parse(options.session_config.read_text(), config)
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        saved = tf.compat.v1.saved_model.load(session, ["serve"], str(options.saved_model))
    start = time.perf_counter()
    count = replay_warm_up(session, saved, options)
    print(f"{count} warm-up requests took {time.perf_counter() - start:.2f} s.")
    signature = saved.signature_def["serving_default"]
    # The same outputs as in the warm-up, since others would be compiled again.
    outputs = {name: tensor.name for name, tensor in signature.outputs.items()}
    call = session.make_callable(outputs, feed_list=[signature.inputs["text"].name])
    return lambda texts: call(np.array(texts, object))["translation"].tolist()


def replay_warm_up(session: Any, saved: Any, options: argparse.Namespace) -> int:
    """Replays the warm-up requests of a SavedModel, prints their times and returns their number."""
    import tensorflow as tf

    def send(record):
        request = PredictionLog.FromString(record).predict_log.request
        signature = saved.signature_def[request.model_spec.signature_name]
        feeds = {
            signature.inputs[name].name: read_tensor(tensor)
            for name, tensor in request.inputs.items()
        }
        start = time.perf_counter()
        session.run({name: tensor.name for name, tensor in signature.outputs.items()}, feeds)
        print(f"{request.model_spec.signature_name}: {time.perf_counter() - start:.2f} s")

    path = options.saved_model / "assets.extra" / "tf_serving_warmup_requests"
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    with concurrent.futures.ThreadPoolExecutor(options.warm_up_threads) as pool:
        return sum(1 for _ in pool.map(send, records))


def open_server(options: argparse.Namespace) -> Callable[[Sequence[bytes]], list]:
    """Returns a function that translates the sentences of a request with a server."""
    settings = dict(max_batch_size=options.batch, concurrency=max(options.callers))
    client = Client(options.server, options.model, options.protocol, **settings)
    return lambda texts: client.predict({"text": texts})["translation"]


def open_web(options: argparse.Namespace) -> Callable[[Sequence[bytes]], list]:
    """Returns a function that translates the sentences of a request with the web application."""
    pool = urllib3.connection_from_url(f"http://{options.web}", maxsize=max(options.callers))

    def send(texts):
        body = {"lines": [text.decode() for text in texts]}
        try:
            answer = pool.request("POST", "/api/translate", json=body, retries=False)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(f"{options.web}: {error}") from error
        if answer.status != 200:
            raise OSError(f"status {answer.status}: {answer.data.decode()}")
        return [found["best"][0]["text"] for found in answer.json()["translations"]]

    return send


def resident_megabytes() -> float:
    """Returns the resident memory of this process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Load:
    """Concurrent callers, each of which sends its next request when it has its response.

    Args:
        send: translates a request.
        answers: pairs of a request and the response it got alone; sent cyclically.
        total: number of requests to send.
        callers: number of threads that send them.

    Attributes:
        seconds: total time.
        latencies: seconds from each request to its response.
        wrong: number of responses that differ from the expected ones.
        memory: resident megabytes after a tenth, a half and all of the requests.
    """

    def __init__(self, send: Callable, answers: Sequence[tuple], total: int, callers: int):
        self.latencies, self.wrong, self.memory = np.zeros(total), 0, []
        self._send, self._answers, self._indices = send, answers, iter(range(total))
        self._marks = [-(-total // 10), -(-total // 2), total]
        self._lock = threading.Lock()
        with (
            tqdm.tqdm(total=total, unit=" requests", disable=None) as self._progress,
            concurrent.futures.ThreadPoolExecutor(callers) as pool,
        ):
            self._done = 0
            start = time.perf_counter()
            for caller in [pool.submit(self._call) for _ in range(callers)]:
                caller.result()
            self.seconds = time.perf_counter() - start

    def _call(self):
        while (index := self._take_index()) is not None:
            request, expected = self._answers[index % len(self._answers)]
            start = time.perf_counter()
            answer = self._send(request)
            self.latencies[index] = time.perf_counter() - start
            with self._lock:
                self.wrong += answer != expected
                self._done += 1
                self.memory += [resident_megabytes()] * self._marks.count(self._done)
                self._progress.update()

    def _take_index(self):
        with self._lock:
            return next(self._indices, None)


def measure(options: argparse.Namespace, sentences: Sequence[bytes]) -> list[str]:
    """Returns the lines of the report."""
    endless = itertools.cycle(sentences)
    count = min(-(-len(sentences) // options.batch), options.requests)
    requests = [list(itertools.islice(endless, options.batch)) for _ in range(count)]
    start = time.perf_counter()
    if options.server:
        send = open_server(options)
    elif options.web:
        send = open_web(options)
    elif options.session:
        send = open_session(options)
    else:
        send = open_saved_model(options.saved_model)
    loading = time.perf_counter() - start
    send(requests[0])
    first = time.perf_counter() - start
    warm = ", warm-up included" if options.session else ""
    lines = [f"Loaded after {loading:.2f} s{warm}, first response after {first:.2f} s.", ""]
    answers = [(request, send(request)) for request in requests]
    lines.append("| callers | requests/s | p50 ms | p90 ms | p99 ms | max ms | wrong | memory MB |")
    lines.append("|---" * 8 + "|")
    for callers in options.callers:
        load = Load(send, answers, options.requests, callers)
        times = [f"{ms:.1f}" for ms in np.percentile(1000 * load.latencies, [50, 90, 99, 100])]
        cells = [callers, f"{options.requests / load.seconds:.1f}", *times, load.wrong]
        cells.append(", ".join(f"{megabytes:.0f}" for megabytes in load.memory))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--saved-model", type=pathlib.Path, metavar="DIR")
    model.add_argument("--server", metavar="HOST:PORT")
    model.add_argument("--web", metavar="HOST:PORT")
    parser.add_argument(
        "--session", action="store_true", help="load the SavedModel as TF Serving does"
    )
    parser.add_argument(
        "--session-config", type=pathlib.Path, metavar="FILE",
        help="with --session: the server's --tensorflow_session_config_file",
    )  # fmt: skip
    parser.add_argument(
        "--warm-up-threads", type=int, default=1, metavar="N",
        help="with --session: the server's num_model_warmup_threads",
    )  # fmt: skip
    parser.add_argument("--protocol", default="rest", choices=("rest", "grpc"))
    parser.add_argument("--model", default="translator", help="name of the model on the server")
    parser.add_argument("--sentences", type=pathlib.Path, metavar="FILE", help="one per line")
    parser.add_argument("--requests", type=int, default=10_000, help="for each number of callers")
    parser.add_argument("--callers", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--batch", type=int, default=1, help="sentences per request")
    options = parser.parse_args()
    if options.saved_model:
        import_tensorflow()  # before the clock starts
    sentences = options.sentences.read_bytes().splitlines() if options.sentences else SENTENCES
    print("\n".join(measure(options, sentences)))


if __name__ == "__main__":
    main()
