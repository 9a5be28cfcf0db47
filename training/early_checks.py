"""Checks of the `train` command that run before TensorFlow is imported or files are written."""

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.line_count import count_lines
from tf_transformer.text.parallel_text import check_parallel
from tf_transformer.text.text_file import TextFile
from tf_transformer.word_alignment.pharaoh import check_alignments
from training.config import TrainingConfig

# Training lines whose language tags and alignments are checked here; `train` checks all of them
# later.
_CHECKED_LINES = 10_000
# `count_lines` records the offset of every n-th line; this n records none but the first.
_NO_OFFSETS = 2**62


def check_sources(config: TrainingConfig, has_source: bool, has_validation_source: bool) -> None:
    """Checks that sources are given for a translation model, and none for a language model.

    Raises:
        InputError: a source is missing or superfluous; the message names its option.
    """
    for name, given in (("source", has_source), ("validation source", has_validation_source)):
        if given == config.is_language_model:
            option = f"--{name.replace(' ', '-')}"
            raise InputError(
                f"a language model (model.decoder_only) has no {name}; leave out {option}"
                if given
                else f"no {name} is given, which every model but a language model "
                f"(model.decoder_only) needs; give it as {option}"
            )


def with_alignment_head(
    config: TrainingConfig, *, has_alignments: bool, has_initial_model: bool
) -> TrainingConfig:
    """Returns the settings of a run with or without word alignments.

    With alignments, the head that learns them is the first one, unless the settings name another.

    Args:
        config: settings of the run.
        has_alignments: whether the run has word alignments.
        has_initial_model: whether it begins with the weights of another model, whose head may have
            learned alignments already.

    Raises:
        InputError: alignments of a language model, or a head that nothing would train.
    """
    head = config.model.get("alignment_head")
    if not has_alignments:
        if head is not None and not has_initial_model:
            raise InputError(
                f"'model.alignment_head: {head}' needs word alignments, which train this head; "
                "give them as --alignments, or leave it out"
            )
        return config
    if config.is_language_model:
        raise InputError("a language model has no source to align with; leave out --alignments")
    if head is not None:
        return config
    return dataclasses.replace(config, model=config.model | {"alignment_head": 0})


def check_some_alignments(
    alignments: TextFile | None, source: TextFile | None, target: TextFile
) -> None:
    """Checks the number of lines of the alignments, and the first lines, see `check_alignments`.

    Raises:
        InputError: as `check_alignments`.
    """
    if alignments is None or source is None:
        return
    paths = {file.path for file in (alignments, source, target)}
    is_whole = len({count_lines(path, _NO_OFFSETS).lines for path in paths}) > 1
    check_alignments(alignments, source, target, None if is_whole else _CHECKED_LINES)


def check_noise(config: TrainingConfig, is_prepared: bool, has_alignments: bool) -> None:
    """Checks that the text that noise changes is there, and that its words have no numbers.

    Raises:
        InputError: there is noise, and the corpus is prepared or has word alignments.
    """
    rates = {name: rate for name, rate in vars(config.data.noise).items() if rate}
    if is_prepared and rates:
        raise InputError(
            "'data.noise' changes text before it is tokenized, and a prepared folder holds token "
            "ids; train on text files, or add a prepared folder of noisy text with --prepared "
            f"DIR=WEIGHT. Received: {rates}"
        )
    if has_alignments and rates:
        raise InputError(
            "'data.noise' adds and removes words, of which --alignments have the numbers; leave "
            f"out one of them. Received: {rates}"
        )


def check_initial_model(
    model_dir: pathlib.Path, init_from: pathlib.Path | None, config: TrainingConfig
) -> None:
    """Checks that the model is not initialized from its own directory, and LoRA from a model.

    Raises:
        InputError: `init_from` is `model_dir`, or is None with LoRA.
    """
    if init_from is None and config.lora.rank is not None:
        raise InputError(
            "LoRA (--lora, lora.rank) adapts a trained model; give it as --init-from, or leave out "
            "--lora"
        )
    if init_from is not None and init_from.resolve() == model_dir.resolve():
        raise InputError(
            f"--init-from {init_from} is the --model-dir; give another --model-dir for the new "
            "model, or leave out --init-from to resume training this one"
        )


def check_draft_heads(
    config: TrainingConfig, *, has_initial_model: bool, is_guided: bool, adds_pieces: bool
) -> None:
    """Checks that draft heads are trained on a trained model, and nothing else is.

    Raises:
        InputError: there are draft heads, and no initial model, or something else to train.
    """
    number = config.model.get("draft_heads")
    if not number:
        return
    if not has_initial_model:
        raise InputError(
            f"'model.draft_heads: {number}': draft heads are trained on a trained model, which "
            "stays as it is; give it as --init-from"
        )
    others = {
        "--lora": config.lora.rank is not None,
        "--alignments": is_guided,
        "--add-pieces": adds_pieces,
        "optimization.frozen": config.optimization.frozen,
        "optimization.r_drop": config.optimization.r_drop,
    }
    for name, is_given in others.items():
        if is_given:
            raise InputError(
                f"'model.draft_heads: {number}': the heads alone are trained, the model stays as "
                f"it is; leave out {name}"
            )


def check_lengths(source: TextFile | None, target: TextFile) -> None:
    """Checks that both files have the same number of lines, at least one.

    This is a fast pass over the bytes.

    Raises:
        InputError: as `check_parallel`, or a compressed file is truncated.
    """
    files = {file.path: file for file in (source, target) if file}
    lines = {count_lines(path, _NO_OFFSETS).lines for path in files}
    if len(lines) > 1 or lines == {0}:
        check_parallel(source or target, target)


def check_language_tags(
    languages: Sequence[str],
    num_tags: int,
    source: TextFile | None,
    validation_source: TextFile | None,
) -> None:
    """Checks the language tags of the validation source and of the first training sources.

    Args:
        languages: the vocabulary's languages.
        num_tags: number of tags that a source must start with.
        source: the training source.
        validation_source: the validation source.

    Raises:
        InputError: a tag is missing or superfluous; the message names file and line.
    """
    if validation_source is not None:
        check_tags(validation_source.lines(), languages, str(validation_source), num_tags)
    if source is not None:
        lines = itertools.islice(source.lines(), _CHECKED_LINES)
        check_tags(lines, languages, str(source), num_tags)
