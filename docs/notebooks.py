"""Writes the notebooks of docs/tutorials from their sources, `NAME.py`, see `make notebooks`.

A source is a program in the percent format of jupytext: people edit and review it. The notebook,
`NAME.ipynb`, is generated; it is in the repository because Colab opens nothing else.

The address of the repository is `repo_url` of mkdocs.yml. With it, a notebook installs the package
from there where it is missing, and if the address is on GitHub, it begins with a link to Colab.

A translation, such as `NAME.zh.py`, has the code of its original: it is not run, and has the
outputs of the original.

    python docs/notebooks.py [NAME ...]             runs notebooks, and stores their outputs
    python docs/notebooks.py --keep-outputs         only updates the text and the code
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
from typing import Any

import jupytext
import nbformat
import yaml
from jupytext.combine import combine_inputs_with_outputs

ROOT = pathlib.Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
BRANCH = "main"
COLAB = "https://colab.research.google.com/github"


def sources() -> list[pathlib.Path]:
    """Returns the sources of all notebooks, translations after their originals."""
    return sorted(TUTORIALS.glob("*.py"), key=lambda path: path.stem)


def original(name: str) -> str:
    """Returns the name of the notebook that one is a translation of, or its own name."""
    return name.partition(".")[0]


def repository_url() -> str:
    """Returns the address of the repository, without a slash at its end, or ""."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return (settings.get("repo_url") or "").rstrip("/")


def colab_link(url: str, name: str) -> str:
    """Returns a link in Markdown that opens a notebook in Colab, or "" if it is not on GitHub."""
    repository = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?", url)
    if repository is None:
        return ""
    address = f"{COLAB}/{repository[1]}/blob/{BRANCH}/docs/tutorials/{name}.ipynb"
    return f"**[▶ Open in Colab]({address})**"


def read_source(source: pathlib.Path, url: str) -> Any:
    """Returns the notebook of a source, without outputs.

    Args:
        source: the source.
        url: address of the repository, or "".
    """
    notebook = jupytext.read(source)
    for cell in notebook.cells:
        cell.source = cell.source.replace('REPOSITORY_URL = ""', f'REPOSITORY_URL = "{url}"')
    if link := colab_link(url, source.stem):
        title, _, text = notebook.cells[0].source.partition("\n")
        notebook.cells[0].source = f"{title}\n\n{link}\n{text}"
    _number_cells(notebook)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def _number_cells(notebook: Any) -> None:
    """Gives each cell the id of its place: jupytext draws random ones, or takes stored ones."""
    for index, cell in enumerate(notebook.cells):
        cell.id = f"cell-{index}"


def execute(notebook: Any) -> None:
    """Runs all cells in a fresh kernel and an empty folder, with the packages of this repository.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    from nbclient import NotebookClient

    packages = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as directory:
        client = NotebookClient(
            notebook,
            timeout=None,  # how long a cell takes depends on what else the machine does
            startup_timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": directory}},
            record_timing=False,
            coalesce_streams=True,  # how output arrives would differ from run to run
        )
        client.execute(env=os.environ | {"PYTHONPATH": packages})
    # Without its process, a widget is nothing but a message that it cannot be shown.
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_widget(output)]


def _is_widget(output: Any) -> bool:
    return any("widget" in kind for kind in output.get("data", ()))


def with_outputs(notebook: Any, name: str) -> Any:
    """Returns a notebook with the outputs that a stored one has for cells of the same code."""
    path = TUTORIALS / f"{name}.ipynb"
    if not path.exists():
        return notebook
    stored = nbformat.read(path, as_version=4)
    combined = combine_inputs_with_outputs(notebook, stored)
    known = {cell.source for cell in stored.cells}
    for cell in combined.cells:  # jupytext also takes those of code that is only similar
        if cell.cell_type == "code" and cell.source not in known:
            cell.outputs, cell.execution_count = [], None
    _number_cells(combined)
    return combined


def write(notebook: Any, path: pathlib.Path) -> None:
    """Writes a notebook as a whole: an interrupted program leaves the former one."""
    unfinished = path.with_suffix(".unfinished")
    nbformat.write(notebook, unfinished)
    unfinished.replace(path)


def main(arguments: list[str] | None = None) -> None:
    """Writes the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description="Writes the notebooks of docs/tutorials.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="without names: all")
    parser.add_argument(
        "--keep-outputs",
        action="store_true",
        help="run nothing; cells whose code has not changed keep their outputs",
    )
    options = parser.parse_args(arguments)
    found = {source.stem: source for source in sources()}
    for name in options.names:
        if name not in found:
            parser.error(f"no tutorial is named {name!r}; there are {', '.join(found)}")
    url = repository_url()
    for name in options.names or found:
        notebook = read_source(found[name], url)
        print(f"{name}.ipynb", file=sys.stderr, flush=True)
        if options.keep_outputs:
            notebook = with_outputs(notebook, name)
        elif original(name) != name:
            notebook = with_outputs(notebook, original(name))
        else:
            execute(notebook)
        write(notebook, TUTORIALS / f"{name}.ipynb")


if __name__ == "__main__":
    main()
