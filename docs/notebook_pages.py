"""Notebooks as pages of the web site, see site_pages.py.

A page of the site asks no other server, and its formulas need no script. The usual plug-ins show a
notebook in a page of its own style that loads MathJax.
"""

import base64
import json
import pathlib
from typing import Any, NamedTuple

import formulas

_PICTURE = "image/png"


class NotebookPage(NamedTuple):
    """A notebook as a page.

    Attributes:
        markdown: the text.
        pictures: the pictures that it shows, by their file names.
    """

    markdown: str
    pictures: dict[str, bytes]


def convert_notebook(path: pathlib.Path) -> NotebookPage:
    """Returns the page of a notebook, with its outputs.

    Args:
        path: the notebook. Its pictures are expected in the folder of the page.
    """
    parts = [f'<a href="{path.name}" download>{path.name}</a>']
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(formulas.convert_all(source))
            continue
        parts.append(_fenced(source, "python"))
        for output in cell["outputs"]:
            parts.append(_convert_output(output, f"{path.stem}-{len(pictures) + 1}.png", pictures))
    parts[:2] = reversed(parts[:2])  # the title comes first
    return NotebookPage("\n\n".join(filter(None, parts)) + "\n", pictures)


def _convert_output(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    """Returns the Markdown of an output, and adds its picture to `pictures` under a name."""
    data = output.get("data", {})
    if _PICTURE in data:
        pictures[name] = base64.b64decode(_joined(data[_PICTURE]))
        return f"![Output of the code above]({name})"
    text = _joined(output.get("text", data.get("text/plain", "")))
    return _fenced(text.rstrip(), "text") if text.strip() else ""


def _joined(text: str | list[str]) -> str:
    """Returns text that a notebook may store as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text}\n````"
