"""The tutorials of docs/tutorials: their notebooks are those of their sources, and run."""

import base64
import importlib.util
import json
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
SOURCES = sorted(TUTORIALS.glob("*.py"))
SOURCE = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
LARGEST_PICTURE = 300_000
CELL = re.compile(r"^# %%(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def notebooks():
    """The module docs/notebooks.py."""
    pytest.importorskip("jupytext")
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells_of(source: pathlib.Path) -> list[dict]:
    """The cells of the notebook of a source."""
    path = source.with_name(f"{source.stem}.ipynb")
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def outputs_of(source: pathlib.Path) -> list[dict]:
    return [output for cell in cells_of(source) for output in cell.get("outputs", [])]


def code_of(source: pathlib.Path) -> list[str]:
    """The code cells of a source."""
    kinds_and_cells = CELL.split(source.read_text(encoding="utf-8"))[1:]
    pairs = zip(kinds_and_cells[::2], kinds_and_cells[1::2], strict=True)
    return [cell.strip() for kind, cell in pairs if "[markdown]" not in kind]


def test_each_source_has_its_notebook():
    assert len(SOURCES) >= 6
    notebooks = {path.name.removesuffix(".ipynb") for path in TUTORIALS.glob("*.ipynb")}
    assert notebooks == {source.stem for source in SOURCES}


@SOURCE
def test_the_notebook_is_that_of_its_source(source, notebooks):
    """After a change: `make notebooks`, or for text alone `make notebook-texts`."""
    expected = notebooks.read_source(source, notebooks.repository_url())
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in cells_of(source)]
    assert found == [(cell.cell_type, cell.source) for cell in expected.cells]


@SOURCE
def test_outputs(source):
    """All cells were run, in order, and what they show is small and of no machine."""
    counts = [cell["execution_count"] for cell in cells_of(source) if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    outputs = outputs_of(source)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in str(output)]
    assert all(len(base64.b64decode(picture)) < LARGEST_PICTURE for picture in pictures)
    assert pictures or source.stem == "published-model-served" or "forty" in source.stem
    assert not re.search(r"(?<![\w.])/(tmp|home|root|work|Users)/", json.dumps(outputs))


@SOURCE
def test_links(source):
    text = "\n".join(
        "".join(cell["source"]) for cell in cells_of(source) if cell["cell_type"] == "markdown"
    )
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    assert links
    for link in links:
        assert (TUTORIALS / link).exists(), link


def test_both_languages_have_the_same_code():
    translated = [source for source in SOURCES if source.stem.endswith(".zh")]
    assert translated
    for chinese in translated:
        english = chinese.with_name(chinese.name.replace(".zh.py", ".py"))
        assert code_of(chinese) == code_of(english)
        formulas = [
            re.findall(r"\$\$(.+?)\$\$", source.read_text("utf-8").replace("\n#", ""), re.DOTALL)
            for source in (chinese, english)
        ]
        assert [re.sub(r"\s", "", x) for x in formulas[0]] == [
            re.sub(r"\s", "", x) for x in formulas[1]
        ]


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("", None),
        ("https://git.example.com/a/b", None),
        ("https://github.com/a/b", "https://colab.research.google.com/github/a/b/blob/main/"),
        ("https://github.com/a/b.git", "https://colab.research.google.com/github/a/b/blob/main/"),
    ],
)
def test_one_setting_names_the_repository(url, link, notebooks):
    source = SOURCES[0]
    notebook = notebooks.read_source(source, url)
    first, code = notebook.cells[0].source, notebook.cells[1].source
    assert first.startswith("# ")
    assert ("colab" in first) == (link is not None)
    assert link is None or f"]({link}docs/tutorials/{source.stem}.ipynb)" in first
    assert f'REPOSITORY_URL = "{url}"\n' in code


def test_a_translation_has_the_outputs_of_its_original():
    for chinese in (source for source in SOURCES if source.stem.endswith(".zh")):
        assert outputs_of(chinese) == outputs_of(chinese.with_suffix("").with_suffix(".py"))


def test_texts_change_without_a_run(notebooks, tmp_path, monkeypatch):
    """Cells whose code is the same keep their outputs; a changed one has none."""
    for path in (SOURCES[0], SOURCES[0].with_suffix(".ipynb")):
        shutil.copy(path, tmp_path)
    source = tmp_path / SOURCES[0].name
    monkeypatch.setattr(notebooks, "TUTORIALS", tmp_path)
    monkeypatch.setattr(notebooks, "repository_url", lambda: "")
    shown = [index for index, cell in enumerate(cells_of(source)) if cell.get("outputs")]
    changed = "".join(cells_of(source)[shown[0]]["source"])
    text = source.read_text(encoding="utf-8").replace(changed, f"{changed}\nnew = 1")
    source.write_text(text.replace("# %% [markdown]\n# ", "# %% [markdown]\n# New. ", 1), "utf-8")
    notebooks.main(["--keep-outputs"])
    cells = cells_of(source)
    assert "New. " in "".join(cells[0]["source"])
    assert [index for index, cell in enumerate(cells) if cell.get("outputs")] == shown[1:]


def test_a_new_cell_of_text_keeps_outputs_and_ids(notebooks, tmp_path, monkeypatch):
    """Ids are those of the cells' places: one that moved does not have the id of another."""
    for path in (SOURCES[0], SOURCES[0].with_suffix(".ipynb")):
        shutil.copy(path, tmp_path)
    source = tmp_path / SOURCES[0].name
    monkeypatch.setattr(notebooks, "TUTORIALS", tmp_path)
    monkeypatch.setattr(notebooks, "repository_url", lambda: "")
    outputs = outputs_of(source)
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("# %%\n", "# %% [markdown]\n# New.\n\n# %%\n", 1), "utf-8")
    notebooks.main(["--keep-outputs"])
    assert outputs_of(source) == outputs
    cells = cells_of(source)
    assert "New." in "".join(cells[1]["source"])
    assert [cell["id"] for cell in cells] == [f"cell-{index}" for index in range(len(cells))]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "source", [x for x in SOURCES if "." not in x.stem], ids=lambda source: source.stem
)
def test_it_runs(source, notebooks):
    """In a fresh kernel; the cells assert what the text says. Translations have the same cells."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = notebooks.read_source(source, "")
    notebooks.execute(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)
