"""The command `train-language-id`."""

import argparse
import time

from tf_transformer.command_line.command_options import file_path
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.files import check_writable
from tf_transformer.storage.output_files import check_output_file

# More of either is a mistake: accuracy no longer changes, the time grows.
_MAX_EPOCHS = 1000
_MAX_LINES = 2**31


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `train-language-id`."""
    parser = commands.add_parser(
        "train-language-id",
        help="train a classifier of languages on text in known languages",
        description="Trains a classifier over the n-grams of bytes, and prints how often it is "
        "right on lines that are held out. `identify` and `export --language-id` use it, and "
        "`prepare --language-id` drops pairs in other languages. Give text of each language that "
        "may occur: another one in the same script is often taken for one of these.",
    )
    parser.add_argument(
        "--corpus", type=_named_text, action="append", required=True, metavar="L=F",
        help="a language and text in it, such as en=news.en; plain, .gz or .zst, F.tsv:2 is column "
        "2 of a TSV file. Give one for each language at least, or several of one",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=file_path, required=True, metavar="F", help="the classifier to write"
    )
    parser.add_argument(
        "--threshold", type=float, default=0.7, metavar="P",
        help="a text is undetermined if its most probable language is less probable (default: "
        "%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--max-lines", type=int, default=100_000, metavar="N",
        help="number of lines to sample from a language that has more (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", type=int, default=10, metavar="N",
        help="how often each line is seen (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--buckets", type=int, default=2**16, metavar="N",
        help="number of rows of weights, a power of two; n-grams share them (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    parser.set_defaults(run=_run)


def _run(options):
    from tf_transformer.language_id.classifier import (
        UNDETERMINED,
        check_languages,
        check_num_buckets,
        check_threshold,
    )
    from tf_transformer.text.text_file import TextFile

    languages = tuple(dict.fromkeys(language for language, _ in options.corpus))
    check_languages((*languages, UNDETERMINED))
    check_num_buckets(options.buckets, len(languages) + 1)
    check_threshold(options.threshold)
    for name, most in (("epochs", _MAX_EPOCHS), ("max_lines", _MAX_LINES)):
        value = getattr(options, name)
        if not 1 <= value <= most:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected 1 to {most}")
    corpora: dict[str, list[TextFile]] = {language: [] for language in languages}
    for language, name in options.corpus:
        corpora[language].append(TextFile.parse(name, 1))
    check_writable(options.output)
    read = [file.path for files in corpora.values() for file in files]
    check_output_file("--output", options.output, inputs=read)
    from tf_transformer.language_id.classifier_file import read_classifier, write_classifier
    from training.language_id.accuracy import accuracy_table, confusion
    from training.language_id.fitting import fit_classifier
    from training.language_id.known_texts import read_known_texts

    begin = time.monotonic()
    texts = read_known_texts(corpora, options.max_lines, options.seed)
    classifier = fit_classifier(
        texts.training,
        num_buckets=options.buckets,
        epochs=options.epochs,
        threshold=options.threshold,
        seed=options.seed,
    )
    write_classifier(options.output, classifier)
    seconds = time.monotonic() - begin
    counts = confusion(read_classifier(options.output), texts.held_out)
    print(f"Lines that are held out:\n\n{accuracy_table(languages, counts)}\n")
    lines = sum(map(len, texts.training.values()))
    print(
        f"{options.output}: a classifier of {', '.join(languages)}, "
        f"{options.output.stat().st_size:,} bytes, trained on {lines:,} lines in {seconds:.1f} s"
    )


def _named_text(value):
    """Converts L=F."""
    language, separator, name = value.partition("=")
    if not separator or not language or not name:
        raise argparse.ArgumentTypeError(
            f"{shown(value)}: expected L=F, a language and a file of text in it"
        )
    return language, name
