"""The command `prepare`."""

import argparse
import os

from tf_transformer.apache_beam.runner_options import (
    add_runner_options,
    check_runner,
    pipeline_options,
)
from tf_transformer.command_line.command_options import file_name, file_path, folder, text
from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.storage.files import check_folder

_LANGUAGE_THRESHOLD = 0.1


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `prepare`."""
    parser = commands.add_parser(
        "prepare",
        help="tokenize large corpora into files that training reads",
        description="Tokenizes text once, in parallel processes, into sharded TFRecords that "
        "`train --prepared` reads. Invalid lines, pairs that are too long and duplicates are "
        "dropped and reported. Files hold one sentence per line, plain, .gz or .zst; F.tsv:2 is "
        "column 2 of a TSV file. An interrupted command resumes when it is run again.",
    )
    parser.add_argument(
        "--source", nargs="+", type=file_name, metavar="F",
        help="files of source sentences; without them, the corpus is for a language model",
    )  # fmt: skip
    parser.add_argument(
        "--target", nargs="+", required=True, type=file_name, metavar="F",
        help="files of target sentences, in the order of the sources",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR", help="the folder to write"
    )
    parser.add_argument(
        "--vocabulary", type=file_path, metavar="PATH",
        help="use the vocabulary of a prepared folder or a model directory, or your own: a "
        "SentencePiece model, or a folder with source.spm and target.spm (default: train one)",
    )  # fmt: skip
    parser.add_argument("--vocab-size", type=int, metavar="N", help="size of the vocabulary")
    parser.add_argument("--config", type=file_path, metavar="F", help="YAML file of settings")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="single settings; only those of `vocabulary` and data.max_length are used here",
    )  # fmt: skip
    parser.add_argument(
        "--processes", type=int, metavar="N",
        help="number of parallel processes of this machine (default: all cores)",
    )  # fmt: skip
    parser.add_argument(
        "--shard-pairs", type=int, metavar="N",
        help="number of lines per shard (default: of about 32 shards, 100 to 50,000)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-duplicates", action="store_true", help="keep pairs that equal an earlier one"
    )
    parser.add_argument(
        "--shuffle", type=int, metavar="SEED",
        help="shuffle all pairs, over all shards; needs --runner (default: the order of the text)",
    )  # fmt: skip
    _add_language_filter(parser)
    add_runner_options(parser)
    parser.set_defaults(run=_run)


def _add_language_filter(parser):
    parser.add_argument(
        "--language-id", type=file_path, metavar="F",
        help="a classifier of `train-language-id`; drops pairs of which a side is in another "
        "language than --source-language or --target-language says",
    )  # fmt: skip
    parser.add_argument(
        "--source-language", type=text, metavar="L", help="with --language-id, that of the sources"
    )
    parser.add_argument(
        "--target-language", type=text, metavar="L", help="with --language-id, that of the targets"
    )
    parser.add_argument(
        "--language-threshold", type=float, metavar="P",
        help="with --language-id, drop a pair if the probability of a side's language is below "
        f"this (default: {_LANGUAGE_THRESHOLD})",
    )  # fmt: skip


def _run(options):
    from tf_transformer.text.text_file import TextFile
    from training.preparation.prepare import prepare
    from training.prepared.existing_vocabulary import check_vocabulary, vocabulary_for
    from training.settings import make_config, parse_setting, read_settings

    check_runner(options.runner, options.beam_options)
    for name in ("processes", "shard_pairs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected at least 1")
    if options.shuffle is not None and not options.runner:
        raise InputError("--shuffle needs --runner: processes alone cannot shuffle all pairs")
    if options.shuffle is not None and not 0 <= options.shuffle < 2**63:
        raise InputError(f"--shuffle {options.shuffle}: expected a seed of 0 to 2**63 - 1")
    size = {} if options.vocab_size is None else {"vocabulary.size": options.vocab_size}
    settings = read_settings(options.config, *map(parse_setting, options.set), size)
    if options.vocabulary:
        vocabulary, _ = vocabulary_for(options.vocabulary, has_source=options.source is not None)
        check_vocabulary(settings.get("vocabulary", {}), vocabulary, options.vocabulary)
    sources = options.source or [None] * len(options.target)
    if len(sources) != len(options.target):
        raise InputError(
            f"expected as many files for --source as for --target, got {len(sources)} and "
            f"{len(options.target)}"
        )
    files = [
        (source and TextFile.parse(source, 1), TextFile.parse(target, 2))
        for source, target in zip(sources, options.target, strict=True)
    ]
    language_filter = _language_filter(options)
    check_folder(options.output)
    description = prepare(
        make_config(settings),
        files=files,
        output=options.output,
        runner=_runner(options),
        vocabulary=options.vocabulary,
        shard_pairs=options.shard_pairs,
        keep_duplicates=options.keep_duplicates,
        language_filter=language_filter,
    )
    print(_report(description))
    print(f"Prepared: {options.output}")


def _language_filter(options):
    """Returns the filter that the options describe, or None."""
    languages = (options.source_language, options.target_language)
    if options.language_id is None:
        if languages != (None, None) or options.language_threshold is not None:
            raise InputError(
                "--source-language, --target-language and --language-threshold are valid only with "
                "--language-id"
            )
        return None
    if languages == (None, None):
        raise InputError("--language-id needs --source-language, --target-language, or both")
    if options.source_language is not None and options.source is None:
        raise InputError("--source-language: a corpus for a language model has no source")
    from tf_transformer.language_id.classifier_file import read_classifier
    from training.preparation.language_filter import LanguageFilter

    threshold = options.language_threshold
    if threshold is None:
        threshold = _LANGUAGE_THRESHOLD
    return LanguageFilter(read_classifier(options.language_id), languages, threshold)


def _runner(options):
    num_processes = options.processes or len(os.sched_getaffinity(0))
    if options.runner:
        from training.preparation.beam_runner import BeamRunner

        beam_options = pipeline_options(options.runner, options.beam_options, num_processes)
        return BeamRunner(beam_options, options.shuffle)
    from training.preparation.process_runner import ProcessRunner

    return ProcessRunner(num_processes)


def _report(description: dict) -> str:
    """Returns the statistics of `prepared.json` as text."""
    statistics = description["statistics"]
    lines = [f"{statistics['lines']:>15,} pairs of lines read"]
    for kind, count in statistics["faults"].items():
        if count:
            examples = statistics["examples"].get(kind, [])
            shown = printable(", ".join([*examples, *(["..."] if count > len(examples) else [])]))
            lines.append(f"{count:>15,} dropped as {printable(kind)} ({shown})")
    if statistics["duplicates"]:
        lines.append(f"{statistics['duplicates']:>15,} dropped as duplicates")
    lines.append(f"{statistics['kept']:>15,} kept, in {len(description['shards'])} shards")
    for side in ("source", "target"):
        if statistics[f"{side}_tokens"]:
            lines.append(f"{statistics[f'{side}_tokens']:>15,} {side} tokens")
    return "\n".join(lines)
