"""The scores of systems as a text table."""

from collections.abc import Sequence

import tabulate

from tf_transformer.printable import printable
from training.report.system_scores import MetricScores


def score_table(names: Sequence[str], metrics: Sequence[MetricScores]) -> str:
    """Returns scores with intervals, the differences of all pairs, and the signatures.

    Args:
        names: names of the systems.
        metrics: their scores.
    """
    shown = [printable(name) for name in names]
    rows = [
        [name] + [f"{one.systems[i].value:.2f} ± {one.systems[i].interval:.2f}" for one in metrics]
        for i, name in enumerate(shown)
    ]
    tables = [_format(["system", *(metric.name for metric in metrics)], rows, 1)]
    if len(names) > 1:
        head = ["system", "compared with"]
        for metric in metrics:
            head += [metric.name, "p"]
        differences = [
            [shown[pair[0].second], shown[pair[0].first]]
            + [cell for one in pair for cell in (f"{one.value:+.2f}", f"{one.p_value:.4f}")]
            for pair in zip(*(metric.differences for metric in metrics), strict=True)
        ]
        tables.append(_format(head, differences, 2))
    tables.append("\n".join(f"{metric.name:6}  {metric.signature}" for metric in metrics))
    return "\n\n".join(tables)


def _format(head, rows, num_texts):
    aligned = ["left"] * num_texts + ["right"] * (len(head) - num_texts)
    return tabulate.tabulate(
        rows, headers=head, tablefmt="plain", disable_numparse=True, colalign=aligned
    )
