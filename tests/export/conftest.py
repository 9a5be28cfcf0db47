"""Signatures run as on the server, whose settings switch TensorFlow's graph optimizer off."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def as_on_the_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Only where TensorFlow is imported anyway: building a graph is what takes the time."""
    if not {"exported", "loaded", "with_files", "talkative", "trained"} & {
        name for item in request.session.items for name in getattr(item, "fixturenames", ())
    }:
        yield
        return
    from export.saved_model.graph_options import without_graph_optimizer

    with without_graph_optimizer():
        yield
    if functions := sys.modules.get("tests.served_functions"):
        functions.load_signatures.cache_clear()  # gigabytes
