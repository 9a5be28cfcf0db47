"""Sentence boundaries in documents, found by the graph and by pysbd.

    pip install --target DIR pysbd
    python -m benchmarks.sentences en=val.en de=val.de zh=dev.tsv:2 --pysbd DIR [--documents 1000]

For each file, documents of 2 to 10 of its sentences in a random order are joined, by a space, or in
Chinese and Japanese by nothing. Only sentences that end with punctuation are taken; a document
whose sentences cannot be told apart, since one contains several, counts as a fault of both. Prints
precision, recall and F1 of the boundaries within documents, and characters per second. The graph
knows the abbreviations of the file's language, or those of all languages (`all`). pysbd has a
folder of its own because it installs a package that is named `benchmarks`, too.
"""

import argparse
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterable

import tensorflow as tf

from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.documents.sentence_boundaries import split_sentences
from tf_transformer.text.text_file import TextFile

_ENDS = tuple(".!?。！？\u2026\"'”」")
_UNSPACED = ("zh", "ja")
Splitter = Callable[[list[str]], list[list[str]]]


def make_documents(sentences: list[str], number: int, separator: str) -> list[list[str]]:
    """Returns documents, each the list of its sentences; a separator ends all but the last."""
    draw = random.Random(1)
    documents = []
    for _ in range(number):
        chosen = [draw.choice(sentences) for _ in range(draw.randint(2, 10))]
        documents.append([*(f"{sentence}{separator}" for sentence in chosen[:-1]), chosen[-1]])
    return documents


def boundaries(sentences: Iterable[str]) -> set[int]:
    """Returns after how many characters other than spaces each sentence but the last ends."""
    ends, position = set(), 0
    for sentence in sentences:
        position += len("".join(sentence.split()))
        ends.add(position)
    return ends - {position}


def by_graph(languages: Iterable[str]) -> Splitter:
    """Returns a splitter that calls `split_sentences`, with documents in batches of 100."""
    function = tf.function(
        lambda text: split_sentences(text, languages).text,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    function(tf.constant(["."]))

    def split(documents):
        batches = [documents[start : start + 100] for start in range(0, len(documents), 100)]
        found = [row for batch in batches for row in function(tf.constant(batch)).to_list()]
        return [[sentence.decode() for sentence in row] for row in found]

    return split


def by_pysbd(language: str) -> Splitter:
    """Returns a splitter that calls pysbd."""
    import pysbd

    segmenter = pysbd.Segmenter(language=language, clean=False)
    return lambda documents: [segmenter.segment(document) for document in documents]


def measure(split: Splitter, documents: list[list[str]]) -> list[str]:
    """Returns the cells of a row: precision, recall and F1 in percent, characters per second."""
    texts = ["".join(document) for document in documents]
    start = time.perf_counter()
    found = split(texts)
    seconds = time.perf_counter() - start
    correct = num_found = num_true = 0
    for truth, sentences in zip(documents, found, strict=True):
        expected, actual = boundaries(truth), boundaries(sentences)
        correct += len(expected & actual)
        num_found += len(actual)
        num_true += len(expected)
    precision, recall = correct / max(num_found, 1), correct / num_true
    f1 = 2 * correct / (num_found + num_true)
    speed = sum(map(len, texts)) / seconds
    return [*(f"{100 * value:.2f}" for value in (precision, recall, f1)), f"{speed:,.0f}"]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="LANGUAGE=F")
    parser.add_argument("--pysbd", required=True, metavar="DIR")
    parser.add_argument("--documents", type=int, default=1000, metavar="N")
    options = parser.parse_args()
    sys.path.append(options.pysbd)
    columns = ["file", "splitter", "precision", "recall", "F1", "characters/s"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    for argument in options.files:
        language, _, name = argument.partition("=")
        file = TextFile.parse(name)
        sentences = [line.strip() for line in file.lines()]
        sentences = [line for line in sentences if line.endswith(_ENDS)]
        separator = "" if language in _UNSPACED else " "
        documents = make_documents(sentences, options.documents, separator)
        splitters = {"graph": by_graph([language]), "graph, all": by_graph(LANGUAGES)}
        for splitter, split in (splitters | {"pysbd": by_pysbd(language)}).items():
            cells = [f"{language}, {pathlib.Path(name).name}", splitter, *measure(split, documents)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
