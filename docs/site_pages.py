"""Generates the pages of the web site that are not in docs/, see mkdocs.yml.

- README.md becomes the first page.
- Every file outside of docs/ that a page links to becomes a page in `repository/`.
- The API reference has a page for each package, with the public names in its `__init__.py` and the
  modules in `MODULES`. It is generated from the sources, without importing them.
- The options of each command are added to the page of commands.
- The notebooks of tutorials/ become pages, with the outputs that are stored in them.

Formulas become MathML, see formulas.py.
"""

import argparse
import ast
import json
import os
import pathlib
import posixpath
import re
from collections.abc import Iterator

import formulas
import notebook_pages
import pymdownx.slugs
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?://|#)([^)\s#]+)(#[^)\s]*)?\)")
# Modules that are documented completely, in addition to the public names of their package.
MODULES = {
    "tf_transformer": (
        "tf_transformer.formats.import_model",
        "tf_transformer.formats.import_cache",
        "tf_transformer.formats.convert_model",
        "tf_transformer.formats.naming",
        "tf_transformer.hub.seq_2_seq_lm",
        "tf_transformer.hub.backbone",
        "tf_transformer.hub.preprocessor",
        "tf_transformer.hub.tokenizer",
    )
}
PACKAGES = ("tf_transformer", "training", "export")
TEXTS = (".md", ".ipynb")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh"}

# The page of each path of the repository, and the reverse; both are filled by `on_files`.
_pages: dict[str, str] = {}
_paths: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> None:
    """Uses GitHub's anchors for headings, so that links to them work in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = pymdownx.slugs.slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    _pages.clear()
    _paths.clear()
    for file in files.documentation_pages():
        _add(f"docs/{file.src_uri}", file.src_uri)
    for notebook in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        _add_notebook(notebook, files, config)
    for package in PACKAGES:
        uri = f"reference/{package}.md"
        files.append(File.generated(config, uri, content=reference(package)))
    queue = [*_pages, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
    while queue:
        path = queue.pop()
        if path not in _pages:
            _add(path, "index.md" if path == "README.md" else page_name(path))
            files.append(File.generated(config, _pages[path], content=content(path)))
        if path.endswith(TEXTS):
            queue += [other for other in linked(path) if other not in _pages]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Converts links and formulas, and adds the options to the page of commands."""
    path = _paths.get(page.file.src_uri, "")
    if not path.endswith(TEXTS):
        return markdown
    if path == "docs/commands.md":
        markdown += options()
    markdown = formulas.convert_blocks(markdown)
    return LINK.sub(lambda link: f"]({_target(path, link[1])}{link[2] or ''})", markdown)


def _add(path: str, uri: str) -> None:
    _pages[path], _paths[uri] = uri, path


def _add_notebook(path: pathlib.Path, files: Files, config: MkDocsConfig) -> None:
    """Adds the page of a notebook, and its pictures."""
    page = notebook_pages.convert_notebook(path)
    uri = f"tutorials/{path.stem}.md"
    _add(f"docs/tutorials/{path.name}", uri)
    files.append(File.generated(config, uri, content=page.markdown))
    for name, picture in page.pictures.items():
        files.append(File.generated(config, f"tutorials/{name}", content=picture))


def _target(path: str, link: str) -> str:
    """Converts a link between two paths of the repository to one between their pages."""
    other = absolute(path, link)
    uri = _pages.get(other) or other.removeprefix("docs/")  # images keep their paths
    return posixpath.relpath(uri, posixpath.dirname(_pages[path]))


def absolute(path: str, link: str) -> str:
    """Returns the target of a link as a path from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def linked(path: str) -> Iterator[str]:
    """Yields existing paths outside of docs/ that a Markdown file or a notebook links to."""
    for link, _ in LINK.findall((ROOT / path).read_text(encoding="utf-8")):
        other = absolute(path, link)
        if not other.startswith("docs/") and (ROOT / other).exists():
            yield other


def page_name(path: str) -> str:
    """Returns the name of the page of a file or folder."""
    visible = re.sub(r"(^|/)\.", r"\1", path)  # MkDocs ignores names that begin with a dot
    if path.endswith(".md"):
        return f"repository/{visible}"
    return (
        f"repository/{visible}/index.md" if (ROOT / path).is_dir() else f"repository/{visible}.md"
    )


def content(path: str) -> str:
    """Returns Markdown files unchanged, other files as a code block, folders as a list."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(entry.name for entry in file.iterdir() if entry.name[0] not in "._")
        return "\n".join([f"# {path}/", "", *(f"- `{name}`" for name in names)])
    text = file.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text}````\n"


def reference(package: str) -> str:
    """Returns the reference page of a package for mkdocstrings, module by module."""
    lines = [f"# {package}", "", f"::: {package}", *_options(members=False)]
    for module, names in public_names(package).items():
        lines += ["", f"## {module}", "", f"::: {module}"]
        lines += _options(members=names)
    for module in MODULES.get(package, ()):
        lines += ["", f"## {module}", "", f"::: {module}", *_options()]
    return "\n".join(lines)


def _options(**values: object) -> list[str]:
    """Returns options of a `:::` directive in JSON, which is valid YAML."""
    return [f"    options: {json.dumps({'show_root_heading': False} | values)}"]


def public_names(package: str) -> dict[str, list[str]]:
    """Returns the names that a package imports for type checkers, by module."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {str(node.module): [alias.name for alias in node.names] for node in imports}


def options() -> str:
    """Returns the help texts of all commands."""
    from tf_transformer.__main__ import make_parser

    os.environ["COLUMNS"] = "100"  # argparse wraps at this width
    lines = ["", "## Options", ""]
    for parser in _commands(make_parser()):
        name = parser.prog.removeprefix("tf-transformer ")
        lines += [f"### {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields the parsers of all sub-commands, recursively."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from _commands(command)
