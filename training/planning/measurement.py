"""Measuring the speed of training on this machine, by a short run in processes of its own.

    python -m training.planning.measurement REQUEST.json

is one of these processes; `measure` starts them.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.printable import printable

# Steps that are not counted: they trace the step's function for the first shapes.
_WARM_UP = 15
_DEADLINE = 1800.0


class Measurement(NamedTuple):
    """The speed of a short run.

    Attributes:
        start_seconds: from the start of the process to the first step, and what the warm-up took
            beyond ordinary steps.
        seconds_per_step: mean of the steps after the warm-up.
    """

    start_seconds: float
    seconds_per_step: float


def measure(
    settings: dict[str, Any], prepared: pathlib.Path, num_workers: int, num_steps: int
) -> Measurement:
    """Trains for some steps in a temporary folder.

    Args:
        settings: settings of the run.
        prepared: the prepared corpus.
        num_workers: number of processes that train together, by `MultiWorkerMirroredStrategy` if
            there are several.
        num_steps: number of steps to measure, after the warm-up.

    Raises:
        InputError: a process failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for side in ("source", "target"):
            (folder / side).write_text("a\n" * 8)
        request = {
            "settings": settings,
            "prepared": str(prepared.absolute()),
            "folder": str(folder),
            "num_steps": _WARM_UP + num_steps,
        }
        (folder / "request.json").write_text(json.dumps(request))
        start = time.time()
        _run_workers(folder, num_workers)
        times = json.loads((folder / "times.json").read_text())
    after = times[_WARM_UP - 1 :]
    seconds_per_step = (after[-1] - after[0]) / (len(after) - 1)
    return Measurement(after[0] - start - _WARM_UP * seconds_per_step, seconds_per_step)


def _run_workers(folder: pathlib.Path, num_workers: int) -> None:
    """Runs the processes until they end, or one fails."""
    command = [sys.executable, "-m", __name__, str(folder / "request.json")]
    addresses = _free_addresses(num_workers)
    processes = []
    with open(folder / "errors", "w+b") as errors:
        for index in range(num_workers):
            environment = dict(os.environ)
            environment.pop("TF_CONFIG", None)
            # A GPU for each process, which cannot share one; without GPUs, this has no effect.
            environment.setdefault("CUDA_VISIBLE_DEVICES", str(index))
            if num_workers > 1:
                task = {"type": "worker", "index": index}
                environment["TF_CONFIG"] = json.dumps(
                    {"cluster": {"worker": addresses}, "task": task}
                )
            processes.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
            )
        try:
            deadline = time.monotonic() + _DEADLINE
            statuses = [process.wait(deadline - time.monotonic()) for process in processes]
        except subprocess.TimeoutExpired as error:
            raise InputError(f"--measure: no result after {_DEADLINE:,.0f} s") from error
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if any(statuses):
            errors.seek(0)
            last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            raise InputError(f"--measure: a process failed: {printable(''.join(last), 400)}")


def _free_addresses(number: int) -> list[str]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for opened in sockets:
            opened.bind(("localhost", 0))
        return [f"localhost:{opened.getsockname()[1]}" for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def _train(path: pathlib.Path) -> None:
    """Trains as a request says, and writes the time at the end of each step."""
    from tf_transformer.command_line.quiet import import_tensorflow

    import_tensorflow()
    import keras

    from training.data.text_pair import TextPair
    from training.prepared.prepared_corpus import PreparedCorpus
    from training.prepared.prepared_folder import PreparedFolder
    from training.settings import make_config
    from training.trainer import train

    request = json.loads(path.read_text())
    folder, steps = pathlib.Path(request["folder"]), request["num_steps"]
    times: list[float] = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            times.append(time.time())

    settings = request["settings"]
    changes = {
        "optimization": {"steps": steps, "checkpoint_every": steps},
        "validation": {"translate_every": 0, "best_by": "loss"},
        "data": {"noise": {}},  # prepared folders have none
    }
    changed = {name: settings.get(name, {}) | values for name, values in changes.items()}
    config = make_config(settings | changed)
    has_source = not config.is_language_model
    result = train(
        config,
        corpus=PreparedCorpus([PreparedFolder(pathlib.Path(request["prepared"]))]),
        validation=TextPair(folder / "source" if has_source else None, folder / "target"),
        model_dir=folder / "model",
        callbacks=[Clock()],
    )
    if result.is_chief:
        (folder / "times.json").write_text(json.dumps(times))


if __name__ == "__main__":
    _train(pathlib.Path(sys.argv[1]))
