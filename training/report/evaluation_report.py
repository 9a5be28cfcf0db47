"""The report of `evaluate`: a model and the systems that it is compared with."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from training.evaluation.settings import EvaluationTexts
from training.report.compared_texts import ComparedTexts, different_names, system_names
from training.report.comparison_report import ComparisonSettings, compare


def evaluation_report(
    texts: EvaluationTexts, model: str, translations: Sequence[str], given: dict[str, Any]
) -> str:
    """Returns the page of a model; the systems that it is compared with come first.

    Args:
        texts: the test set and the other systems.
        model: path or address of the model.
        translations: its translations.
        given: arguments of `ComparisonSettings` from the command line.
    """
    *names, name = different_names(
        [*system_names(texts.systems), pathlib.Path(model).name or model]
    )
    systems = {
        system: list(file.lines()) for system, file in zip(names, texts.systems, strict=True)
    }
    compared = ComparedTexts(
        source=texts.plain_sources(),
        references=[list(reference.lines()) for reference in texts.references],
        systems={**systems, name: translations},
    )
    source = dataclasses.replace(texts.source, prefix="")
    references = ", ".join(map(str, texts.references))
    facts = [f"model: {model}", f"source: {source}", f"reference: {references}"]
    report = compare(compared, ComparisonSettings(**given, facts=facts))
    return report.as_html(f"Evaluation of {name}")
