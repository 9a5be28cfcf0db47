"""A progress bar over the signatures of an export."""

from collections.abc import Iterable, Iterator

import tqdm


def with_progress(names: Iterable[str], description: str) -> Iterator[str]:
    """Yields names while a bar on standard error, if that is a terminal, shows the current one.

    Args:
        names: names of signatures.
        description: label of the bar.
    """
    with tqdm.tqdm(
        names, description, unit=" signatures", leave=False, mininterval=0, disable=None
    ) as progress:
        for name in progress:
            progress.set_postfix_str(name)
            yield name
