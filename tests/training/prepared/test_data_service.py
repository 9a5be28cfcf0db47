"""Who can connect to a tf.data service, which executes the graphs of its clients."""

import pathlib
import re

import pytest

from tf_transformer.__main__ import main


def test_a_service_needs_a_network_that_is_trusted(capsys):
    assert main(["data-service", "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("tf-transformer: error: a tf.data service listens on every interface")
    assert "--trust-network" in error and error.count("\n") == 1


def test_help_and_docs_say_who_is_let_in(capsys):
    with pytest.raises(SystemExit):
        main(["data-service", "--help"])
    printed = " ".join(capsys.readouterr().out.replace("data-\n", "data-").split())
    assert "every client can read and write files, and so run code, as the user" in printed
    assert "in a network of trusted machines, and say so with --trust-network" in printed
    for page in ("SECURITY.md", "docs/corpora.md"):
        text = " ".join((pathlib.Path(__file__).parents[3] / page).read_text("utf-8").split())
        assert re.search("can connect( to a tf.data service)? can run code", text), page
