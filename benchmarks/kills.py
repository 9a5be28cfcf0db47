"""Kills training many times at random and checks that no checkpoint is lost, damaged or different.

    python -m benchmarks.kills [--kills 1000] [--devices 1] [--seed 1]

A small model with dropout is trained with deterministic ops. A checkpoint is written every other
step, and the best by validation loss is kept, so that many kills interrupt a save. Processes are
killed by SIGKILL, a third of them at a random time during start-up, the others within 0.3 s after
one of their first 8 checkpoints, and the same call resumes. Whenever a run reaches its last step,
its weights file and every variable of its checkpoint are compared, bit for bit, with those of an
uninterrupted run. Each process is forked from one that has imported TensorFlow, which shortens its
start-up. Ctrl-C prints the results so far.
"""

import argparse
import collections
import hashlib
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable

import tqdm

STEPS, SAVE_EVERY = 60, 2
SETTINGS = {
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.num_heads": 2,
    "model.max_length": 40,
    "vocabulary.size": 400,
    "data.batch_tokens": 512,
    "optimization.steps": STEPS,
    "optimization.checkpoint_every": SAVE_EVERY,
    "optimization.keep_checkpoints": 3,
    "optimization.average_decay": 0.99,
    "validation.translate_every": 0,
}


def train_small(directory: pathlib.Path, corpus: pathlib.Path, devices: int) -> None:
    """Calls `train` once."""
    from training.data.text_pair import TextPair
    from training.run import Devices
    from training.settings import make_config, read_settings
    from training.trainer import train

    result = train(
        make_config(read_settings(None, SETTINGS)),
        corpus=TextPair(corpus / "train.en", corpus / "train.de"),
        validation=TextPair(corpus / "validation.en", corpus / "validation.de"),
        model_dir=directory,
        devices=Devices(number=devices, deterministic=True),
    )
    if result.step < STEPS:
        raise RuntimeError(f"training ended at step {result.step}, by {result.stopped_by}")


def digest(directory: pathlib.Path) -> str:
    """Returns a digest of the weights file and of all variables of the newest checkpoint.

    Reads all checkpoints, which verifies their checksums.
    """
    import tensorflow as tf

    from training.checkpointing.checkpoint_files import checkpoint_directory, checkpoint_paths

    for path in checkpoint_paths(checkpoint_directory(directory)):
        reader = tf.train.load_checkpoint(path)
        content = hashlib.blake2b(digest_size=16)
        for name in sorted(reader.get_variable_to_shape_map()):
            if name.endswith("VARIABLE_VALUE"):
                content.update(name.encode() + reader.get_tensor(name).tobytes())
    content.update((directory / "model.weights.h5").read_bytes())
    return content.hexdigest()


def fork(work) -> int:
    """Runs `work` in a forked process without output and returns the process id."""
    process = os.fork()
    if process:
        return process
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def in_fork(work) -> str:
    """Returns the result of `work`, called in a forked process."""
    reader, writer = os.pipe()
    process = fork(lambda: os.write(writer, work().encode()))
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    if os.waitpid(process, 0)[1]:
        raise RuntimeError("a checkpoint could not be read")
    return answer


def has_ended(process: int, is_time: Callable[[], bool]) -> bool:
    """Waits until it is time or the process ends; returns whether the process has ended.

    Raises:
        RuntimeError: the process failed.
    """
    while not is_time():
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if status:
                raise RuntimeError(f"training failed with status {status}")
            return True
        time.sleep(0.002)
    return False


def after(saves: int, seconds: float, directory: pathlib.Path) -> Callable[[], bool]:
    """Returns a function that is true `seconds` after `saves` further checkpoints were written."""
    first, since = newest_step(directory) + saves * SAVE_EVERY, None

    def is_time():
        nonlocal since
        if since is None and newest_step(directory) >= first:
            since = time.monotonic()
        return since is not None and time.monotonic() - since >= seconds

    return is_time


def kill_many(options: argparse.Namespace, work: pathlib.Path, counts: collections.Counter) -> None:
    """Kills training repeatedly, and counts kills, finished runs and errors."""
    from training.demo.corpus import write_demonstration

    corpus, whole, directory = work / "corpus", work / "whole", work / "model"
    corpus.mkdir()
    write_demonstration(corpus, num_train=2000, num_validation=20, num_test=1)
    begin = time.monotonic()
    process = fork(lambda: train_small(whole, corpus, options.devices))
    has_ended(process, after(1, 0.0, whole))
    start = time.monotonic() - begin
    has_ended(process, lambda: False)
    expected = in_fork(lambda: digest(whole))
    draw = random.Random(options.seed)
    with tqdm.tqdm(total=options.kills, unit=" kills", disable=None) as progress:
        while counts["kills"] < options.kills:
            saves = max(0, draw.randrange(-3, 9))
            seconds = draw.uniform(0.0, 0.3 if saves else start)
            before, is_time = newest_step(directory), after(saves, seconds, directory)
            process = fork(lambda: train_small(directory, corpus, options.devices))
            if has_ended(process, is_time):
                counts["finished runs"] += 1
                counts["other weights"] += in_fork(lambda: digest(directory)) != expected
                counts["damaged checkpoints"] += num_damaged(directory)
                shutil.rmtree(directory)
                continue
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            counts["kills"] += 1
            counts["kills after the first save"] += newest_step(directory) > before
            counts["kills during a save"] += (directory / "checkpoints" / "writing").exists()
            counts["lost checkpoints"] += newest_step(directory) < before
            progress.update()
    counts["damaged checkpoints"] += num_damaged(directory)


def newest_step(directory: pathlib.Path) -> int:
    """Returns the step of the newest checkpoint, or 0."""
    from training.checkpointing.checkpoint_files import (
        checkpoint_directory,
        checkpoint_paths,
        step_of,
    )

    return max(map(step_of, checkpoint_paths(checkpoint_directory(directory))), default=0)


def num_damaged(directory: pathlib.Path) -> int:
    """Returns the number of damaged checkpoints, which were renamed."""
    return len(list(directory.glob("checkpoints/damaged-*.index")))


def main() -> None:
    """Runs the test."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    from tf_transformer.command_line.quiet import import_tensorflow

    import_tensorflow()
    import training.trainer  # noqa: F401, before the forks

    names = ("kills", "kills after the first save", "kills during a save", "finished runs")
    faults = ("other weights", "lost checkpoints", "damaged checkpoints")
    counts = collections.Counter({name: 0 for name in (*names, *faults)})
    with tempfile.TemporaryDirectory() as work:
        try:
            kill_many(options, pathlib.Path(work), counts)
        except KeyboardInterrupt:
            print("ended by Ctrl-C")
        finally:
            rows = "\n".join(f"| {name} | {count} |" for name, count in counts.items())
            print(f"| | number |\n|---|---|\n{rows}", flush=True)


if __name__ == "__main__":
    main()
