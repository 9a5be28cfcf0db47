"""The result of an evaluation: the scores, what they are of, and how they are shown."""

import dataclasses
import math

from training.evaluation.measures import PERPLEXITY, Measures
from training.evaluation.robustness import Robustness, robustness_table
from training.evaluation.significance import Comparison, comparison_table
from training.metrics.metric import Score


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a test set.

    Args:
        measures: what is reported.
        scores: the scores, by the names of the measures. The perplexity is that per token of the
            references, without label smoothing; it excludes pairs that are longer than the model's
            limit or have an empty side, and is NaN without pairs.
        sentences: number of sentences in the test set.
        beam_size: beam size of the search; None is that of an exported model.
        length_penalty: length penalty of the search; None is that of an exported model.
        dtype: dtype of the computation, see `load_for_decoding`; None of an exported model.
        choice: how translations were chosen among candidates; None if by the search.
        origin: digests of the model's weights, of the shortlist if there was one, of the source and
            of the references; date and versions.
        comparisons: comparisons with other systems' translations.
        robustness: scores with perturbations.
    """

    measures: Measures
    scores: dict[str, Score]
    sentences: int
    beam_size: int | None
    length_penalty: float | None
    dtype: str | None
    choice: dict | None
    origin: dict
    comparisons: list[Comparison]
    robustness: list[Robustness]

    def as_dict(self) -> dict:
        """Returns all values for JSON; scores that are not finite become None."""
        values: dict = {}
        for name, score in self.scores.items():
            values[name] = score.value if math.isfinite(score.value) else None
            if score.signature:
                values[f"{name}_signature"] = score.signature
        for name in ("sentences", "beam_size", "length_penalty", "dtype"):
            values[name] = getattr(self, name)
        comparisons = [comparison.as_dict() for comparison in self.comparisons]
        perturbations = [result.as_dict() for result in self.robustness]
        return {
            **values,
            **({"choice": self.choice} if self.choice is not None else {}),
            **self.origin,
            **({"comparisons": comparisons} if comparisons else {}),
            **({"perturbations": perturbations} if perturbations else {}),
        }

    def __str__(self) -> str:
        tables = f"\n\n{comparison_table(self.comparisons)}" if self.comparisons else ""
        if self.robustness:
            tables += f"\n\n{robustness_table(self.robustness)}"
        return "\n".join(map(self._line, self.scores)) + tables

    def _line(self, name):
        score = self.scores[name]
        if name == PERPLEXITY:
            return f"perplexity  {score.value:6.2f}"
        metric = self.measures.metrics[name]
        if name == "exact":
            return f"exact       {100 * score.value:6.2f} % of {self.sentences} sentences"
        return f"{metric.title:12}{score.value:6.{metric.digits}f}   {score.signature}"
