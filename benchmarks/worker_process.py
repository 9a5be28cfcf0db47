"""A program in its own process that answers requests, one JSON object a line.

`WorkerProcess` is the side of the program that asks, `answer_requests` that of the other.
This module needs only Python's standard library, so that other environments can import it.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

_SHOWN = 4000  # characters of the standard error output


class WorkerProcess:
    """A process that is asked by `ask`; its standard error output is kept for messages.

    Args:
        name: name in messages.
        words: the command line.
        environment: environment variables; None means those of this process.
    """

    def __init__(self, name: str, words: list[str], environment: Mapping[str, str] | None = None):
        self.name = name
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  see close
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request.

        Raises:
            RuntimeError: the process ended instead of answering; the message contains the end of
                its standard error output.
        """
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            self._errors.seek(0)
            message = self._errors.read()[-_SHOWN:].strip()
            raise RuntimeError(f"{self.name}: the process ended with status {status}\n{message}")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process: without further requests it returns."""
        with contextlib.suppress(BrokenPipeError):  # it may have ended
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def answer_requests(make_answer: Callable[[], Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Answers the requests on standard input until it ends.

    What libraries print to standard output goes to standard error.

    Args:
        make_answer: returns the function from a request to its answer; called once.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer = make_answer()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
