"""`make` finds a Python that fits, and all places that name versions agree with setup.py."""

import os
import pathlib
import runpy
import shutil
import subprocess
import tomllib

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = pathlib.Path(__file__).parents[1]
# Programs of the system that the script, `make` and the stand-ins below call.
PROGRAMS = ("sh", "make", "sed", "tr", "dirname", "mkdir", "cp", "rm", "touch", "chmod")

# A stand-in for Python: knows its version, and makes environments whose `pip` installs commands
# that say their names.
PYTHON = """#!/bin/sh
case "$*" in
    "-c import sys; "*) echo {version} ;;
    "-c import "*ensurepip) {imports_ensurepip} ;;
    "-c import pip") true ;;
    "-m venv --clear "*)
        rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; echo {version} > "$4/pyvenv.cfg" ;;
    "-m pip install "*)
        echo installing
        for name in tf-transformer ruff; do
            printf '#!/bin/sh\\necho %s "$@"\\n' $name > .venv/bin/$name
        done
        chmod +x .venv/bin/tf-transformer .venv/bin/ruff ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""
SHIM = "#!/bin/sh\necho 'python: command not found; it exists in 3.9' >&2\nexit 127\n"
FITS, NO_VENV = "true", "exit 1"


def write_program(path: pathlib.Path, text: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def write_python(path: pathlib.Path, version: str, imports_ensurepip: str = FITS) -> pathlib.Path:
    text = PYTHON.format(version=version, imports_ensurepip=imports_ensurepip)
    return write_program(path, text)


class Machine:
    """A checkout with what makes the environment, and a PATH that holds no real Python."""

    def __init__(self, directory: pathlib.Path):
        self.first, self.second = directory / "first bin", directory / "second"
        self.checkout, self._system = directory / "check out", directory / "system"
        for folder in (self.first, self.second, self.checkout, self._system):
            folder.mkdir()
        for name in ("make_venv.sh", "setup.py", "pyproject.toml", "Makefile"):
            shutil.copy(ROOT / name, self.checkout)
        for name in PROGRAMS:
            (self._system / name).symlink_to(shutil.which(name))

    @property
    def venv(self) -> pathlib.Path:
        return self.checkout / ".venv"

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess:
        path = f"{self.first}:{self.second}:{self._system}"
        return subprocess.run(
            [self._system / command[0], *command[1:]], cwd=self.checkout, capture_output=True,
            text=True, timeout=60, env={"PATH": path, "HOME": os.devnull, **variables},
        )  # fmt: skip

    def made_with(self, **variables: str) -> str:
        """Makes the environment, and returns the version of its Python."""
        process = self.run("sh", "make_venv.sh", ".venv", **variables)
        assert (process.returncode, process.stderr) == (0, "")
        return (self.venv / "pyvenv.cfg").read_text().strip()

    def refused(self, **variables: str) -> str:
        """Returns the one line of a call that makes no environment."""
        process = self.run("sh", "make_venv.sh", ".venv", **variables)
        assert process.returncode != 0 and process.stdout == ""
        assert process.stderr.count("\n") == 1
        assert not self.venv.exists()
        return process.stderr


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


# ---- The choice ----


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3.12": "3.12"}, "3.12"),
        ({"python3.13": "3.13"}, "3.13"),
        ({"python3": "3.12"}, "3.12"),
        ({"python3.10": "3.10", "python3.13": "3.13", "python3": "3.10"}, "3.13"),
        ({"python3.13": "3.13", "python3.12": "3.12", "python3.11": "3.11"}, "3.11"),
        ({"python3.11": "3.10", "python3.12": "3.12"}, "3.12"),  # not what it is called
    ],
)
def test_takes_one_that_fits(machine, pythons, chosen):
    for name, version in pythons.items():
        write_python(machine.first / name, version)
    assert machine.made_with() == chosen


@pytest.mark.slow
def test_one_that_does_not_answer_is_passed_over(machine):
    """`timeout` is given 30 seconds; here it takes one."""
    limit = f'#!/bin/sh\n[ "$1" = 30 ] || exit 1\nshift\nexec {shutil.which("timeout")} 1 "$@"\n'
    write_program(machine.first / "timeout", limit)
    write_program(machine.first / "python3.11", f"#!/bin/sh\nexec {shutil.which('sleep')} 600\n")
    write_python(machine.second / "python3.12", "3.12")
    assert machine.made_with() == "3.12"


def test_a_shim_that_fails_is_passed_over(machine):
    write_program(machine.first / "python3.11", SHIM)
    write_program(machine.first / "python3.12", SHIM)
    write_python(machine.second / "python3.12", "3.12")
    assert machine.made_with() == "3.12"


def test_one_without_ensurepip_is_passed_over(machine):
    write_python(machine.first / "python3.11", "3.11", NO_VENV)
    write_python(machine.first / "python3.13", "3.13")
    assert machine.made_with() == "3.13"


def test_what_to_do_where_none_fits(machine):
    expected = "make: no Python 3.11, 3.12 or 3.13 on PATH; install one or name it: "
    assert machine.refused() == f"{expected}make PYTHON=/path/to/python\n"
    write_program(machine.first / "python3.12", SHIM)
    write_python(machine.first / "python3.14", "3.14")
    write_python(machine.first / "python3", "3.10")
    assert machine.refused().startswith(expected)


def test_what_to_do_where_ensurepip_is_missing(machine):
    python = write_python(machine.first / "python3", "3.12", NO_VENV)
    line = machine.refused()
    assert f"make: {python} lacks the modules" in line and "apt install python3.12-venv" in line
    assert "apt install python3.12-venv" in machine.refused(PYTHON="python3")


def test_a_named_python_is_taken_before_those_on_path(machine, tmp_path):
    write_python(machine.first / "python3.11", "3.11")
    write_python(machine.first / "mine", "3.12")
    assert machine.made_with(PYTHON="mine") == "3.12"
    assert machine.made_with(PYTHON=str(write_python(tmp_path / "a b" / "py", "3.13"))) == "3.13"


def test_a_named_python_that_does_not_fit(machine):
    write_python(machine.first / "python3.11", "3.11")
    write_python(machine.first / "old", "3.10")
    write_program(machine.first / "shim", SHIM)
    wanted = "name a Python 3.11, 3.12 or 3.13: make PYTHON=/path/to/python\n"
    assert machine.refused(PYTHON="old") == f"make: PYTHON=old is Python 3.10; {wanted}"
    assert machine.refused(PYTHON="shim") == f"make: PYTHON=shim does not run; {wanted}"
    assert machine.refused(PYTHON="gone") == f"make: PYTHON=gone does not run; {wanted}"


# ---- An environment that is there ----


def test_an_environment_that_works_stays(machine):
    write_python(machine.first / "python3.12", "3.12")
    machine.made_with()
    write_python(machine.first / "python3.11", "3.11")
    kept = machine.venv / "kept"
    kept.touch()
    assert machine.made_with() == machine.made_with(PYTHON="python3.12") == "3.12"
    assert kept.exists()
    assert machine.made_with(PYTHON="python3.11") == "3.11"
    assert not kept.exists()


@pytest.mark.parametrize("fault", ["removed", "fails", "no pip", "old"])
def test_an_environment_that_does_not_work_is_made_again(machine, fault):
    python = machine.venv / "bin" / "python"
    write_python(machine.first / "python3.12", "3.12")
    machine.made_with()
    if fault == "removed":
        python.unlink()
        python.symlink_to(machine.first / "gone")
    elif fault == "fails":
        write_program(python, SHIM)
    elif fault == "no pip":
        write_program(python, python.read_text().replace('import pip") true', 'import pip") false'))
    else:
        write_python(python, "3.10")
    (machine.venv / "left over").touch()
    assert machine.made_with() == "3.12"
    assert not (machine.venv / "left over").exists()
    assert python.read_text() == (machine.first / "python3.12").read_text()


def test_make_installs_once_and_again_into_a_new_environment(machine):
    write_python(machine.first / "python3.13", "3.13")
    first, second = (machine.run("make", "demo") for _ in range(2))
    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (0, "")
    assert "python3.13 (Python 3.13)" in first.stdout and "installing" in first.stdout
    assert "--quiet" not in first.stdout  # pip shows its progress
    assert first.stdout.endswith("\ntf-transformer demo\n")
    assert second.stdout == ".venv/bin/tf-transformer demo\ntf-transformer demo\n"

    (machine.venv / "bin" / "python").unlink()
    third = machine.run("make", "demo")
    assert third.returncode == 0 and "installing" in third.stdout

    write_python(machine.first / "python3.12", "3.12")
    fourth = machine.run("make", "demo", "PYTHON=python3.12")
    assert fourth.returncode == 0 and "installing" in fourth.stdout
    assert (machine.venv / "pyvenv.cfg").read_text() == "3.12\n"


@pytest.mark.parametrize("target", ["demo", "test", "docs", "format"])
def test_make_ends_where_none_fits(machine, target):
    process = machine.run("make", target)
    assert process.returncode == 2 and process.stdout == ""
    said, of_make = process.stderr.splitlines()
    assert said.startswith("make: no Python 3.11, 3.12 or 3.13 on PATH; ")
    assert ".venv/pyvenv.cfg] Error 1" in of_make


# ---- The versions, declared once ----


@pytest.fixture
def declared(monkeypatch) -> dict[str, object]:
    """The names of setup.py, and what it hands to `setup`."""
    arguments = {}
    monkeypatch.setattr("setuptools.setup", lambda **given: arguments.update(given))
    return arguments | runpy.run_path(str(ROOT / "setup.py"))


def test_versions_agree(declared):
    versions = declared["PYTHON_VERSIONS"]
    required = SpecifierSet(declared["python_requires"])
    accepted = [f"3.{minor}" for minor in range(100) if f"3.{minor}.1" in required]
    assert accepted == list(versions)
    classifiers = [f"Programming Language :: Python :: {version}" for version in versions]
    assert set(classifiers) <= set(declared["classifiers"])

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    oldest = settings["tool"]["ruff"]["target-version"]
    assert oldest == f"py{versions[0].replace('.', '')}"

    *most, last = versions
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Python {', '.join(most)} or {last}" in readme
    kubernetes = (ROOT / "examples" / "multi_worker" / "kubernetes.yaml").read_text()
    assert f"(Python {versions[0]} to {last}," in kubernetes


def test_the_workflow_tests_the_oldest_and_the_newest_version(declared):
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    (job,) = workflow["jobs"].values()
    versions = declared["PYTHON_VERSIONS"]
    assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    assert job["timeout-minutes"] > 0
    setup = next(s for s in job["steps"] if s.get("uses", "").startswith("actions/setup-python@"))
    assert setup["with"] == {
        "python-version": "${{ matrix.python }}",
        "cache": "pip",
        "cache-dependency-path": "setup.py",
    }
    target = "${{ github.event_name == 'schedule' && 'test-all' || 'test' }}"
    command = f"make {target} EXTRAS=dev,docs PYTHON=python"
    assert [step["run"] for step in job["steps"] if "run" in step] == [command]
