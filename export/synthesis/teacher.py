"""The model that writes a synthetic side: a model directory, a SavedModel or a server."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tf_transformer.predictors.predictor import Predictor
from tf_transformer.text.text_file import TextFile


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A model that translates one side of a corpus.

    Args:
        load: loads it.
        model: what identifies the model, as JSON values.
        prepare: adds language tags to a line, or checks them, with its place for error messages.
        tags: the tags that it adds, "" for none.
        options: search options of each row; none if the model is loaded for the search.
        is_reverse: whether it translates the target into the source.
    """

    load: Callable[[], Predictor]
    model: Mapping[str, Any]
    prepare: Callable[[bytes, str], bytes] = lambda line, where: line
    tags: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_reverse: bool = False

    def facts(self) -> dict[str, Any]:
        """Returns what the translations depend on, as JSON values."""
        facts = {**self.model, "reverse": self.is_reverse}
        return facts | ({"tags": self.tags} if self.tags else {})

    def sources(self, lines: list[str], numbers: list[int], text: TextFile) -> list[bytes]:
        """Returns lines as the model reads them.

        Args:
            lines: lines that are not blank.
            numbers: their numbers in the text.
            text: the text.

        Raises:
            InputError: a line has a tag already, or lacks one that the model needs.
        """
        pairs = zip(lines, numbers, strict=True)
        return [self.prepare(line.encode(), f"{text}:{number}") for line, number in pairs]
