"""Runs the command `web` as its users do."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[3]


# Becomes the command. A shell ignores the signal for what it runs in the background, which programs
# inherit. No `preexec_fn`: a fork beside the threads of gRPC may fail.
_WITH_SIGINT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class RunningWeb(NamedTuple):
    """The process of the command, and the address that it has printed."""

    process: subprocess.Popen
    address: str


@contextlib.contextmanager
def run_web(
    server: str, *options: str, program: Sequence[str] = ("-m", "tf_transformer")
) -> Iterator[RunningWeb]:
    """Runs the command on a free port, until its page can be requested."""
    words = (*program, "web", "--server", server, "--port", "0", *options)
    process = subprocess.Popen(
        [sys.executable, "-c", _WITH_SIGINT, sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        match = re.search(r"http://\S+/", line)
        assert match, line + process.stderr.read()
        yield RunningWeb(process, match[0])
    finally:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen, signum: int = signal.SIGTERM) -> tuple[int, str]:
    """Sends a signal, and returns the exit status and what the process has written as errors."""
    process.send_signal(signum)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors
