"""The Dockerfiles, read line by line: no daemon builds them here."""

import fnmatch
import pathlib
import re
import runpy

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "docker"
DOCKERFILES = sorted(FOLDER.glob("*.Dockerfile"))
DOCKERFILE = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)


def instructions(path):
    """The instructions of a Dockerfile and what follows each, with arguments replaced."""
    text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    found = [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]
    values = dict(rest.split("=") for word, rest in found if word == "ARG")
    for name, value in values.items():
        found = [(word, rest.replace(f"${{{name}}}", value)) for word, rest in found]
    return found


def test_both_are_here():
    assert [path.stem for path in DOCKERFILES] == ["serve", "train"]


@DOCKERFILE
def test_instructions_are_known(path):
    known = {"ARG", "COPY", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR"}
    words = [word for word, _ in instructions(path)]
    assert set(words) <= known
    assert words[:2] == ["ARG", "FROM"]


@DOCKERFILE
def test_images_have_fixed_tags(path):
    stages = []
    for word, rest in instructions(path):
        if word == "FROM":
            image, *name = rest.split(" AS ")
            assert image in stages or re.fullmatch(r"[\w/]+:\d+\.\d+\.\d+[\w.-]*", image), image
            stages += name


@DOCKERFILE
def test_no_image_runs_as_root(path):
    """Each stage that has an entry point, or is the last, has a user before it."""
    users, base = {}, None
    for word, rest in instructions(path):
        if word == "FROM":
            source, _, base = rest.partition(" AS ")
            users[base] = users.get(source)
        elif word == "USER":
            users[base] = rest
        elif word == "ENTRYPOINT":
            assert users[base] not in (None, "root", "0")
    assert users[base] not in (None, "root", "0")


def test_what_is_copied_for_training_exists():
    """And is not left out of the build's files."""
    ignored = (FOLDER / "train.Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    kept = [line[1:] for line in ignored if line.startswith("!")]
    copied = [
        name
        for word, rest in instructions(FOLDER / "train.Dockerfile")
        if word == "COPY"
        for name in rest.split()[:-1]
    ]
    assert len(copied) > 5
    for name in copied:
        assert (ROOT / name).exists()
        assert any(fnmatch.fnmatch(name, pattern) for pattern in kept), name
    assert set(kept) == set(copied)


def test_versions_agree():
    from unittest import mock

    with mock.patch("setuptools.setup") as setup:
        declared = runpy.run_path(str(ROOT / "setup.py"))
    arguments = setup.call_args.kwargs
    lines = dict.fromkeys(instructions(FOLDER / "train.Dockerfile"))
    (python,) = (rest.partition("=")[2] for word, rest in lines if word == "ARG")
    assert python.rpartition(".")[0] in declared["PYTHON_VERSIONS"]
    (cuda,) = arguments["extras_require"]["cuda"]
    assert any(f'"{cuda}"' in rest for word, rest in lines if word == "RUN")
    (plain,) = (name for name in arguments["install_requires"] if name.startswith("tensorflow>"))
    assert Requirement(cuda).specifier == Requirement(plain).specifier
    tags = [rest for word, rest in instructions(FOLDER / "serve.Dockerfile") if word == "ARG"]
    (serving,) = (tag.partition("=")[2] for tag in tags)
    assert serving in Requirement(plain).specifier


def test_the_server_reads_what_an_export_writes():
    from export.saved_model.deployment import MODEL_NAME, SESSION_NAME

    text = (FOLDER / "serve.Dockerfile").read_text(encoding="utf-8")
    assert f"COPY . /models/{MODEL_NAME}\n" in text
    named = re.findall(rf"=/models/{MODEL_NAME}/([\w.]+)", text)
    assert named == ["models.config", "batching_parameters.txt", SESSION_NAME]
