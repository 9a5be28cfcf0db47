"""The wheel has every module and works where there is nothing else of this project.

It is built from a copy of the checkout and installed into an environment of its own, which sees the
packages that this project depends on, and not the checkout.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

from tests.conftest import SMALL_SETTINGS, Corpus

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("tf_transformer", "training", "export")
# What the wheel is made of; generated folders such as build/ would bring files that are gone.
SOURCES = (*PACKAGES, "setup.py", "pyproject.toml", "README.md", "LICENSE")

# Of the packages that no command loads without the extra `beam`, modules may need it.
WITH_BEAM = ("export.bulk.", "training.preparation.", "tf_transformer.apache_beam.")

# Imports each module that is named on standard input, and prints the file that it came from.
IMPORT_ALL = f"""\
import importlib.util, sys
for name in sys.stdin.read().split():
    try:
        print(importlib.import_module(name).__file__)
    except ModuleNotFoundError as error:
        if error.name not in ("apache_beam", "pyarrow") or not name.startswith({WITH_BEAM}):
            raise
        print(importlib.util.find_spec(name).origin)
"""


def run(
    *words: object, directory: pathlib.Path, **options: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program outside of the checkout, with no hint of where it lies."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=directory,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy)
    run(
        *(sys.executable, "-m", "pip", "wheel", copy, "--wheel-dir", copy / "dist"),
        *("--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"),
        directory=copy,
    )
    (built,) = (copy / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> pathlib.Path:
    """An environment with the wheel and, behind it, what this process has installed.

    Of a folder that a .pth file names, no .pth files are read, so those of editable installations
    have no effect.
    """
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "dependencies.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    run(
        *(sys.executable, "-m", "pip", "--python", environment / "bin" / "python"),
        *("install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel),
        directory=environment,
    )
    return environment


def modules_of(files: list[str]) -> set[str]:
    return {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file in files
        if file.endswith(".py")
    }


def files_of_the_checkout() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".proto"
    ]


@pytest.mark.slow
def test_every_file_is_in_the_wheel_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(names) == sorted(files_of_the_checkout())
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert {"export/web/page/index.html", "export/web/page/page.js"} <= set(names)
    assert {"training/report/page/runs.html", "training/report/page/texts.js"} <= set(names)


@pytest.mark.slow
def test_every_module_is_imported_from_the_installed_wheel(installed, tmp_path):
    modules = sorted(modules_of(files_of_the_checkout()))
    done = run(
        *(installed / "bin" / "python", "-c", IMPORT_ALL),
        directory=tmp_path,
        input="\n".join(modules),
    )
    files = [pathlib.Path(line) for line in done.stdout.splitlines()]
    assert len(files) == len(modules) > 150
    assert [file for file in files if not file.is_relative_to(installed)] == []


def translate(command: pathlib.Path, model_dir: object, directory: pathlib.Path) -> None:
    sentences = "The museum opens at 3 a.m.\n\nJan paid $548 for the horse.\n"
    words = (command, "translate", "--model-dir", model_dir, "--beam-size", "2")
    translations = run(*words, directory=directory, input=sentences).stdout.split("\n")
    assert len(translations) == 4
    assert translations[0] and translations[1] == "" and translations[2]


@pytest.mark.slow
def test_the_installed_command_translates(
    installed: pathlib.Path, trained: pathlib.Path, tmp_path: pathlib.Path
):
    command = installed / "bin" / "tf-transformer"
    help_text = run(command, "--help", directory=tmp_path).stdout
    assert help_text.startswith("usage: tf-transformer ")
    translate(command, trained, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_installed_command_trains(
    installed: pathlib.Path, corpus: Corpus, tmp_path: pathlib.Path
):
    command = installed / "bin" / "tf-transformer"
    settings = [f"{name}={value}" for name, value in SMALL_SETTINGS.items()]
    run(
        *(command, "train", *corpus.options, "--model-dir", "model", "--steps", "2"),
        *("--set", *settings),
        directory=tmp_path,
    )
    translate(command, "model", tmp_path)
