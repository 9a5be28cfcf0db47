"""What `train` refuses before TensorFlow is imported or anything is written."""

import itertools
import pathlib
from collections.abc import Sequence

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.text_file import TextFile
from training.config import TrainingConfig
from training.data.corpus import check_parallel
from training.prepared.line_count import count_lines

# Lines of a training corpus that are looked at for their tags here; all are later.
_TAGGED_LINES = 10_000
# No place of a line is wanted.
_NEVER = 2**62


def check_sources(config: TrainingConfig, has_source: bool, has_validation_source: bool) -> None:
    """Refuses a source without a use for it, and a model without its source.

    Raises:
        ValueError: says which one.
    """
    for name, given in (("source", has_source), ("validation source", has_validation_source)):
        if given == config.is_language_model:
            option = f"--{name.replace(' ', '-')}"
            raise InputError(
                f"a language model (model.decoder_only) has no {name}; leave out {option}"
                if given
                else f"no {name} is given, which only a language model (model.decoder_only) lacks; "
                f"give it as {option}"
            )


def check_first_model(model_dir: pathlib.Path, init_from: pathlib.Path | None) -> None:
    """Refuses a model that would start from itself.

    Raises:
        ValueError: `init_from` is `model_dir`.
    """
    if init_from is not None and init_from.resolve() == model_dir.resolve():
        raise InputError(
            f"--init-from {init_from} is the --model-dir; give another --model-dir for the new "
            "model, or leave out --init-from to go on training this one"
        )


def check_lengths(source: TextFile | None, target: TextFile) -> None:
    """Refuses two files of different lengths or without lines, in a quick pass over their bytes.

    Raises:
        ValueError: as `check_parallel`, or a compressed file is not whole.
    """
    files = {file.path: file for file in (source, target) if file}
    lines = {count_lines(path, _NEVER).lines for path in files}
    if len(lines) > 1 or lines == {0}:
        check_parallel(source or target, target)


def check_language_tags(
    languages: Sequence[str], source: TextFile | None, validation_source: TextFile | None
) -> None:
    """Refuses sources without the tags that the vocabulary needs, of the corpus where it begins.

    Raises:
        ValueError: names file and line.
    """
    if validation_source is not None:
        check_tags(validation_source.lines(), languages, str(validation_source))
    if source is not None:
        lines = itertools.islice(source.lines(), _TAGGED_LINES)
        check_tags(lines, languages, str(source))
