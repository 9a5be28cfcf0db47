"""The texts of a report: source, references and the translations of each system."""

import dataclasses
from collections.abc import Mapping, Sequence

from tf_transformer.errors import InputError
from tf_transformer.printable import printable, shown
from tf_transformer.text.text_file import TextFile
from training.evaluation.significance import check_systems

# A page has all sentences, and a browser has to hold it.
MAX_CHARACTERS = 50_000_000
_MAX_NAME_LENGTH = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedTexts:
    """The sentences of a test set and their translations by one or more systems.

    Args:
        source: source sentences; None if they are not given.
        references: one or more reference translations of the text.
        systems: translations by the name of the system, in the order of the report.

    Raises:
        InputError: there is no sentence, the texts have different numbers of lines, or they are too
            long for a page.
    """

    source: Sequence[str] | None
    references: Sequence[Sequence[str]]
    systems: Mapping[str, Sequence[str]]

    def __post_init__(self):
        if not self.references[0]:
            raise InputError("the reference is empty; expected one sentence per line")
        others = {f"reference {n}": lines for n, lines in enumerate(self.references[1:], 2)}
        source = {} if self.source is None else {"the source": self.source}
        check_systems({**self.systems, **others, **source}, len(self.references[0]))
        texts = [*self.systems.values(), *self.references, self.source or ()]
        characters = sum(len(line) for text in texts for line in text)
        if characters > MAX_CHARACTERS:
            raise InputError(
                f"a report holds at most {MAX_CHARACTERS:,} characters, and these texts have "
                f"{characters:,}; give fewer sentences"
            )

    def __len__(self) -> int:
        return len(self.references[0])


def system_names(files: Sequence[TextFile], names: Sequence[str] | None = None) -> list[str]:
    """Returns the names of systems in a report: those given, or those of their files.

    Args:
        files: the translations of each system.
        names: names that the user gives; None takes those of the files, with their folders where
            two are equal.

    Raises:
        InputError: the names are not as many as the files, not different, or not printable.
    """
    if names is None:
        names = [file.path.name for file in files]
        if len(set(names)) < len(names):
            names = [str(file) for file in files]
        return different_names(names)
    if len(names) != len(files):
        raise InputError(
            f"expected a name for each of the {len(files)} systems. Received: {len(names)}"
        )
    for index, name in enumerate(names):
        if not name.strip() or not name.isprintable() or len(name) > _MAX_NAME_LENGTH:
            raise InputError(
                f"name of a system: expected 1 to {_MAX_NAME_LENGTH} printable characters, got "
                f"{shown(name)}"
            )
        if name in names[:index]:
            raise InputError(f"the name {shown(name)} is given to two systems; name each another")
    return list(names)


def different_names(names: Sequence[str]) -> list[str]:
    """Returns names as they can be shown, with a number where one occurs again."""
    found: list[str] = []
    for name in names:
        short = shown_name = printable(name, _MAX_NAME_LENGTH)
        number = 1
        while shown_name in found:
            number += 1
            shown_name = f"{short} ({number})"
        found.append(shown_name)
    return found
