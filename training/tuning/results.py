"""The results of a study: a table, JSON, CSV, and TensorBoard's HParams page."""

import contextlib
import csv
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import tabulate
import tensorflow as tf
from tensorboard.plugins.hparams import summary_v2 as hyper_parameters

from tf_transformer.printable import printable
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.own_files import check_own_folder, replacing_own
from training.tuning.study import TrialRecord, best_first

LOGS_NAME = "logs"
_SCORES = ("bleu", "chrf", "loss")
_FACTS = (*_SCORES, "best_step", "length_ratio", "model_dir", "failure")


class Results:
    """Writes the results of a study to the files of its folder.

    `NAME.json` and `NAME.csv` are replaced after each trial, best trial first. `logs/NAME/0003` is
    the trial with the number 3 for TensorBoard, whose page HParams shows all trials. It finds the
    names of the values itself: several studies in one folder cannot each define their columns.

    Args:
        folder: an existing folder.
        name: name of the study.
        maximize: whether a higher score is better.
        settings: names of the values that are tried.
    """

    def __init__(self, folder: pathlib.Path, name: str, maximize: bool, settings: Sequence[str]):
        self._folder, self._name, self._maximize = folder, name, maximize
        self._settings = list(settings)

    def write(self, records: Sequence[TrialRecord]) -> None:
        """Writes all files.

        Args:
            records: the finished trials.
        """
        records = best_first(records, self._maximize)
        rows = [self._row(record) for record in records]
        with replacing_own(self._folder / f"{self._name}.json") as path:
            write_json(path, rows, indent=1)
        names = ["trial", "state", *self._settings, *_FACTS]
        with (
            replacing_own(self._folder / f"{self._name}.csv") as path,
            path.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(row | row["params"] for row in rows)
        self._write_logs(records)

    def _row(self, record: TrialRecord) -> dict[str, Any]:
        return {
            "trial": record.number,
            "state": record.state,
            "params": record.params,
            **record.facts,
        }

    def _write_logs(self, records: Sequence[TrialRecord]) -> None:
        logs = self._folder / LOGS_NAME
        check_own_folder(logs)
        for record in records:
            path = logs / self._name / f"{record.number:04}"
            if path.exists():
                continue
            values = {
                name: value if isinstance(value, bool | int | float | str) else str(value)
                for name, value in record.params.items()
            }
            step = record.facts.get("best_step", 0)
            with _writer(path, step):
                hyper_parameters.hparams(values, trial_id=f"{self._name}/{path.name}")
                for name in _SCORES:
                    if name in record.facts:
                        tf.summary.scalar(f"tuning/{name}", record.facts[name])

    def table(self, records: Sequence[TrialRecord]) -> str:
        """Returns the trials as a Markdown table, best first.

        Args:
            records: the finished trials.
        """
        records = best_first(records, self._maximize)
        facts = [name for name in _FACTS if any(name in record.facts for record in records)]
        rows = [
            [
                record.number,
                *(_shown(record.params.get(name)) for name in self._settings),
                *(_shown(record.facts.get(name)) for name in facts),
                record.state,
            ]
            for record in records
        ]
        head = ["trial", *self._settings, *facts, "state"]
        return tabulate.tabulate(rows, headers=head, tablefmt="github", disable_numparse=True)


@contextlib.contextmanager
def _writer(path: pathlib.Path, step: int) -> Iterator[None]:
    """Lets summaries be written to a folder."""
    writer = tf.summary.create_file_writer(str(path))
    with writer.as_default(step=step):
        yield
    writer.close()


def _shown(value: Any) -> str:
    """Returns a value as text for a cell."""
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return printable(text, 100).replace("|", "\\|")
