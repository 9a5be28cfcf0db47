"""Text in known languages: a sample of each corpus, and the part of it that is held out."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import tqdm

from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile

# A text of one language has at least this many different lines.
_MIN_LINES = 20
_HELD_OUT_SHARE = 20
_MAX_HELD_OUT = 2000


class KnownTexts(NamedTuple):
    """Texts by their language.

    Attributes:
        training: the texts to train on.
        held_out: texts that are not among them.
    """

    training: dict[str, list[str]]
    held_out: dict[str, list[str]]


def read_known_texts(
    corpora: Mapping[str, Sequence[TextFile]], max_lines: int, seed: int
) -> KnownTexts:
    """Reads a sample of the different lines of each language.

    One of 20 lines is held out, but at most 2,000 of a language.

    Args:
        corpora: the files of each language.
        max_lines: number of lines to sample from a language that has more.
        seed: seed of the sample and of the lines that are held out.

    Raises:
        InputError: a file is not text in UTF-8, or a language has fewer than 20 different lines.
    """
    training, held_out = {}, {}
    for language, files in corpora.items():
        draw = random.Random(f"{seed} {language}")
        lines = (line for file in files for line in file.lines() if line.strip())
        with tqdm.tqdm(lines, f"reading {language}", leave=False, disable=None) as progress:
            sample = list(dict.fromkeys(sample_lines(progress, max_lines, draw)))
        if len(sample) < _MIN_LINES:
            raise InputError(
                f"{', '.join(map(str, files))}: expected at least {_MIN_LINES} different lines of "
                f"text for {language}, got {len(sample)}"
            )
        draw.shuffle(sample)
        count = min(len(sample) // _HELD_OUT_SHARE, _MAX_HELD_OUT)
        held_out[language], training[language] = sample[:count], sample[count:]
    return KnownTexts(training, held_out)


def sample_lines(lines: Iterable[str], size: int, draw: random.Random) -> list[str]:
    """Returns a sample in which every line is with equal probability.

    This is Vitter's algorithm R (1985, "Random Sampling with a Reservoir").

    Args:
        lines: the lines.
        size: number of lines to return, or all if there are fewer.
        draw: source of random numbers.
    """
    sample: list[str] = []
    for number, line in enumerate(lines):
        if number < size:
            sample.append(line)
        elif (place := draw.randrange(number + 1)) < size:
            sample[place] = line
    return sample


def random_part(text: str, draw: random.Random) -> str:
    """Returns one to five consecutive words of a text; of a text without spaces, characters."""
    words = text.split()
    separator = " "
    if len(words) == 1:
        words, separator = list(text), ""
    length = draw.randint(1, 5)
    begin = draw.randint(0, max(len(words) - length, 0))
    return separator.join(words[begin : begin + length])
