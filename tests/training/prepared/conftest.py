"""Prepared folders that the tests of this package only read."""

import pathlib

import pytest

from tests.training.preparation.test_prepare import PAIRS, prepare, write_pairs

SETTINGS = ["--vocab-size", "400", "--set", "data.max_length=60"]


@pytest.fixture(scope="package")
def directory(tmp_path_factory) -> pathlib.Path:
    """Folders `first` and `second`, prepared from the halves of `PAIRS`; 5 and 4 shards."""
    directory = tmp_path_factory.mktemp("prepared")
    for name, pairs in (("first", PAIRS[:500]), ("second", PAIRS[500:])):
        files = [[path] for path in write_pairs(directory, pairs, name)]
        vocabulary = SETTINGS if name == "first" else [
            "--vocabulary", str(directory / "first"), *SETTINGS[2:],
        ]  # fmt: skip
        prepare(*files, directory / name, *vocabulary, "--shard-pairs", "100")
    return directory
