"""Scores on a test set with noise: what it costs a model, and what it copies."""

import dataclasses
from collections.abc import Callable, Sequence

import tabulate
import tensorflow as tf

from training.evaluation.perturbations import Perturbation
from training.evaluation.scores import Scores, bleu_and_chrf
from training.noise.copies import KINDS, kinds_of_copies
from training.noise.draws import pair_keys
from training.noise.noise import perturb_lines

# The same sentences get the same noise in every evaluation.
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Robustness:
    """Scores with one perturbation.

    Args:
        perturbation: the perturbation.
        changed: number of sentences whose source it has changed.
        scores: the scores with it, by the perturbed reference.
        clean: the scores without it, by the reference as it is.
        copied: for `copies`, the share of inserted tokens that the translation contains unchanged,
            by kind and of all; else empty.
    """

    perturbation: Perturbation
    changed: int
    scores: Scores
    clean: Scores
    copied: dict[str, float]

    @property
    def bleu_difference(self) -> float:
        """BLEU with the perturbation minus BLEU without."""
        return self.scores.bleu - self.clean.bleu

    @property
    def chrf_difference(self) -> float:
        """The same difference in chrF."""
        return self.scores.chrf - self.clean.chrf

    def as_dict(self) -> dict:
        """Returns all values for JSON."""
        return {
            **dataclasses.asdict(self.perturbation),
            "seed": _SEED,
            "reference": self.perturbation.reference,
            "changed": self.changed,
            "bleu": self.scores.bleu,
            "bleu_difference": self.bleu_difference,
            "chrf": self.scores.chrf,
            "chrf_difference": self.chrf_difference,
            **({"copied": self.copied} if self.copied else {}),
        }


def score_perturbed(
    translate: Callable[[list[str]], list[str]],
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    perturbations: Sequence[Perturbation],
    clean: Scores,
    bleu_tokenizer: str,
) -> list[Robustness]:
    """Translates a test set with each perturbation, a function of the number of the line.

    Args:
        translate: translates source sentences.
        sources: the source sentences, with their language tags.
        references: one or more references of each, which `Perturbation.reference` says how are
            changed.
        perturbations: the perturbations.
        clean: the scores without any.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
    """
    results = []
    for perturbation in perturbations:
        noisy_sources, noisy_references, tokens = _perturb(sources, references, perturbation)
        translations = translate(noisy_sources)
        results.append(
            Robustness(
                perturbation,
                sum(map(str.__ne__, noisy_sources, sources)),
                bleu_and_chrf(translations, *noisy_references, bleu_tokenizer=bleu_tokenizer),
                clean,
                _copied(tokens, translations),
            )
        )
    return results


def _perturb(sources, references, perturbation):
    """Returns the sources and all references with noise, and the token copied to each sentence."""
    noisy_sources: list[str] = []
    noisy_references = []
    for reference in references:
        lines = perturb_lines(sources, reference, perturbation.rates, _SEED)
        noisy, changed, copied = map(list, zip(*lines, strict=True))
        if not noisy_sources:
            noisy_sources, tokens = noisy, copied
        # A source depends on its reference only where one of them is blank.
        rows = zip(noisy, noisy_sources, changed, reference, strict=True)
        noisy_references.append([new if own == first else old for own, first, new, old in rows])
    return noisy_sources, noisy_references, tokens


def _copied(tokens: list[str], translations: list[str]) -> dict[str, float]:
    """Returns the shares of tokens that the translations contain."""
    kinds = kinds_of_copies(pair_keys(_SEED, tf.range(len(tokens), dtype=tf.int64))).numpy()
    found: dict[str, list[bool]] = {name: [] for name in ("all", *KINDS)}
    for token, translation, kind in zip(tokens, translations, kinds, strict=True):
        if token:
            for name in ("all", KINDS[kind]):
                found[name].append(token in translation)
    return {name: sum(copied) / len(copied) for name, copied in found.items() if copied}


def robustness_table(results: Sequence[Robustness]) -> str:
    """Returns the scores as a text table; the first row is the text without noise."""
    clean = results[0].clean
    rows = [("none", "", f"{clean.bleu:.2f}", "", f"{clean.chrf:.2f}", "", "unchanged")]
    rows += [
        (
            str(result.perturbation),
            str(result.changed),
            f"{result.scores.bleu:.2f}",
            f"{result.bleu_difference:+.2f}",
            f"{result.scores.chrf:.2f}",
            f"{result.chrf_difference:+.2f}",
            result.perturbation.reference,
        )
        for result in results
    ]
    table = tabulate.tabulate(
        rows,
        headers=["noise", "changed", "BLEU", "difference", "chrF", "difference", "reference"],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["left", *["right"] * 5, "left"],
    )
    copied = [
        f"copied unchanged, {result.perturbation}: "
        + ", ".join(f"{name} {100 * share:.1f} %" for name, share in result.copied.items())
        for result in results
        if result.copied
    ]
    return "\n".join([table, *copied])
