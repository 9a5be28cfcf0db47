"""Symmetrization: one alignment from those of both directions (Koehn et al., 2003; Och and Ney)."""

from tf_transformer.errors import InputError
from tf_transformer.word_alignment.pharaoh import Links

SYMMETRIZATIONS = ("intersection", "union", "grow-diag", "grow-diag-final-and")

_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrize(forward: Links, reverse: Links, method: str) -> Links:
    """Combines the links of two directions, both written as (source, target).

    Args:
        forward: links by a model from the source to the target.
        reverse: links by a model from the target to the source.
        method: "intersection" and "union" are those of the sets. "grow-diag" begins with the
            intersection, and adds neighboring links of the union, diagonal ones too, while one of
            their words has none. "grow-diag-final-and" then adds the other links of each direction
            whose words both have none, the forward ones first.

    Raises:
        InputError: the method is unknown.
    """
    if method not in SYMMETRIZATIONS:
        raise InputError(f"`method` must be one of {SYMMETRIZATIONS}. Received: {method!r}")
    union = forward | reverse
    if method == "union":
        return union
    links = forward & reverse
    if method == "intersection":
        return links
    sources, targets = ({link[side] for link in links} for side in (0, 1))
    queue = sorted(links)
    for source, target in queue:  # grows while it is read: a link may have new neighbors
        for down, right in _NEIGHBORS:
            link = (source + down, target + right)
            is_new = link[0] not in sources or link[1] not in targets
            if link in union and link not in links and is_new:
                links.add(link)
                sources.add(link[0])
                targets.add(link[1])
                queue.append(link)
    if method == "grow-diag-final-and":
        for direction in (forward, reverse):
            for link in sorted(direction):
                if link[0] not in sources and link[1] not in targets:
                    links.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
    return links
