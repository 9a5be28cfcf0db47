"""What elements mean for translation.

The lists of HTML follow the standard's categories and its style sheet for rendering; those of XML
have names of DocBook, DITA and TEI.
"""

from collections.abc import Mapping

# They separate sentences: those that the standard's style sheet does not display inline, what is in
# the head, and the buttons, labels and choices of forms.
BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "base",
        "blockquote",
        "body",
        "button",
        "caption",
        "center",
        "col",
        "colgroup",
        "datalist",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "frame",
        "frameset",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "head",
        "header",
        "hgroup",
        "hr",
        "html",
        "label",
        "legend",
        "li",
        "link",
        "listing",
        "main",
        "menu",
        "meta",
        "nav",
        "noframes",
        "noscript",
        "ol",
        "optgroup",
        "option",
        "p",
        "plaintext",
        "pre",
        "search",
        "section",
        "select",
        "slot",
        "summary",
        "table",
        "tbody",
        "td",
        "template",
        "tfoot",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
        "xmp",
    ]
)
# They have no end tag.
VOIDS = frozenset(
    [
        "area",
        "base",
        "basefont",
        "bgsound",
        "br",
        "col",
        "embed",
        "frame",
        "hr",
        "img",
        "input",
        "keygen",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
# They show something, such as a picture, where they stand, and so end the word before them.
SHOWN = frozenset(["embed", "img", "input", "keygen"])
# Deleted text, which a following <ins> replaces.
STRUCK = frozenset(["del", "s", "strike"])
# Readings of Chinese characters.
READINGS = frozenset(["rp", "rt", "rtc"])
# Their content is no prose; it is copied unchanged and kept from the translator.
OPAQUE = READINGS | frozenset(
    [
        "applet",
        "audio",
        "canvas",
        "iframe",
        "math",
        "noembed",
        "noframes",
        "noscript",
        "object",
        "plaintext",
        "script",
        "style",
        "svg",
        "textarea",
        "video",
        "xmp",
    ]
)
# Their text is copied unchanged, but the translator reads it as a part of the sentence.
CODE = frozenset(["code", "kbd", "samp", "var"])
# Of XML: blocks, also in an element with text of its own; what is copied; and what is copied if it
# is within a text.
XML_BLOCKS = frozenset(
    [
        "blockquote",
        "dd",
        "div",
        "dl",
        "dt",
        "entry",
        "fn",
        "footnote",
        "informaltable",
        "itemizedlist",
        "li",
        "listitem",
        "literallayout",
        "lq",
        "note",
        "ol",
        "orderedlist",
        "p",
        "para",
        "row",
        "section",
        "simpara",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
        "variablelist",
    ]
)
XML_OPAQUE = frozenset(["codeblock", "math", "programlisting", "screen", "script", "style"])
XML_INLINE_CODE = frozenset(
    [
        "apiname",
        "classname",
        "cmdname",
        "codeph",
        "command",
        "computeroutput",
        "envar",
        "filename",
        "filepath",
        "keycombo",
        "methodname",
        "parmname",
        "systemoutput",
        "uri",
        "userinput",
        "varname",
    ]
)
# Attributes of links: of HTML, XLink, DocBook, JATS and TEI.
LINK_TARGETS = ("href", "xlink:href", "linkend", "rid", "target", "url")
# White space is significant.
PREFORMATTED = frozenset(["listing", "literallayout", "pre"])
# The parser of HTML takes their content as characters without references. It does so with
# <noscript> where scripts run, as in a browser.
RAW_TEXT = frozenset(
    ["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "xmp"]
)


def may_translate(name: str, attributes: Mapping[str, str | None], inherited: bool) -> bool:
    """Returns whether the text of an element is to be translated.

    Args:
        name: the element's name.
        attributes: its attributes; `translate`, Android's `translatable` and the class
            `notranslate` count.
        inherited: whether that of its parent is.
    """
    if name in CODE or "notranslate" in (attributes.get("class") or "").split():
        return False
    names = ("translate", "its:translate", "translatable")
    value = next((attributes[name] for name in names if name in attributes), "inherit")
    return {"no": False, "false": False, "yes": True, "": True}.get(
        (value or "").strip().lower(), inherited
    )


def is_link_or_target(attributes: Mapping[str, str | None]) -> bool:
    """Returns whether an element with these attributes is a link, or links can point to it."""
    return any(attributes.get(name) for name in (*LINK_TARGETS, "id", "name", "xml:id"))


def is_preformatted(name: str, attributes: Mapping[str, str | None], inherited: bool) -> bool:
    """Returns whether white space is significant in an element.

    Args:
        name: the element's name.
        attributes: its attributes; `xml:space` counts.
        inherited: whether it is in its parent.
    """
    value = attributes.get("xml:space")
    return name in PREFORMATTED or {"preserve": True, "default": False}.get(value or "", inherited)
