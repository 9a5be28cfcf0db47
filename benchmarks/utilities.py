"""Compares the time of the utilities of minimum Bayes risk with sacreBLEU's `sentence_score`.

    python -m benchmarks.utilities --text train.de --candidates 64

The candidates are variants of a sentence of the text, in which three of ten words are replaced.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
import sacrebleu

from tf_transformer.reranking.utilities import pairwise_bleu, pairwise_chrf
from tf_transformer.text.text_file import TextFile


def main() -> None:
    """Prints the median time of each, and their ratio, for several sentences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=TextFile.parse, required=True, metavar="F")
    parser.add_argument("--candidates", type=int, default=64, metavar="N")
    parser.add_argument("--sentences", type=int, default=5, metavar="N")
    options = parser.parse_args()
    draw = random.Random(1)
    lines = [line for line in options.text.lines() if len(line.split()) > 4]
    words = " ".join(lines).split()
    chrf, bleu = sacrebleu.CHRF(), sacrebleu.BLEU(effective_order=True)
    times: dict[str, list[tuple[float, float]]] = {"chrF": [], "BLEU": []}
    for line in draw.sample(lines, options.sentences):
        texts = [
            " ".join(draw.choice(words) if draw.random() < 0.3 else word for word in line.split())
            for _ in range(options.candidates)
        ]
        for name, ours, metric in (("chrF", pairwise_chrf, chrf), ("BLEU", pairwise_bleu, bleu)):
            found, seconds = timed(lambda ours=ours, texts=texts: ours(texts))
            expected, theirs = timed(
                lambda score=metric.sentence_score, texts=texts: [
                    [score(one, [other]).score for other in texts] for one in texts
                ]
            )
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            times[name].append((seconds, theirs))
    for name, pairs in times.items():
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        print(f"{name}: {1e3 * ours:.1f} ms, sacreBLEU {1e3 * theirs:.0f} ms, ratio {ratio:.0f}")


def timed(function: Callable[[], object]) -> tuple[object, float]:
    """Returns the result of a function and the seconds that it took."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
