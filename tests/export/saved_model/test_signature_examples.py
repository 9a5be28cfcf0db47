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
        ("markup", "--markup"),
        ("document", "--split-sentences"),
        ("document_options", "--split-sentences"),
        ("document_terms", "--split-sentences"),
        ("terms", "--terms"),
    ],
)
def test_commands(tmp_path, signature, option):
    guide = guide_of(tmp_path, ["serving_default", signature])
    (command,) = [x for x in commands_of(guide) if option in x]
    assert callable(make_parser().parse_args(shlex.split(command)[1:]).run)
    assert not any(option in x for x in commands_of(guide_of(tmp_path, ["serving_default"])))


def commands_of(guide):
    return [line for line in guide.splitlines() if line.startswith("    tf-transformer ")]


def test_the_guide_of_an_ordinary_export_has_none_of_the_others(tmp_path):
    guide = guide_of(tmp_path, SIGNATURES)
    assert not any(re.search("--split-sentences|--terms|--markup", x) for x in commands_of(guide))
    assert not re.search("signature_name|\n\n\n", guide)


@pytest.mark.parametrize(
    ("signatures", "advice"),
    [
        (
            ["serving_default"],
            "export with `--signatures all document` and use `--split-sentences`.",
        ),
        (["nbest"], "export with `--signatures all document` and use `--split-sentences`."),
        (["serving_default", "document"], "such texts use `--split-sentences` or `document`."),
        (["nbest", "document", "document_terms"], "or `document` or `document_terms`."),
        (["tokens", "tokens_options"], None),
    ],
)
def test_what_to_do_with_several_sentences(tmp_path, signatures, advice):
    guide = guide_of(tmp_path, signatures)
    assert ("Of a text of several, the end may be" in guide) == (advice is not None)
    assert advice is None or advice in guide.replace("\n", " ")
