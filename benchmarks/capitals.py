"""What capitals cost: BLEU of a test set in sentence case, in capitals, and in title case.

    python -m benchmarks.capitals --model-dir DIR --source F --reference F [--beam-size 4]

Source and reference are written in capitals, or each of their words with one. The source is then
translated as it is, and by `DocumentTranslator`, which translates sentences in capitals in
sentence case. Prints sacreBLEU's BLEU, and seconds.
"""

import argparse
import time
from collections.abc import Callable

from sacrebleu.metrics import BLEU

from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.text.text_file import TextFile


def title_case(text: str) -> str:
    """Writes the first letter of every word as a capital."""
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", required=True, metavar="DIR")
    parser.add_argument("--source", required=True, metavar="F")
    parser.add_argument("--reference", required=True, metavar="F")
    parser.add_argument("--beam-size", type=int, default=4, metavar="N")
    options = parser.parse_args()
    translator = Translator.load(options.model_dir, beam_size=options.beam_size)
    documents = DocumentTranslator(translator)
    source = list(TextFile.parse(options.source).lines())
    reference = list(TextFile.parse(options.reference).lines())
    ways: dict[str, Callable[[list[str]], list[str]]] = {
        "as it is": translator,
        "in sentence case": documents,
    }
    print("| source and reference | translated | BLEU | seconds |\n|---|---|---|---|", flush=True)
    for case, change in (("as they are", str), ("capitals", str.upper), ("titles", title_case)):
        for way, translate in ways.items():
            lines, start = [*map(change, source)], time.perf_counter()
            found = [
                text
                for first in range(0, len(lines), 256)
                for text in translate(lines[first : first + 256])
            ]
            seconds = time.perf_counter() - start
            score = BLEU().corpus_score(found, [[*map(change, reference)]]).score
            print(f"| {case} | {way} | {score:.2f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
