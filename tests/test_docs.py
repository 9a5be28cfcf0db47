"""What README, guide and tables name exists: files, tests, commands, settings."""

import argparse
import pathlib
import re
import runpy
import shlex
import unicodedata

import pytest
import yaml

from tf_transformer.__main__ import make_parser
from tf_transformer.tasks.table import TASK_OF

ROOT = pathlib.Path(__file__).parents[1]
NAMES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("examples/docker/README.md", "examples/multi_worker/README.md"),
    *("examples/service/README.md", "examples/tfx/README.md"),
    *("benchmarks/notebook/performance.md", "benchmarks/notebook/results.md"),
)
PAGES = [*(ROOT / name for name in NAMES), *sorted((ROOT / "docs").glob("*.md"))]
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def commands(text):
    """Every command that is written out, in a block or by itself in backticks."""
    text = text.replace("\\\n", " ")
    for match in re.finditer(r"^(?:`)?(tf-transformer (?!\.\.\.)[^`\n]+)`?", text, re.MULTILINE):
        yield match[1].partition("  #")[0].strip()


def anchors(page):
    """GitHub's names of the headings of a page."""
    headings = re.findall(r"^#+ (.+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings]


@PAGE
def test_links(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), target


@PAGE
def test_named_tests(page):
    for path, name in re.findall(
        r"(tests/[\w/]+\.py)(?:::(\w+))?", page.read_text(encoding="utf-8")
    ):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"def {name}\(", source), f"{path}::{name}"


@pytest.mark.slow
@PAGE
def test_commands_parse(page):
    for command in commands(page.read_text(encoding="utf-8")):
        words = shlex.split(command)[1:]
        if "..." in words:
            continue
        assert callable(make_parser().parse_args(words).run), command


def first_import(program, packages):
    """Where a program first imports one of these packages."""
    found = re.search(rf"^(?:import|from) (?:{packages})\b", program, re.MULTILINE)
    return found.start() if found else None


@PAGE
def test_programs_import_this_project_before_tensorflow(page):
    """It hides TensorFlow's messages."""
    programs = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    for program in [*programs, (ROOT / "examples" / "custom_fit.py").read_text(encoding="utf-8")]:
        own = first_import(program, "tf_transformer|training|export")
        tensorflow = first_import(program, "keras|keras_hub|tensorflow")
        assert own is None or tensorflow is None or own < tensorflow, program


def protocols(text):
    """The default port of a command's server, and the protocol that it speaks, where it has one."""
    for command in re.findall(r"(?:tf-transformer|python -m) [^`\n#]+", text.replace("\\\n", " ")):
        if port := re.search(r"--server \S+:(850[01])\b", command):
            protocol = re.search(r"--protocol (\w+)", command)
            yield port[1], protocol[1] if protocol else "rest"


@PAGE
def test_ports_are_those_of_the_protocol(page):
    """TF Serving speaks gRPC on port 8500, and REST on 8501."""
    found = set(protocols(page.read_text(encoding="utf-8")))
    assert found <= {("8500", "grpc"), ("8501", "rest")}


def test_there_are_ports_of_both_protocols():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert {found for text in texts for found in protocols(text)} == {
        ("8500", "grpc"),
        ("8501", "rest"),
    }
    wrong = "echo x | tf-transformer translate --server 127.0.0.1:8500\n"
    assert set(protocols(wrong)) == {("8500", "rest")}


@pytest.mark.parametrize("name", ["quick-start.md", "published-model-served.md"])
def test_servers_are_started_with_all_flags(name):
    """Those of an export's README, see `export/saved_model/deployment.py`."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    (command,) = re.findall(r"^docker run(?:.*\\\n)*.*", text, re.MULTILINE)
    flags = set(re.findall(r"--(\w+)", command)) - {"rm"}
    assert flags == {
        *("model_config_file", "enable_batching", "batching_parameters_file"),
        *("grpc_max_threads", "tensorflow_session_config_file"),
    }
    assert "--xla" not in text.replace("--xla_cpu_compilation_enabled=true", "") or (
        "--xla_cpu_compilation_enabled=true" in text
    )


def test_there_are_commands_to_parse():
    found = [command for page in PAGES for command in commands(page.read_text(encoding="utf-8"))]
    assert len(found) > 25
    assert any(command.startswith("tf-transformer picture search") for command in found)


def test_serving_says_what_is_trusted():
    assert "(../SECURITY.md)" in (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_both_guides_show_the_same():
    """Pictures, commands and files, in the same order; Chinese may add."""
    english, chinese = (
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("guide.md", "guide.zh.md")
    )
    for pattern in (r"images/[\w-]+\.png", r"\.\./[\w/]+\.py"):
        ours, theirs = (re.findall(pattern, text, re.MULTILINE) for text in (english, chinese))
        assert [name for name in theirs if name in ours] == ours
    ours, theirs = list(commands(english)), list(commands(chinese))
    assert len(ours) > 10
    assert [command for command in theirs if command in ours] == ours
    assert len(re.findall("^## ", english, re.M)) == len(re.findall("^## ", chinese, re.M))


def width(text):
    """The width in a fixed-width font, in which Chinese characters take two columns."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


@pytest.mark.parametrize("name", ["guide.md", "guide.zh.md"])
def test_teacher_forcing(name):
    """The labels are the target shifted by one, and each token stands in its column."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(source .*\ntarget .*\nlabels .*\n)```", text, re.MULTILINE)
    lines = block.splitlines()
    rows = [line.split() for line in lines]
    assert rows[1][1] == "<s>" and rows[0][-1] == rows[2][-1] == "</s>"
    assert rows[1][2:] == rows[2][1:-1]
    columns = [
        [width(line[: word.start()]) for word in re.finditer(r"\S+", line)] for line in lines
    ]
    assert columns[0] == columns[1] == columns[2]


def test_every_command_is_listed():
    """With the sub-commands of the command line itself, and links to what says more."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    (commands,) = (
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert re.findall(r"^\| `([\w-]+)` \|.*\]\(.*\) \|$", page, re.M) == list(commands.choices)


TEMPLATES = sorted((ROOT / ".github").glob("**/*.md"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_templates_fit_on_a_screen(template):
    text = template.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 24
    if template.parent.name == "ISSUE_TEMPLATE":
        _, front, body = text.split("---\n", 2)
        assert yaml.safe_load(front).keys() == {"name", "about"}
        assert body.strip()


def test_there_are_templates():
    assert {template.name for template in TEMPLATES} == {
        "bug_report.md",
        "feature_request.md",
        "pull_request_template.md",
    }


def test_what_runs_before_a_commit_is_what_make_runs():
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook["entry"].split()[:2] for repo in settings["repos"] for hook in repo["hooks"]]
    assert hooks == [[".venv/bin/ruff", "check"], [".venv/bin/ruff", "format"]]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "$(BIN)/ruff check ." in makefile and "$(BIN)/ruff format --check ." in makefile


def test_the_reference_is_current():
    """The pages of tasks and settings are those that `python docs/make_reference.py` writes."""
    written = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["pages"]()
    for name, text in written.items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert page == text, f"run python docs/make_reference.py, which writes {name}"
    for name in TASK_OF:
        assert f"- `{name}` takes " in written["tasks.md"]
    for name in ("`relative_positions`", "`r_drop`", "`best_by`", "`typos`", "`from_step`"):
        assert f"| {name} | " in written["settings.md"]
