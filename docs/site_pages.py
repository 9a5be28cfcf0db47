"""Pages of the web site that are not files of docs/, see mkdocs.yml.

- README.md is the site's first page.
- Every file outside of docs/ that a page links to is a page below `repository/`.
- The API reference has a page for each package, of the names in its `__all__` and `MODULES`. It is
  read from the sources; nothing is imported.
- The page of commands gets the options of each command.

Formulas between `$$` become MathML, which browsers draw without a script.
"""

import argparse
import ast
import json
import os
import pathlib
import posixpath
import re
from collections.abc import Iterator

import pymdownx.slugs
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?://|#)([^)\s#]+)(#[^)\s]*)?\)")
FORMULA = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
# Modules that are documented as a whole, beside the public names of their package.
MODULES = {"tf_transformer": ("tf_transformer.storage.weight_conversion",)}
PACKAGES = ("tf_transformer", "training", "export")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh"}

# The page of each path of the repository, and the reverse; both are filled by `on_files`.
_pages: dict[str, str] = {}
_paths: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> None:
    """Names the headings as GitHub does, so that links to them work in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = pymdownx.slugs.slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    _pages.clear()
    _paths.clear()
    for file in files.documentation_pages():
        _add(f"docs/{file.src_uri}", file.src_uri)
    for package in PACKAGES:
        uri = f"reference/{package}.md"
        files.append(File.generated(config, uri, content=reference(package)))
    waiting = [*_pages, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
    while waiting:
        path = waiting.pop()
        if path not in _pages:
            _add(path, "index.md" if path == "README.md" else page_name(path))
            files.append(File.generated(config, _pages[path], content=content(path)))
        if path.endswith(".md"):
            waiting += [other for other in linked(path) if other not in _pages]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    path = _paths.get(page.file.src_uri, "")
    if not path.endswith(".md"):
        return markdown
    if path == "docs/commands.md":
        markdown += options()
    markdown = FORMULA.sub(lambda formula: mathml(formula[1]), markdown)
    return LINK.sub(lambda link: f"]({_target(path, link[1])}{link[2] or ''})", markdown)


def _add(path: str, uri: str) -> None:
    _pages[path], _paths[uri] = uri, path


def _target(path: str, link: str) -> str:
    """A link from one path of the repository to another, as one between their pages."""
    other = absolute(path, link)
    uri = _pages.get(other) or other.removeprefix("docs/")  # pictures keep their places
    return posixpath.relpath(uri, posixpath.dirname(_pages[path]))


def absolute(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def linked(path: str) -> Iterator[str]:
    """Existing paths outside of docs/ that a Markdown file links to."""
    for link, _ in LINK.findall((ROOT / path).read_text(encoding="utf-8")):
        other = absolute(path, link)
        if not other.startswith("docs/") and (ROOT / other).exists():
            yield other


def page_name(path: str) -> str:
    visible = re.sub(r"(^|/)\.", r"\1", path)  # MkDocs leaves out names that begin with a dot
    if path.endswith(".md"):
        return f"repository/{visible}"
    return (
        f"repository/{visible}/index.md" if (ROOT / path).is_dir() else f"repository/{visible}.md"
    )


def content(path: str) -> str:
    """A Markdown file as it is, any other file as a block of code, a folder as a list."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(entry.name for entry in file.iterdir() if entry.name[0] not in "._")
        return "\n".join([f"# {path}/", "", *(f"- `{name}`" for name in names)])
    text = file.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text}````\n"


def reference(package: str) -> str:
    """The public names of a package, module by module, for mkdocstrings."""
    lines = [f"# {package}", "", f"::: {package}", *_options(members=False)]
    for module, names in public_names(package).items():
        lines += ["", f"## {module}", "", f"::: {module}"]
        lines += _options(members=names)
    for module in MODULES.get(package, ()):
        lines += ["", f"## {module}", "", f"::: {module}", *_options()]
    return "\n".join(lines)


def _options(**values: object) -> list[str]:
    """Options of a `:::` directive, in YAML, of which JSON is a part."""
    return [f"    options: {json.dumps({'show_root_heading': False} | values)}"]


def public_names(package: str) -> dict[str, list[str]]:
    """The names that a package imports for type checkers, by module."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {str(node.module): [alias.name for alias in node.names] for node in imports}


def options() -> str:
    """The help texts of all commands."""
    from tf_transformer.__main__ import make_parser

    os.environ["COLUMNS"] = "100"  # what argparse wraps at
    lines = ["", "## Options", ""]
    for parser in _commands(make_parser()):
        name = parser.prog.removeprefix("tf-transformer ")
        lines += [f"### {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all sub-commands, and of theirs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from _commands(command)


def mathml(formula: str) -> str:
    return f"<div>{convert(formula.strip(), display='block')}</div>"
