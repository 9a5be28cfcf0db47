"""The documentation as a web site: complete, no broken links, readable without a network."""

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

import export
import tf_transformer
import training

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = (tf_transformer, training, export)

# Builds a site in a process that cannot import what the packages need to run.
BUILD = """\
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "tensorflow_text", "keras"):
            raise RuntimeError(f"{name} is imported")
sys.meta_path.insert(0, Refusing())
from mkdocs.__main__ import cli
cli()
"""


def build(sources: pathlib.Path, site: pathlib.Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("latex2mathml")
    return subprocess.run(
        [sys.executable, "-c", BUILD, "build", "--strict", "--site-dir", str(site)],
        cwd=sources,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("site")
    done = build(ROOT, directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def navigation(entry: object) -> Iterator[str]:
    """The pages that an entry of the navigation leads to."""
    if isinstance(entry, str):
        yield entry
        return
    for inner in entry.values() if isinstance(entry, dict) else entry:
        yield from navigation(inner)


def test_every_page_is_in_the_navigation():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = list(navigation(settings["nav"]))
    assert len(pages) == len(set(pages))
    written = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert written <= set(pages)
    assert {page for page in pages if "/" not in page} == written | {"index.md"}
    assert {f"reference/{package.__name__}.md" for package in PACKAGES} <= set(pages)
    others = {page.removeprefix("repository/") for page in pages if page.startswith("repository/")}
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} <= others
    assert all((ROOT / other).exists() for other in others)


@pytest.mark.slow
def test_the_reference_has_every_public_name(site):
    for package in PACKAGES:
        page = (site / "reference" / f"{package.__name__}.html").read_text(encoding="utf-8")
        for name in package.__all__:
            defined_in = getattr(package, name).__module__
            assert f'id="{defined_in}.{name}"' in page, name


@pytest.mark.slow
def test_commands_have_their_options(site):
    page = (site / "commands.html").read_text(encoding="utf-8")
    assert "--validation-source" in page and "--n-best" in page
    assert "usage: tf-transformer picture search" in page


@pytest.mark.slow
def test_formulas_are_drawn_by_the_browser(site):
    for name in ("guide", "guide.zh"):
        formulas = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").count("$$") // 2
        page = (site / f"{name}.html").read_text(encoding="utf-8")
        assert page.count("<math ") == formulas >= 5
        assert "$$" not in page


@pytest.mark.slow
def test_tutorials_are_pages_with_their_outputs(site):
    names = [path.stem for path in (ROOT / "docs" / "tutorials").glob("*.py")]
    assert len(names) >= 6
    for name in names:
        page = (site / "tutorials" / f"{name}.html").read_text(encoding="utf-8")
        pictures = re.findall(r'<img [^>]*src="([^"]+)"', page)
        assert all((site / "tutorials" / picture).is_file() for picture in pictures)
        assert f'href="{name}.ipynb"' in page and (site / "tutorials" / f"{name}.ipynb").exists()
    page = (site / "tutorials" / "transformer-equation-by-equation.html").read_text("utf-8")
    assert page.count("<math ") > 40 and page.count("<img ") > 8
    assert 'href="../repository/tf_transformer/layers/attention.py.html"' in page
    without_code = re.sub("<(pre|code).*?</\\1>", "", page, flags=re.DOTALL)
    assert "$" not in without_code


@pytest.mark.slow
def test_the_pages_ask_no_other_server(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        found = re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//', text)
        assert found == [], page


@pytest.mark.slow
def test_sources_that_pages_link_to_are_there(site):
    page = (site / "guide.html").read_text(encoding="utf-8")
    link = "repository/tf_transformer/layers/attention.py.html"
    assert f'href="{link}"' in page
    assert "scaled_dot_product_attention" in (site / link).read_text(encoding="utf-8")


@pytest.mark.exhaustive  # tests/test_docs.py finds broken links, too
@pytest.mark.slow
def test_broken_links_are_errors(tmp_path):
    copy = tmp_path / "copy"
    generated = shutil.ignore_patterns(".*", "__pycache__", "site", "demo-out", "build", "*.png")
    shutil.copytree(ROOT, copy, ignore=generated)
    with (copy / "docs" / "python.md").open("a", encoding="utf-8") as page:
        page.write("\n[1](nowhere.md) [2](guide.md#nowhere) [3](../training/nowhere.py)\n")
    (copy / "docs" / "forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    # Without the API reference, whose links are those of the sound site.
    settings = (copy / "mkdocs.yml").read_text(encoding="utf-8")
    (copy / "mkdocs.yml").write_text(settings.partition("  - mkdocstrings:")[0], encoding="utf-8")
    done = build(copy, tmp_path / "site")
    assert done.returncode == 1
    for fault in ("'nowhere.md'", "'guide.md#nowhere'", "nowhere.py'", "forgotten.md"):
        assert fault in done.stderr, done.stderr
