"""What TensorBoard's files of a run have for a report: sample translations and attention maps."""

import html
import pathlib
from typing import NamedTuple

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from tf_transformer.storage.regular_files import regular_size

# As the callback `Validation` writes them.
TRANSLATIONS_TAG = "translations"
_ATTENTION_TAGS = "attention/"
_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_PICTURE_BYTES = 2**21


class Sample(NamedTuple):
    """A sentence that a run has translated again and again.

    Attributes:
        source: the source.
        reference: its reference.
        translations: the translations by step.
    """

    source: str
    reference: str
    translations: dict[int, str]


class Picture(NamedTuple):
    """An attention map.

    Attributes:
        part: the attention, such as "cross".
        step: the step that it was drawn after.
        png: the picture.
    """

    part: str
    step: int
    png: bytes


def read_samples(directory: pathlib.Path) -> tuple[list[Sample], list[Picture]]:
    """Returns the sample translations, and the last attention map of each part.

    Args:
        directory: folder of a TensorBoard run; need not exist.

    Raises:
        InputError: one of TensorBoard's files is not a regular file.
    """
    if not directory.is_dir():
        return [], []
    for path in directory.glob("*tfevents*"):
        regular_size(path)
    accumulator = EventAccumulator(str(directory), size_guidance={"tensors": 0})
    accumulator.Reload()
    samples: list[Sample] = []
    pictures = []
    for tag in accumulator.Tags()["tensors"]:
        plugin = accumulator.SummaryMetadata(tag).plugin_data.plugin_name
        events = accumulator.Tensors(tag)
        if (tag, plugin) == (TRANSLATIONS_TAG, "text"):
            samples = _samples(events)
        elif tag.startswith(_ATTENTION_TAGS) and plugin == "images":
            pictures += _pictures(tag.removeprefix(_ATTENTION_TAGS), events[-1])
    return samples, pictures


def _samples(events):
    """Parses the tables of all steps; sentences are told apart by source and reference."""
    found: dict[tuple[str, str], Sample] = {}
    for event in events:
        for row in _table(make_ndarray(event.tensor_proto)):
            source, translation, reference = row
            sample = found.setdefault((source, reference), Sample(source, reference, {}))
            sample.translations[event.step] = translation
    return list(found.values())


def _table(values):
    """Yields the rows of a table that `TensorBoardLog.translations` has written."""
    for value in values.flat:
        for line in value.decode("utf-8", "replace").split("\n")[2:]:
            cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            if len(cells) == 3:
                yield [html.unescape("" if cell == "(nothing)" else cell) for cell in cells]


def _pictures(part, event):
    values = make_ndarray(event.tensor_proto).flat
    pngs = [bytes(value) for value in values if bytes(value).startswith(_PNG)]
    return [Picture(part, event.step, png) for png in pngs[:1] if len(png) <= _MAX_PICTURE_BYTES]
