"""The report of a test set: scores, groups, errors and sentences of one or more systems."""

import collections
import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.text.text_file import TextFile
from training.report.charts import NUM_COLORS, draw_bars, draw_intervals, draw_points
from training.report.compared_texts import ComparedTexts
from training.report.html_page import render
from training.report.sentence_groups import group_by_length
from training.report.system_scores import (
    CHRF,
    RESAMPLES,
    MetricScores,
    make_metrics,
    score_systems,
)
from training.report.visible_errors.error_finder import (
    ERROR_CLASSES,
    ErrorFinder,
    FoundError,
    count_errors,
)
from training.report.word_frequencies import count_words, group_by_frequency


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """How systems are compared.

    Args:
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
        source_language: language of the source, for negation.
        target_language: language of the references, for negation.
        training_text: text of the target language that the systems were trained on, for scores by
            the frequency of words.
        facts: what else to say about the texts, such as the names of their files.
    """

    bleu_tokenizer: str = "13a"
    source_language: str | None = None
    target_language: str | None = None
    training_text: TextFile | None = None
    facts: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class ComparisonReport:
    """What is known about systems on a test set.

    Args:
        texts: the test set and the translations.
        metrics: the scores.
        errors: for each system, the errors in each sentence.
        absent: for each class of errors, why it is not looked for, or None.
        words: occurrences of words in the training text; None without one.
        facts: what to say about the texts.
    """

    texts: ComparedTexts
    metrics: list[MetricScores]
    errors: list[list[list[FoundError]]]
    absent: list[str | None]
    words: collections.Counter[str] | None
    facts: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Returns scores and counts of errors for JSON."""
        names = list(self.texts.systems)
        return {
            "sentences": len(self.texts),
            "references": len(self.texts.references),
            "scores": {metric.name: metric.as_dict(names) for metric in self.metrics},
            "errors": {
                name: {
                    error.name: count
                    for error, count, absent in zip(
                        ERROR_CLASSES, count_errors(found), self.absent, strict=True
                    )
                    if absent is None
                }
                for name, found in zip(names, self.errors, strict=True)
            },
        }

    def as_html(self, title: str = "Comparison of translations") -> str:
        """Returns the page.

        Args:
            title: its title.
        """
        names = list(self.texts.systems)
        groups = group_by_length(self.texts.references[0], self.metrics)
        words = self._words()
        sections = [
            ("scores", "Scores"),
            ("groups", "By length and word frequency" if words else "By length"),
            ("errors", "Visible errors"),
            ("sentences-heading", "Sentences"),
        ]
        return render(
            "comparison.html",
            ["texts.js", "comparison.js"],
            self._data(),
            title=title,
            facts=self.facts,
            sections=sections,
            names=names,
            num_colors=NUM_COLORS,
            num_references=len(self.texts.references),
            resamples=f"{RESAMPLES:,}",
            score=CHRF,
            metrics=[_metric_values(metric) for metric in self.metrics],
            differences=_differences(self.metrics),
            lengths=groups,
            length_chart=_length_chart(groups, len(names)),
            words=words,
            word_chart=_word_chart(words, len(names)) if words else None,
            errors=self._error_rows(),
            error_chart=self._error_chart(),
            hidden_alone=Markup(" hidden") if len(names) == 1 else "",
        )

    def _data(self) -> dict[str, Any]:
        """Returns what the script shows."""
        sentence_scores = self.metrics[-1].of_sentences()
        return {
            "score": CHRF,
            "colors": NUM_COLORS,
            "source": self.texts.source,
            "references": self.texts.references,
            "errors": [error.title for error in ERROR_CLASSES],
            "systems": [
                {
                    "name": name,
                    "lines": lines,
                    "scores": [round(score, 1) for score in scores],
                    "errors": [errors or 0 for errors in found],
                }
                for (name, lines), scores, found in zip(
                    self.texts.systems.items(), sentence_scores, self.errors, strict=True
                )
            ],
        }

    def _words(self):
        if self.words is None:
            return None
        systems = list(self.texts.systems.values())
        return group_by_frequency(self.words, self.texts.references[0], systems)

    def _error_rows(self):
        counts = [count_errors(found) for found in self.errors]
        return [
            dataclasses.asdict(error)
            | {
                "index": index,
                "absent": self.absent[index],
                "counts": [of_system[index] for of_system in counts],
            }
            for index, error in enumerate(ERROR_CLASSES)
        ]

    def _error_chart(self):
        rows = [row for row in self._error_rows() if any(row["counts"])]
        if not rows:
            return None
        return draw_bars(
            "Sentences by class of error",
            [row["title"] for row in rows],
            list(zip(*(row["counts"] for row in rows), strict=True)),
            horizontal=True,
        )


def compare(texts: ComparedTexts, settings: ComparisonSettings) -> ComparisonReport:
    """Scores systems, and finds errors in their translations.

    Args:
        texts: the test set and the translations.
        settings: how to compare them.

    Raises:
        InputError: a line of the training text is not text.
    """
    metrics = score_systems(texts.systems, texts.references, make_metrics(settings.bleu_tokenizer))
    text = settings.training_text
    words = count_words(text.lines()) if text else None
    finder = ErrorFinder(texts, settings.source_language, settings.target_language, words or ())
    sentences = progress_bar(iterable=range(len(texts)), desc="errors", unit=" sentences")
    found = [finder.find(index) for index in sentences]
    references = f"{len(texts.references)} references" if len(texts.references) > 1 else None
    facts = [
        f"{len(texts):,} sentences",
        references,
        *settings.facts,
        f"training text: {text}" if text else None,
        datetime.date.today().isoformat(),
    ]
    return ComparisonReport(
        texts,
        metrics,
        [list(of_system) for of_system in zip(*found, strict=True)],
        [finder.absent(error) for error in ERROR_CLASSES],
        words,
        [fact for fact in facts if fact],
    )


def _metric_values(metric):
    return {
        "name": metric.name,
        "signature": metric.signature,
        "systems": metric.systems,
        "best": max(score.value for score in metric.systems) if len(metric.systems) > 1 else None,
        "chart": draw_intervals(
            f"{metric.name} with confidence intervals",
            [(score.mean, score.interval) for score in metric.systems],
        ),
    }


def _differences(metrics):
    """Returns a row for each pair of systems, with the difference and p by each metric."""
    return [
        {
            "first": pair[0].first,
            "second": pair[0].second,
            "metrics": [(one.value, one.p_value) for one in pair],
        }
        for pair in zip(*(metric.differences for metric in metrics), strict=True)
    ]


def _length_chart(groups, num_systems):
    return draw_points(
        f"{CHRF} by number of words of the reference",
        [group.title for group in groups],
        [[group.scores[-1][system] for group in groups] for system in range(num_systems)],
    )


def _word_chart(words, num_systems):
    return draw_bars(
        "F1 of words by their number in the training text",
        [group.title for group in words],
        [[group.f_scores[system] for group in words] for system in range(num_systems)],
    )
