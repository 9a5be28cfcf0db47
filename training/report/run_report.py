"""The report of training runs: curves, scores, settings that differ, samples and attention."""

import base64
import datetime
import os
from collections.abc import Sequence
from typing import Any

from tf_transformer.printable import printable
from training.report.charts import NUM_COLORS, draw_lines
from training.report.compared_texts import different_names
from training.report.html_page import render
from training.report.recorded_run import RecordedRun

# Curves by their source and name, with their titles; losses and perplexities are logarithmic.
_CURVES = (
    ("validation", "loss", "validation loss", False),
    ("validation", "perplexity", "validation perplexity", True),
    ("validation", "accuracy", "validation accuracy of tokens", False),
    ("validation", "bleu", "BLEU of validation sentences", False),
    ("validation", "chrf", "chrF of validation sentences", False),
    ("training", "loss", "training loss, label-smoothed", False),
    ("training", "learning rate", "learning rate", False),
)


def runs_report(runs: Sequence[RecordedRun], tables: Sequence[Sequence[Sequence[Any]]]) -> str:
    """Returns the page of model directories.

    Args:
        runs: what they record.
        tables: tables to show first, each a list of rows, of which the first is the head; None is
            a missing value.
    """
    folder, names = _names([recorded.run.path for recorded in runs])
    settings = different_settings(runs)
    attention = [
        {
            "run": index,
            "part": picture.part,
            "step": f"{picture.step:,}",
            "png": base64.b64encode(picture.png).decode(),
        }
        for index, recorded in enumerate(runs)
        for picture in recorded.attention
    ]
    has_samples = any(recorded.samples for recorded in runs)
    charts = _charts(runs)
    sections = [
        ("runs", "Runs", True),
        ("curves", "Curves", charts),
        ("settings", "Settings", settings),
        ("samples", "Samples", has_samples),
        ("attention", "Attention", attention),
    ]
    number = f"{len(runs):,} model director{'y' if len(runs) == 1 else 'ies'}"
    return render(
        "runs.html",
        ["texts.js", "runs.js"],
        _data(runs, names),
        title="Training runs",
        facts=[number, f"in {folder}", datetime.date.today().isoformat()],
        sections=[(name, title) for name, title, is_shown in sections if is_shown],
        names=names,
        num_colors=NUM_COLORS,
        tables=tables,
        faults=[recorded.fault for recorded in runs],
        charts=charts,
        settings=settings,
        has_samples=has_samples,
        attention=attention,
    )


def _names(paths):
    """Returns the folder that all runs are in, and their names in it."""
    folder = os.path.commonpath([os.path.abspath(path.parent) for path in paths])
    return folder, different_names([os.path.relpath(path, folder) for path in paths])


def different_settings(runs: Sequence[RecordedRun]) -> list[tuple[str, list[str | None]]]:
    """Returns the settings that differ between runs, or all settings of a single run.

    Args:
        runs: what they record.

    Returns:
        The name of each setting, and its value in each run; None of a run without settings.
    """
    names = dict.fromkeys(name for recorded in runs for name in recorded.settings)
    rows = []
    for name in names:
        values = [
            printable(str(recorded.settings[name]), 200) if name in recorded.settings else None
            for recorded in runs
        ]
        if len(runs) == 1 or len(set(values) - {None}) > 1:
            rows.append((name, values))
    return rows


def _charts(runs):
    charts = []
    for source, name, title, is_logarithmic in _CURVES:
        lines = [
            (index, points)
            for index, recorded in enumerate(runs)
            if (points := getattr(recorded, source).get(name))
        ]
        if lines:
            charts.append((title, draw_lines(title, lines, logarithmic=is_logarithmic)))
    return charts


def _data(runs, names):
    """Returns what the script shows: the samples of the runs that have some."""
    return {
        "colors": NUM_COLORS,
        "runs": [
            {
                "name": name,
                "index": index,
                "samples": [
                    {
                        "source": sample.source,
                        "reference": sample.reference,
                        "translations": sorted(sample.translations.items()),
                    }
                    for sample in recorded.samples
                ],
            }
            for index, (name, recorded) in enumerate(zip(names, runs, strict=True))
            if recorded.samples
        ],
    }
