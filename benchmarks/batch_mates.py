"""How much the translation of a sentence depends on the sentences of its batch.

    python -m benchmarks.batch_mates --model-dir DIR --sentences F [--dtypes float32 bfloat16 int8]
        [--rows 1 2 8 32] [--beam-size 4]

Translates all sentences at once, and then fewer rows at a time, as a server does which merges other
requests each time. Prints a table in Markdown: the sentences whose translation is another one, the
99th percentile and the largest of the differences of scores, and the largest one among all scores
of the n best. Results depend on the processor's kernels. "int8" quantizes all matrices, while
`export` leaves those of small models in float32.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.text.text_file import TextFile


class Found:
    """The n best translations of sentences.

    Args:
        rows: the result of `Translator.n_best`.

    Attributes:
        texts: `(sentences, n)` strings.
        scores: `(sentences, n)` float64.
    """

    def __init__(self, rows: Sequence[Sequence]):
        self.texts = np.array([[x.text for x in row] for row in rows], np.object_)
        self.scores = np.array([[x.score for x in row] for row in rows], np.float64)


def compare(whole: Found, parts: Found) -> list[str]:
    """Returns the cells of a row of the table."""
    differences = np.abs(whole.scores - parts.scores)
    same = whole.texts == parts.texts
    best = differences[:, 0][same[:, 0]]
    return [
        str((~same[:, 0]).sum()),
        f"{np.quantile(best, 0.99):.0e}",
        f"{best.max():.0e}",
        f"{differences[same].max():.0e}",
        str((~same).any(axis=1).sum()),
    ]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", required=True, metavar="DIR")
    parser.add_argument("--sentences", required=True, metavar="F", help="one per line")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 2, 8, 32], metavar="N")
    parser.add_argument("--beam-size", type=int, default=4, metavar="N")
    options = parser.parse_args()
    import_tensorflow(on_cpu=True)
    from tf_transformer.inference.translator import Translator
    from tf_transformer.quantization import int8

    int8.FEWEST_WEIGHTS = int8.FEWEST_INPUTS = 0

    lines = list(TextFile.parse(options.sentences).lines())
    print(
        f"{len(lines)} sentences\n\n| | rows at once | other translations | scores: 99 % | largest "
        "| largest of the n best | other n best |\n|---|---|---|---|---|---|---|"
    )
    for dtype in options.dtypes:
        translator = Translator.load(
            options.model_dir,
            dtype=dtype,
            beam_size=options.beam_size,
            num_best=options.beam_size,
        )
        whole = Found(translator.n_best(lines))
        for size in options.rows:
            starts = range(0, len(lines), size)
            rows = [row for i in starts for row in translator.n_best(lines[i : i + size])]
            cells = [dtype, str(size), *compare(whole, Found(rows))]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
