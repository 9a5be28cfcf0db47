"""A progress bar over the signatures of an export."""

from collections.abc import Iterable, Iterator

import tqdm


def counted(names: Iterable[str], doing: str) -> Iterator[str]:
    """Yields names, and shows on standard error, where that is a terminal, which one it is at.

    Args:
        names: of signatures.
        doing: what is done with each.
    """
    with tqdm.tqdm(
        names, doing, unit=" signatures", leave=False, mininterval=0, disable=None
    ) as progress:
        for name in progress:
            progress.set_postfix_str(name)
            yield name
