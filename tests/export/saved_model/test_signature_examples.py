"""Examples in the guide of an export: the commands parse, for the requests see `guide_request`."""

import re
import shlex

import pytest

from export.saved_model.deployment import write_deployment
from export.saved_model.signature_names import SIGNATURES
from tf_transformer.__main__ import make_parser


def guide_of(folder, signatures):
    write_deployment(folder, signatures)
    return (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("signature", "option"),
    [
        ("align", "--markup"),
        ("document", "--split-sentences"),
        ("document_options", "--split-sentences"),
        ("document_terms", "--split-sentences"),
        ("terms", "--terms"),
    ],
)
def test_commands(tmp_path, signature, option):
    guide = guide_of(tmp_path, ["serving_default", signature])
    (command,) = [x for x in guide.splitlines() if "tf-transformer" in x and option in x]
    assert callable(make_parser().parse_args(shlex.split(command)[1:]).run)
    assert option not in guide_of(tmp_path, ["serving_default"])


def test_the_guide_of_an_ordinary_export_has_none_of_the_others(tmp_path):
    guide = guide_of(tmp_path, SIGNATURES)
    assert "--markup" in guide
    assert not re.search("--split-sentences|--terms|signature_name|\n\n\n", guide)
