"""Metrics of translations: one table by name. This module does not import TensorFlow."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable

from tf_transformer.known_names import check_names
from training.metrics.exact import Exact
from training.metrics.metric import Metric
from training.metrics.sacrebleu_metrics import Bleu, Chrf, ChrfPlusPlus, Ter

DEFAULT_COMET_MODEL = "Unbabel/wmt22-comet-da"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """Settings of the metrics.

    Args:
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
        comet_model: name or path of the COMET model.
        comet_python: the Python of the environment that has unbabel-comet; None is this one.
        comet_gpus: number of GPUs for COMET.
    """

    bleu_tokenizer: str = "13a"
    comet_model: str = DEFAULT_COMET_MODEL
    comet_python: pathlib.Path | None = None
    comet_gpus: int = 0


def _make_comet(settings):
    from training.metrics.comet import Comet

    return Comet(settings.comet_model, settings.comet_python, settings.comet_gpus)


# How each metric is made, by its name.
METRICS: dict[str, Callable[[MetricSettings], Metric]] = {
    Bleu.name: lambda settings: Bleu(settings.bleu_tokenizer),
    Chrf.name: lambda settings: Chrf(),
    ChrfPlusPlus.name: lambda settings: ChrfPlusPlus(),
    Ter.name: lambda settings: Ter(),
    "comet": _make_comet,
    Exact.name: lambda settings: Exact(),
}


def make_metrics(names: Iterable[str], settings: MetricSettings | None = None) -> dict[str, Metric]:
    """Makes metrics, and checks that what they need is installed.

    Args:
        names: names of the table `METRICS`.
        settings: their settings; None is the defaults.

    Returns:
        The metrics by name, each once, in the order of the names.

    Raises:
        InputError: a name is unknown, or what a metric needs is missing.
        OSError: a file that it needs cannot be read.
    """
    names = list(dict.fromkeys(names))
    check_names(names, METRICS, "metric")
    return {name: METRICS[name](settings or MetricSettings()) for name in names}
