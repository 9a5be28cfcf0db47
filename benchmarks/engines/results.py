"""Results of the engines: medians over the turns, BLEU, where they were measured, and a table."""

import datetime
import pathlib
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sacrebleu

from benchmarks.engines.measurement import Case, Turn
from benchmarks.engines.packages import versions
from benchmarks.engines.variants import VARIANTS
from benchmarks.versions import ROOT

_PACKAGES = ("keras", "sacrebleu")


def points(
    turns: Mapping[Case, Sequence[Turn]], sentences: Sequence[str], references: Sequence[str]
) -> tuple[list[dict[str, Any]], str]:
    """Returns the results of each case, and sacreBLEU's signature.

    BLEU is that of the first turn's translations. A word is what white space separates in the
    source, so that words per second do not depend on the vocabulary or on the translations.

    Args:
        turns: the turns of each case.
        sentences: the sentences that were translated.
        references: their references.
    """
    metric = sacrebleu.BLEU()
    num_words = sum(len(text.split()) for text in sentences)
    found = []
    for case, measured in turns.items():
        single = np.median([turn.single_seconds for turn in measured], axis=0)
        seconds = statistics.median(turn.all_seconds for turn in measured)
        found.append(
            {
                "model": case.model,
                "engine": case.variant,
                "beam_size": case.beam_size,
                "bleu": metric.corpus_score(measured[0].translations, [references]).score,
                "words_per_second": num_words / seconds,
                "p50_ms": 1000 * float(np.percentile(single, 50)),
                "p99_ms": 1000 * float(np.percentile(single, 99)),
                "memory_mb": statistics.median(turn.memory for turn in measured) / 2**20,
                "cold_start_s": statistics.median(turn.cold_start for turn in measured),
                "all_seconds": [turn.all_seconds for turn in measured],
            }
        )
    return found, str(metric.get_signature()) if found else ""


def describe_environment() -> dict[str, Any]:
    """Returns date, commit, processor and versions."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(words, capture_output=True, text=True)
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    found = {"python": platform.python_version()} | versions(sys.executable, _PACKAGES)
    for variant in VARIANTS.values():
        found |= versions(variant.python, variant.packages)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "processor": ", ".join(sorted(names)),
        "versions": {name: version for name, version in found.items() if version},
    }


def table(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a table in Markdown with a row for each model, engine and beam size."""
    columns = {
        "words/s": "words_per_second",
        "p50 ms": "p50_ms",
        "p99 ms": "p99_ms",
        "memory MB": "memory_mb",
        "cold start s": "cold_start_s",
        "BLEU": "bleu",
    }
    digits = {"words_per_second": 0, "memory_mb": 0}
    lines = ["| model | engine | beam | " + " | ".join(columns) + " |"]
    lines.append("|---" * (3 + len(columns)) + "|")
    for row in found:
        cells = [row["model"], row["engine"], str(row["beam_size"])]
        cells += [f"{row[key]:,.{digits.get(key, 1)}f}" for key in columns.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
