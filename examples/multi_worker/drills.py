"""Rehearses what a cluster does to training, with two workers on this machine.

    python examples/multi_worker/drills.py OUT tf-transformer train --source train.en ... \
        --deterministic

The command is that of the training, with `--deterministic`, and without `--model-dir` and
`--backup`, which are below OUT. It should have three checkpoints or more. Each drill must end with
the weights of an undisturbed run; otherwise the exit status is 1.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from local import start_workers

WEIGHTS = "model.weights.h5"


def start(command: list[str], folder: pathlib.Path) -> list[subprocess.Popen]:
    """Starts two workers that share a model directory, with a backup."""
    backup = f"file://{folder.absolute()}/backup"
    return start_workers([*command, "--model-dir", str(folder / "model"), "--backup", backup], 2)


def wait_for_backup(folder: pathlib.Path, workers: list[subprocess.Popen]) -> None:
    """Waits until a checkpoint has been uploaded."""
    manifest = folder / "backup" / "manifest.json"
    while not (manifest.exists() and "checkpoints/" in manifest.read_text()):
        if any(worker.poll() is not None for worker in workers):
            sys.exit("training ended before there was a checkpoint in the backup")
        time.sleep(0.05)


def statuses(workers: list[subprocess.Popen]) -> list[int]:
    """Waits for the workers' ends."""
    return [worker.wait() for worker in workers]


def drain(folder: pathlib.Path, workers: list[subprocess.Popen]) -> list[int]:
    """A node is drained: SIGTERM to one worker; all save and stop."""
    workers[1].send_signal(signal.SIGTERM)
    return statuses(workers)


def lose_worker(folder: pathlib.Path, workers: list[subprocess.Popen]) -> list[int]:
    """A machine dies: SIGKILL to one worker; the other reports it."""
    workers[1].kill()
    return statuses(workers)


def lose_everything(folder: pathlib.Path, workers: list[subprocess.Popen]) -> list[int]:
    """All machines and the file system are lost; the backup is left."""
    for worker in workers:
        worker.kill()
    found = statuses(workers)
    shutil.rmtree(folder / "model")
    return found


DRILLS = {
    drain: [128 + signal.SIGTERM] * 2,
    lose_worker: [2, -signal.SIGKILL],
    lose_everything: [-signal.SIGKILL] * 2,
}


def main() -> int:
    """Runs all drills and returns the exit status."""
    out, *command = sys.argv[1:] or [""]
    if not command or "--deterministic" not in command:
        print("usage: drills.py OUT COMMAND ... --deterministic", file=sys.stderr)
        return 2
    out = pathlib.Path(out)
    whole = out / "whole"
    if any(statuses(start(command, whole))):
        return 1
    for drill, expected in DRILLS.items():
        folder = out / drill.__name__
        workers = start(command, folder)
        wait_for_backup(folder, workers)
        found = drill(folder, workers)
        again = statuses(start(command, folder))
        weights = [(path / "model" / WEIGHTS).read_bytes() for path in (whole, folder)]
        is_same = weights[0] == weights[1]
        result = "same weights" if is_same else "OTHER WEIGHTS"
        print(f"{drill.__name__}: ended with {found}, then {again}: {result}", flush=True)
        if (found, again, is_same) != (expected, [0, 0], True):
            return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main())
