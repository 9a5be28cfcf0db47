"""Terms: how many of them translations contain, and what they cost in BLEU and in time.

    python -m benchmarks.terms --model-dir model --source test.en --target test.de

Draws phrases of 1 to 3 words that occur in a reference but not in the plain translation, and asks
for them. Prints a table in Markdown: a row for the plain search, one for the search with terms
without any, and one for each number of terms per sentence. A term counts as present if it is a
substring of the translation. BLEU is sacreBLEU's, seconds are the median of several rounds, in
which the searches take turns.
"""

import argparse
import pathlib
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.text.text_file import TextFile

_LONGEST = 3  # words of a term


class Result(NamedTuple):
    """What one search did with all sentences."""

    translations: list[str]
    unmet: list[list[str]]
    seconds: float


def draw_terms(reference: str, translation: str, count: int, draw: random.Random) -> list[str]:
    """Returns up to `count` phrases of the reference, without common words, not in the translation.

    Args:
        reference: the reference.
        translation: the plain translation.
        count: largest number of phrases.
        draw: random numbers.
    """
    words = reference.split()
    spans = [
        (start, start + length)
        for length in range(1, _LONGEST + 1)
        for start in range(len(words) - length + 1)
        if " ".join(words[start : start + length]) not in translation
    ]
    draw.shuffle(spans)
    chosen: list[tuple[int, int]] = []
    for start, end in spans:
        if len(chosen) < count and all(end <= first or last <= start for first, last in chosen):
            chosen.append((start, end))
    return [" ".join(words[start:end]) for start, end in chosen]


def search(call: Callable[[list[str], list[str]], Any], sources: list[str], terms: list[str],
           batch_size: int) -> Result:  # fmt: skip
    """Translates all sentences, batch by batch, and measures the time."""
    translations, unmet = [], []
    start = time.perf_counter()
    for first in range(0, len(sources), batch_size):
        batch = slice(first, first + batch_size)
        texts, missing = call(sources[batch], terms[batch])
        translations += texts
        unmet += missing
    return Result(translations, unmet, time.perf_counter() - start)


def searches(model_dir: pathlib.Path, beam_size: int) -> tuple[Callable, Callable, Any]:
    """Returns the plain search, that with terms, and the vocabulary of the target."""
    import tensorflow as tf

    from tf_transformer.inference.term_translator import TermTranslator
    from tf_transformer.inference.translator import Translator

    translator = Translator.load(model_dir, beam_size=beam_size)
    constrained = TermTranslator(translator)

    def plain(sources, _):
        found = translator.translate(tf.constant(sources)).text[:, 0].numpy()
        return [text.decode() for text in found], [[]] * len(sources)

    def with_terms(sources, terms):
        rows = {"text": sources, "terms": terms, "protect": [0] * len(sources)}
        found = constrained.translate_rows(rows)
        return found["translation"], [x.split("\n") if x else [] for x in found["terms_unmet"]]

    return plain, with_terms, translator.target_tokenizer


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--source", type=TextFile.parse, required=True, metavar="F")
    parser.add_argument("--target", type=TextFile.parse, required=True, metavar="F")
    parser.add_argument("--sentences", type=int, default=200, metavar="N")
    parser.add_argument("--terms", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    parser.add_argument("--beam-size", type=int, default=4, metavar="N")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    sources = list(options.source.lines())[: options.sentences]
    references = list(options.target.lines())[: options.sentences]
    import_tensorflow(on_cpu=True)
    plain, with_terms, vocabulary = searches(options.model_dir, options.beam_size)
    first = search(plain, sources, [""] * len(sources), options.batch_size)
    wanted: dict[str, list[list[str]]] = {"plain": [[]] * len(sources), "none": [[]] * len(sources)}
    for count in options.terms:
        draw = random.Random(count)
        wanted[f"up to {count}"] = [
            draw_terms(reference, translation, count, draw)
            for reference, translation in zip(references, first.translations, strict=True)
        ]
    results: dict[str, list[Result]] = {name: [] for name in wanted}
    for _ in range(1 + options.rounds):  # the first is a warm-up
        for name, terms in wanted.items():
            call = plain if name == "plain" else with_terms
            entries = ["\n".join(f"\t{term}" for term in row) for row in terms]
            results[name].append(search(call, sources, entries, options.batch_size))
    print_table(wanted, results, references, vocabulary)


def print_table(wanted, results, references, vocabulary) -> None:
    """Prints the table."""
    import sacrebleu

    from tf_transformer.text.special_ids import UNKNOWN_ID

    print("| terms per sentence | terms | writable | present | BLEU | ms per sentence | of plain |")
    print("|---|---|---|---|---|---|---|")
    base = statistics.median(result.seconds for result in results["plain"][1:])
    for name, rounds in results.items():
        last = rounds[-1]
        terms = [(term, row) for row, found in enumerate(wanted[name]) for term in found]
        is_writable = {term: UNKNOWN_ID not in vocabulary.encode([term])[0] for term, _ in terms}
        writable = [(term, row) for term, row in terms if is_writable[term]]
        present = [pair for pair in writable if pair[0] in last.translations[pair[1]]]
        for term, row in terms:  # the search reports exactly those that are not there
            if (term in last.unmet[row]) == (term in last.translations[row]):
                print(f"differs from what was reported: {term!r} in {last.translations[row]!r}")
        seconds = statistics.median(result.seconds for result in rounds[1:])
        bleu = sacrebleu.corpus_bleu(last.translations, [references]).score
        share = f"{100 * len(present) / len(writable):.1f} %" if writable else ""
        print(
            f"| {name} | {len(terms)} | {len(writable)} | {share} | {bleu:.1f} | "
            f"{1000 * seconds / len(references):.1f} | {seconds / base:.2f} |"
        )


if __name__ == "__main__":
    main()
