r"""Accuracy, speed and size of a language classifier, and what the filter of `prepare` finds.

    python -m benchmarks.language_id --directory DIR \
        --corpus en=train.en de=train.de zh=train.tsv:2 --test en=val.en de=val.de zh=dev.tsv:2 \
        --pairs en-de=train.en,train.de [--library py3langid lingua]

Trains a classifier on the corpora with the command `train-language-id`, and identifies the texts of
the tests, whole and in part: their first three words, or the first five characters of a text
without spaces. Libraries, which must be installed, are restricted to the same languages. Then
exchanges the sides of some pairs of a parallel corpus, prepares it, and counts which pairs are
dropped, for several thresholds. Prints tables in Markdown. DIR keeps what is written.
"""

import argparse
import collections
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.language_id.classifier import UNDETERMINED
from tf_transformer.language_id.classifier_file import read_classifier
from tf_transformer.text.special_ids import END_ID
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.vocabulary import Vocabulary
from training.prepared.prepared_folder import read_models
from training.prepared.records import encode_pair, read_records

if TYPE_CHECKING:
    from tf_transformer.language_id.classifier import LanguageClassifier

# From texts to the names of their languages.
Identify = Callable[[Sequence[str]], Sequence[str]]

_ROUNDS = 5
_THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.5)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--corpus", nargs="+", required=True, metavar="L=F")
    parser.add_argument("--test", nargs="+", required=True, metavar="L=F")
    parser.add_argument("--pairs", metavar="L-L=F,F", help="a parallel corpus for the filter")
    parser.add_argument("--swapped", type=float, default=0.05, help="share of exchanged pairs")
    parser.add_argument("--library", nargs="*", default=[], choices=list(_LIBRARIES))
    parser.add_argument("--no-speed", action="store_true", help="do not measure texts per second")
    options = parser.parse_args()
    # One core for everything: speeds are those of one core.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    options.directory.mkdir(parents=True, exist_ok=True)
    path = options.directory / "classifier"
    corpora = [word for corpus in options.corpus for word in ("--corpus", corpus)]
    run("train-language-id", *corpora, "--output", str(path))
    classifier = read_classifier(path)
    texts = collections.defaultdict(list)
    for test in options.test:
        language, _, name = test.partition("=")
        texts[language] += TextFile.parse(name).lines()
    systems = {"NumPy (`identify`)": _by_numpy(classifier)}
    languages = [name for name in classifier.languages if name != UNDETERMINED]
    for name in options.library:
        systems[name] = _LIBRARIES[name](languages)
    print_accuracy(languages, texts, systems)
    if not options.no_speed:
        print_speed([text for lines in texts.values() for text in lines], systems, classifier)
    if options.pairs:
        print_filter(options, path)


def run(*words: str) -> None:
    """Runs a command of the project, which prints its report."""
    subprocess.run([sys.executable, "-m", "tf_transformer", *words], check=True)


def _by_numpy(classifier: "LanguageClassifier") -> Identify:
    def identify(texts):
        return classifier.identify([text.encode() for text in texts]).languages

    return identify


def _by_py3langid(languages: Sequence[str]) -> Identify:
    import py3langid

    py3langid.set_languages(list(languages))
    return lambda texts: [py3langid.classify(text)[0] for text in texts]


def _by_lingua(languages: Sequence[str]) -> Identify:
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, language.upper()) for language in languages]
    detector = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()

    def identify(texts):
        found = map(detector.detect_language_of, texts)
        return ["und" if name is None else name.iso_code_639_1.name.lower() for name in found]

    return identify


_LIBRARIES = {"py3langid": _by_py3langid, "lingua": _by_lingua}


def first_words(text: str) -> str:
    """Returns the first three words, or the first five characters of a text without spaces."""
    words = text.split()
    return " ".join(words[:3]) if len(words) > 2 else text[:5]


def print_accuracy(
    languages: Sequence[str], texts: dict[str, list[str]], systems: dict[str, Identify]
) -> None:
    """Prints the share of correct, undetermined and wrong answers for whole and short texts."""
    print("\n| text in | texts | system | correct | undetermined | wrong |")
    print("|---|---|---|---|---|---|")
    for language in filter(texts.get, languages):
        for kind, change in (("whole", str), ("short", first_words)):
            parts = [change(text) for text in texts[language]]
            for name, identify in systems.items():
                found = collections.Counter(identify(parts))
                correct, undetermined = found[language], found[UNDETERMINED]
                wrong = len(parts) - correct - undetermined
                shares = (f"{100 * x / len(parts):.2f} %" for x in (correct, undetermined, wrong))
                cells = [language, f"{len(parts):,} {kind}", name, *shares]
                print(f"| {' | '.join(cells)} |", flush=True)


def print_speed(
    texts: list[str], systems: dict[str, Identify], classifier: "LanguageClassifier"
) -> None:
    """Prints texts per second of one core's time, by turns, the median of several rounds."""
    random.Random(1).shuffle(texts)
    systems = systems | {
        f"TensorFlow graph, batches of {rows}": _by_graph(classifier, rows) for rows in (1, 32, 256)
    }
    seconds = collections.defaultdict(list)
    for number in range(_ROUNDS + 1):
        for name, identify in systems.items():
            begin = time.process_time()
            identify(texts)
            if number:  # the first round warms up
                seconds[name].append(time.process_time() - begin)
    num_bytes = np.mean([len(text.encode()) for text in texts])
    print(f"\n| one core, {len(texts):,} texts of {num_bytes:.0f} bytes | texts per second |")
    print("|---|---|")
    for name, times in seconds.items():
        print(f"| {name} | {len(texts) / statistics.median(times):,.0f} |")


def _by_graph(classifier: "LanguageClassifier", rows: int) -> Identify:
    import_tensorflow(on_cpu=True)
    import tensorflow as tf

    from tf_transformer.language_id.identifier import LanguageIdentifier

    identifier = LanguageIdentifier(classifier)
    function = tf.function(
        identifier.identify, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )

    def identify(texts):
        found = []
        for begin in range(0, len(texts), rows):
            found += function(tf.constant(texts[begin : begin + rows])).languages.numpy().tolist()
        return [name.decode() for name in found]

    return identify


def print_filter(options: argparse.Namespace, path: pathlib.Path) -> None:
    """Prints precision and recall of the pairs that `prepare` drops, and what the filter costs."""
    names, _, files = options.pairs.partition("=")
    languages = names.split("-")
    sides = [list(TextFile.parse(name).lines()) for name in files.split(",")]
    pairs = list(dict.fromkeys(zip(*sides, strict=True)))  # those of several lines are dropped
    swapped = set(random.Random(1).sample(range(len(pairs)), int(options.swapped * len(pairs))))
    mixed = [pair[::-1] if index in swapped else pair for index, pair in enumerate(pairs)]
    texts = []
    for side, language in enumerate(languages):
        texts.append(options.directory / f"mixed.{language}")
        texts[-1].write_text("".join(f"{pair[side]}\n" for pair in mixed), encoding="utf-8")
    print(f"\n{len(pairs):,} pairs, of which {len(swapped):,} are exchanged:\n")
    print("| threshold | dropped | precision | recall | CPU seconds |\n|---|---|---|---|---|")
    vocabulary = _prepare(options.directory, texts, "--vocab-size", "8000")[0]
    common = ["--vocabulary", str(vocabulary)]
    output, seconds = _prepare(options.directory, texts, *common)
    print(f"| no filter | 0 | | | {seconds:.1f} |", flush=True)
    records = _encoded(output, mixed)
    before = _records(output)
    common += ["--language-id", str(path)]
    common += ["--source-language", languages[0], "--target-language", languages[1]]
    for threshold in _THRESHOLDS:
        words = [*common, "--language-threshold", str(threshold)]
        output, seconds = _prepare(options.directory, texts, *words)
        gone = before - _records(output)
        dropped = {index for index, record in enumerate(records) if record in gone}
        right = len(dropped & swapped)
        shares = (f"{100 * right / max(len(x), 1):.2f} %" for x in (dropped, swapped))
        cells = [f"{threshold}", f"{len(dropped):,}", *shares, f"{seconds:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def _prepare(
    directory: pathlib.Path, texts: list[pathlib.Path], *words: str
) -> tuple[pathlib.Path, float]:
    """Prepares a parallel corpus; returns the folder and the CPU time in seconds."""
    output = directory / f"prepared-{time.time_ns()}"
    command = [sys.executable, "-m", "tf_transformer", "prepare", "--output", str(output)]
    command += ["--source", str(texts[0]), "--target", str(texts[1]), "--processes", "1", *words]
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return output, end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def _records(output: pathlib.Path) -> set[bytes]:
    """Returns the pairs in a prepared folder."""
    found = set()
    for path in output.glob("shard-*.tfrecord"):
        with open(path, "rb") as file:
            found.update(read_records(file))
    return found


def _encoded(output: pathlib.Path, pairs: list[tuple[str, str]]) -> list[bytes]:
    """Returns pairs as they are in a prepared folder."""
    sides = []
    for model, texts in zip(read_models(output), zip(*pairs, strict=True), strict=True):
        sides.append([[*ids, END_ID] for ids in Vocabulary(model).encode(list(texts))])
    return [encode_pair(*pair) for pair in zip(*sides, strict=True)]


if __name__ == "__main__":
    main()
