"""Answers of the compiled search compared with those of the ordinary one, and what it saves.

    python -m benchmarks.compiled_answers --model-dir DIR --sentences F [--limit 1000] [--beams 1 4]
        [--rows 1 256] [--dtype float32] [--threads 1]

Translates the sentences with and without XLA in turn, one by one and in batches of 256, as
`translate` and `evaluate` do; with a language model, completes their first three words. Counts
equal answers; ties, which are other answers whose score differs by at most 1e-4; and different
ones, which are printed. Prints a table in Markdown with the ratio of the times, the seconds that
tracing and compiling took, and the number of searches, of a sentence or of a chunk, after which
they are saved.
"""

import argparse
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tqdm

TIE = 1e-4
CHUNK_SIZE = 32
MIN_PREPARATION = 0.5  # seconds; smaller differences are not those of a compiler
KINDS = ("equal", "tie", "different")
# Maps sentences to their answers, each with `text` and `score`.
_Answer = Callable[[list[str]], Sequence[Any]]


class Comparison(NamedTuple):
    """What was found in batches of one size.

    Attributes:
        counts: number of sentences by kind.
        seconds: for each batch, of the ordinary and of the compiled search.
        preparation: seconds of tracing and compiling.
    """

    counts: dict[str, int]
    seconds: list[tuple[float, float]]
    preparation: float


def kind_of(ordinary: Any, compiled: Any) -> str:
    """Returns how two answers differ, one of `KINDS`."""
    if abs(ordinary.score - compiled.score) > TIE:
        return "different"
    return "equal" if ordinary.text == compiled.text else "tie"


def answer_function(loaded: tuple, beam_size: int, xla: str) -> _Answer:
    """Returns the translation or completion of sentences with a loaded model."""
    from tf_transformer import Completer
    from tf_transformer.inference.translator import Translation
    from tf_transformer.predictors.answers import answer
    from tf_transformer.predictors.model_predictor import ModelPredictor

    model, source_tokenizer, tokenizer = loaded
    if source_tokenizer is None:
        completer = Completer(model, tokenizer, beam_size=beam_size, xla=xla)
        return lambda texts: [completer.complete(" ".join(text.split()[:3])) for text in texts]
    predictor = ModelPredictor.of_model(
        *loaded, beam_size=beam_size, chunk_size=CHUNK_SIZE, xla=xla
    )

    def translate(texts):
        (found,) = answer(predictor, "translate", {"text": texts})
        columns = (found[name] for name in ("translation", "score", "truncated"))
        return [Translation(*row) for row in zip(*columns, strict=True)]

    return translate


def compare(ordinary: _Answer, compiled: _Answer, sentences: list[str], rows: int) -> Comparison:
    """Answers batches with both in turn, all of them once before, to trace and to compile."""
    batches = [sentences[start : start + rows] for start in range(0, len(sentences), rows)]
    counts, first, seconds = dict.fromkeys(KINDS, 0), [], []
    for is_warm in (False, True):
        for batch in tqdm.tqdm(batches, unit=" batches", disable=None):
            found, times = [], []
            for answer in (ordinary, compiled):
                start = time.perf_counter()
                found.append(answer(batch))
                times.append(time.perf_counter() - start)
            if not is_warm:
                first.append(times[1])
                continue
            seconds.append((times[0], times[1]))
            for text, ours, theirs in zip(batch, *found, strict=True):
                kind = kind_of(ours, theirs)
                counts[kind] += 1
                if kind == "different":
                    print(f"{text}\n  {ours}\n  {theirs}", file=sys.stderr)
    excess = [cold - warm for cold, (_, warm) in zip(first, seconds, strict=True)]
    return Comparison(counts, seconds, sum(x for x in excess if x > MIN_PREPARATION))


def row_of(name: str, comparison: Comparison, num_searches: int) -> str:
    """Returns a row of the table, from the number of searches in all batches."""
    ordinary, compiled = (
        statistics.fmean(times) for times in zip(*comparison.seconds, strict=True)
    )
    saved = (ordinary - compiled) * len(comparison.seconds) / num_searches
    after = f"{comparison.preparation / saved:.0f}" if saved > 0 else "never"
    cells = [name, *comparison.counts.values(), f"{compiled / ordinary:.2f}"]
    cells += [f"{comparison.preparation:.1f}", after]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=pathlib.Path, required=True)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 256])
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=0, help="default: all processors")
    options = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    from tf_transformer.storage.model_dir import load_for_decoding

    sentences = options.sentences.read_text(encoding="utf-8").splitlines()[: options.limit]
    loaded = load_for_decoding(options.model_dir, options.dtype)
    print(
        "| | equal | tie | different | time, compiled / ordinary | preparation, s | saved after |"
    )
    print("|---|---|---|---|---|---|---|")
    for rows in options.rows:
        for beam_size in options.beams:
            functions = [answer_function(loaded, beam_size, xla) for xla in ("off", "on")]
            found = compare(*functions, sentences, rows)
            num_searches = math.ceil(len(sentences) / min(rows, CHUNK_SIZE))
            print(row_of(f"{rows} at once, beam {beam_size}", found, num_searches), flush=True)


if __name__ == "__main__":
    main()
