"""COMET: scores by a neural model, in a process of the Python that has unbabel-comet."""

import contextlib
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from training.metrics import comet_process
from training.metrics.metric import Metric
from training.metrics.sentence_means import SentenceMeans

_log = logging.getLogger(__name__)


class CometProcess:
    """A process that has loaded a COMET model. It ends with this object.

    Args:
        model: name or path of the model.
        python: the Python of the environment that has unbabel-comet; None is this one.
        gpus: number of GPUs.

    Attributes:
        facts: the version of unbabel-comet, the digest of the checkpoint, and whether the model
            uses references.

    Raises:
        InputError: the package or the model is missing, or the model cannot be loaded.
    """

    def __init__(self, model: str, python: pathlib.Path | None, gpus: int):
        self._python = str(python or sys.executable)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        command = [self._python, comet_process.__file__, model, str(gpus)]
        # No tokenizer threads, which warn of the processes that load data.
        environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "PYTHONUTF8": "1"}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                encoding="utf-8",
            )
        except OSError as error:
            raise InputError(
                f"--comet-python {printable(self._python)} cannot be started: {error.strerror}"
            ) from error
        self._end = weakref.finalize(self, _end, self._process, self._log)
        _log.info("loading the COMET model %s", printable(model))
        self.facts = self._read(model)

    def scores(self, texts: dict[str, Sequence[str]]) -> list[float]:
        """Returns the scores of sentences.

        Args:
            texts: sentences of the translation `mt`, the source `src` and the reference `ref`,
                which a model without references does not get.

        Raises:
            InputError: the model cannot score them.
        """
        requests: Any = self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # reported by `_read`
            requests.write(json.dumps(texts) + "\n")
            requests.flush()
        return self._read("")["scores"]

    def _read(self, model):
        output: Any = self._process.stdout
        line = output.readline()
        answer = json.loads(line) if line.endswith("\n") else {"error": self._last_words()}
        if "error" not in answer:
            return answer
        self._end()
        error = printable(str(answer["error"]), 300)
        if error.startswith("ModuleNotFoundError: No module named 'comet'"):
            raise InputError(
                f"COMET needs the package unbabel-comet, which {self._python} does not have. "
                "Install it in an environment of its own, and name the Python of that with "
                "--comet-python"
            )
        raise InputError(
            f"--comet-model {printable(model)}: {error}" if model else f"COMET failed: {error}"
        )

    def _last_words(self):
        """Returns the last line that the process wrote before it ended."""
        status = self._process.wait()
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 4096))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return f"the process ended with status {status}" + (f": {lines[-1]}" if lines else "")


def _end(process, log):
    process.kill()
    for file in (process.stdin, process.stdout, log):
        with contextlib.suppress(OSError):
            file.close()
    process.wait()


class Comet(Metric):
    """COMET, the mean over the sentences, and over the references of each.

    Args:
        model: name or path of the model.
        python: the Python of the environment that has unbabel-comet; None is this one.
        gpus: number of GPUs.

    Raises:
        InputError: the package or the model is missing, or the model cannot be loaded.
    """

    name, title = "comet", "COMET"
    digits = 4
    needs_sources = True

    def __init__(self, model: str, python: pathlib.Path | None = None, gpus: int = 0):
        self._process = CometProcess(model, python, gpus)
        self._facts = {
            "model": printable(model).replace("|", "_"),
            "checkpoint": self._process.facts["digest"],
            "version": self._process.facts["version"],
        }
        self._known: dict[tuple, list[float]] = {}

    def sentence_scores(self, hypotheses, references, sources=()):
        if not self._process.facts["uses_references"]:
            return self._scores({"src": sources, "mt": hypotheses})
        columns = [
            self._scores({"src": sources, "mt": hypotheses, "ref": reference})
            for reference in references
        ]
        return [sum(scores) / len(scores) for scores in zip(*columns, strict=True)]

    def sacrebleu_metric(self, sources=()):
        return SentenceMeans(
            self.title,
            lambda hypotheses, references: self.sentence_scores(hypotheses, references, sources),
            self._facts,
        )

    def _scores(self, texts):
        """Returns the scores of sentences, which are computed once."""
        # As `comet-score` does.
        stripped: dict[str, Sequence[str]] = {
            name: [line.strip() for line in lines] for name, lines in texts.items()
        }
        key = tuple(map(tuple, stripped.values()))
        if key not in self._known:
            self._known[key] = self._process.scores(stripped)
        return self._known[key]
