"""A report as one HTML file: style, script and data are in it, and nothing else is loaded.

Texts of systems and of other people are on the page in two ways only: as data in JSON, which the
script puts on the page as text, and in the template, which escapes all values. A content security
policy allows the page's own script and style, named by their hashes, and no connection.
"""

import base64
import functools
import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup, escape

import tf_transformer
from tf_transformer.storage.files import replacing
from training.report.hidden_characters import split_hidden

_FOLDER = pathlib.Path(__file__).parent / "page"
# What could end the element, begin a comment, or end a line in older scripts.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def render(
    template: str,
    scripts: Sequence[str],
    data: Any,
    styles: Sequence[str] = ("report.css",),
    **values: Any,
) -> str:
    """Returns a page.

    Args:
        template: name of the template in the folder `page`.
        scripts: names of the scripts there, which become one.
        data: what the script shows, as JSON values.
        styles: names of the style sheets there, which become one.
        **values: values of the template.
    """
    script = "\n".join(_read(name) for name in scripts)
    style = "\n".join(_read(name) for name in styles)
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            version=tf_transformer.__version__,
            policy=content_security_policy(script, style),
            # The hashes are of these very bytes, so nothing may be escaped.
            script=Markup(script),
            style=Markup(style),
            data=Markup(to_json(data)),
        )
    )


def content_security_policy(script: str, style: str) -> str:
    """Returns a policy that allows one script, one style and pictures in the page itself."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def to_json(data: Any) -> str:
    """Returns values as JSON that is safe in a script element of HTML, whatever the texts are.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPED)


def write_page(path: pathlib.Path, page: str) -> None:
    """Writes a page, replacing the file at once.

    Raises:
        OSError: the file cannot be written; an existing one is unchanged.
    """
    with replacing(path) as temporary:
        # Surrogates, which stand for bytes of file names, become escapes of JSON.
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace", newline="\n")


def show_hidden(text: str) -> Markup:
    """Returns text as HTML in which control characters are marks that can be seen."""
    parts = [
        Markup('<span class="hidden-character">{}</span>').format(part) if is_hidden else part
        for part, is_hidden in split_hidden(text)
    ]
    return Markup("").join(map(escape, parts))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show_hidden"] = show_hidden
    return environment


def _read(name):
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
