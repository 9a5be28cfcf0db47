"""Whether one system is better than another, or the test set merely happened to suit it."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import sacrebleu
from sacrebleu.significance import PairedTest

from tf_transformer.errors import InputError


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The model beside another system on the same sentences, by one metric.

    Args:
        system: name of the other system.
        metric: sacreBLEU's name, such as "BLEU" or "chrF2".
        model_score, system_score: of the whole test set.
        bootstrap_p: of paired bootstrap resampling (Koehn, 2004).
        bootstrap_signature: sacreBLEU's, with the seed and the number of resamples.
        randomization_p: of two-sided approximate randomization (Riezler & Maxwell, 2005).
        randomization_signature: sacreBLEU's, with the seed and the number of trials.

    A p is the probability of so large a difference if the systems were equally good. SacreBLEU
    counts larger differences only, but where the systems differ in few sentences, equal ones
    abound. So without any difference p is 1; and where k translations differ, two of the 2^k
    exchanges give what was seen, and the randomization's p is at least 2^(1 - k).
    """

    system: str
    metric: str
    model_score: float
    system_score: float
    bootstrap_p: float
    bootstrap_signature: str
    randomization_p: float
    randomization_signature: str

    @property
    def difference(self) -> float:
        """How far the model is ahead."""
        return self.model_score - self.system_score

    def as_dict(self) -> dict:
        """All values, for JSON."""
        return dataclasses.asdict(self) | {"difference": self.difference}


def check_systems(systems: dict[str, Sequence[str]], sentences: int) -> None:
    """Refuses what `compare_systems` could not compare, before anything is translated.

    Raises:
        ValueError: a system has another number of translations than the test set has sentences, or
            `SACREBLEU_SEED` is no seed.
    """
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if systems and seed.lower() != "none" and not seed.isdecimal():
        raise InputError(f"SACREBLEU_SEED: expected a number, or none. Received: {seed!r}")
    for name, hypotheses in systems.items():
        if len(hypotheses) != sentences:
            raise InputError(
                f"{name} must have one line for each of the {sentences} sentences of the test set. "
                f"Received: {len(hypotheses)} lines"
            )


def compare_systems(
    translations: Sequence[str],
    systems: dict[str, Sequence[str]],
    references: Sequence[str],
    *,
    bleu_tokenizer: str = "13a",
    resamples: int = 1000,
    trials: int = 10_000,
) -> list[Comparison]:
    """Compares a model with other systems by BLEU and chrF, with sacreBLEU's own tests.

    The random choices are those of sacreBLEU's seed, 12345 or `SACREBLEU_SEED`. Each system is
    compared by itself: the p values are not corrected for their number.

    Args:
        translations: the model's.
        systems: names of other systems and their translations of the same sentences.
        references: the right translations.
        bleu_tokenizer: sacreBLEU's name of it.
        resamples: of the bootstrap.
        trials: of the randomization.

    Returns:
        For each system in turn one by BLEU and one by chrF.

    Raises:
        ValueError: a system has another number of translations, or `SACREBLEU_SEED` is no seed.
    """
    check_systems(systems, len(translations))
    named = [("model", translations), *systems.items()]
    tests: dict[str, Any] = {}
    for kind, samples in (("bs", resamples), ("ar", trials)):
        # Each test writes its own samples into the signatures of its metrics.
        metrics = {"BLEU": sacrebleu.BLEU(tokenize=bleu_tokenizer), "chrF": sacrebleu.CHRF()}
        tests[kind] = PairedTest(named, metrics, [references], kind, n_samples=samples)()
    (bootstrap_signatures, bootstrap), (signatures, randomization) = tests["bs"], tests["ar"]
    comparisons = []
    for number, system in enumerate(systems, 1):
        num_different = sum(map(str.__ne__, translations, systems[system]))
        least = min(1.0, 2.0 ** (1 - num_different))
        for metric in signatures:
            ours, theirs = bootstrap[metric][0].score, bootstrap[metric][number].score
            comparison = Comparison(
                system=system,
                metric=metric,
                model_score=ours,
                system_score=theirs,
                bootstrap_p=1.0 if ours == theirs else bootstrap[metric][number].p_value,
                bootstrap_signature=str(bootstrap_signatures[metric]),
                randomization_p=1.0
                if ours == theirs
                else max(least, randomization[metric][number].p_value),
                randomization_signature=str(signatures[metric]),
            )
            comparisons.append(comparison)
    return comparisons


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons as lines to read, the signatures below."""
    width = max(len("system"), *(len(comparison.system) for comparison in comparisons))
    lines = [
        f"{'system':{width}}  metric   model  system  difference  bootstrap p  randomization p"
    ]
    for one in comparisons:
        lines.append(
            f"{one.system:{width}}  {one.metric:6}  {one.model_score:6.2f}  {one.system_score:6.2f}"
            f"  {one.difference:+10.2f}  {one.bootstrap_p:11.4f}  {one.randomization_p:15.4f}"
        )
    signatures = {
        (one.metric, signature): None
        for one in comparisons
        for signature in (one.bootstrap_signature, one.randomization_signature)
    }
    return "\n".join([*lines, *(f"{metric:6}  {text}" for metric, text in signatures)])
