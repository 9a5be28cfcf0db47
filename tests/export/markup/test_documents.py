"""Properties of translated documents, with generated and with hostile ones."""

import random
import re
import sys
import xml.etree.ElementTree as ElementTree

import hypothesis
import pytest
from hypothesis import strategies

from benchmarks.markup import (
    fuzz,
    html_faults,
    random_document,
    reordering_translator,
    soup_faults,
    tags_inside_words,
    xml_faults,
)
from export.markup import AlignedTranslation, MarkupTranslator
from tests.export.markup.fake_translators import identity, upper
from tf_transformer.errors import InputError

PAGE = """\
<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN">
<!-- a comment -->
<html lang="en">
<head>
<meta charset="utf-8"><title>a &amp; b</title>
<style>p > b { color: red }</style>
<script>if (a < b && c > d) document.write("<p>x</p>");</script>
</head>
<BODY class=x>
<pre>
first line
  <b>second</b>\tline</pre>
<p id="1" title='x > "y"' hidden >one <B>two</B > &copy; 3 < 4 &nbsp;<br/>x<img src=x alt=""></p>
<textarea>
free</textarea><select><option selected>o<option>p</option></select>
<ul>
<li>l</li>
</ul>
<table><tr><td>d</td></tr></table>
<svg viewBox='0 0 1 1'><path d='x'/></svg>
<?php echo 1 ?></BODY>
</html>
"""


def translate(document, translate=upper, **options):
    return MarkupTranslator(translate, **options).translate(document)


def text_of(document):
    return " ".join("".join(ElementTree.fromstring(document).itertext()).split())


def test_what_is_not_translated_is_unchanged():
    """With one exception, the end tags that are missing."""
    page = PAGE.replace("<p id", "<p translate=no id")
    repaired = page.replace("<option>p", "</option><option>p")
    assert translate(page, identity) == repaired
    page = repaired
    assert translate(page.replace("\n", "\r\n"), identity) == page.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "content",
    [
        "<img height=1 src='pixel?a=1&b=2'/>",
        "<link rel=stylesheet href=x><style>p > b {}</style>",
        "<p>Turn scripts on &amp; <b>reload</p> <? x ?></a b=c><!x>",
        "<!-- <? x",
        "<plaintext>",
    ],
)
def test_noscript_is_unchanged(content):
    """It stays where it is, as in a browser that runs scripts."""
    noscript = f"<NOSCRIPT >{content}</NOSCRIPT >"
    for page in (
        "<head>{}<title>{}</title></head>",
        "<!DOCTYPE html><html><head>\n{}\n</head><body>{}<p>x</p></body></html>",
        "<body>\n{}<p>{}</p></body>",
        "<p>one</p>{}{}",
    ):
        found = translate(page.format(noscript, "two"))
        assert found == page.replace("one", "ONE").replace("x", "X").format(noscript, "TWO")


def test_a_page():
    found = translate(PAGE)
    assert "<title>A &amp; B</title>" in found
    assert "<pre>\nFIRST LINE\n  <b>SECOND</b> LINE</pre>" in found
    assert "<option selected>O</option><option>P</option>" in found
    assert "<textarea>\nfree</textarea>" in found
    assert """<p id="1" title='x > "y"' hidden >ONE <B>TWO</B > © 3 &lt; 4<br/>X<img""" in found
    kept = ("<!", "<style>", "<script>", "<svg", "<?php", "<BODY", "</", "<html", "<ul>")
    assert [x for x in found.splitlines() if x.startswith(kept)] == [
        x for x in PAGE.splitlines() if x.startswith(kept)
    ]


def test_xml():
    document = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE r SYSTEM "r.dtd" [<!ELEMENT r ANY>]>\n'
        "<r a='1'  b=\"2\"><t>some <b>bold</b> text<!-- c --></t>\n<n/><u> <v>more</v> </u>"
        "<w><![CDATA[x < y]]> z &#38; &lt;</w><q xml:space='preserve'>a  b</q><?pi x?></r>\n"
    )
    assert translate(document, identity, markup="xml") == document.replace("&#38;", "&amp;")
    found = translate(document, markup="xml")
    assert "<t>SOME <b>BOLD</b> TEXT<!-- c --></t>\n<n/><u> <v>MORE</v> </u>" in found
    assert "<w><![CDATA[x < y]]> Z &amp; &lt;</w>" in found


LINES = {
    "<p xml:space='preserve'>one <b>two\nthree</b> four</p>": "ONE <b>TWO\nTHREE</b> FOUR",
    "<p xml:space='preserve'>one <b>two\n</b> four</p>": "ONE <b>TWO\n</b> FOUR",
    "<p xml:space='preserve'>a <b>\nb <i>c\n</i></b><i>d</i></p>": (
        "A <b>\nB <i>C\n</i></b><i>D</i>"
    ),
    "<p xml:space='preserve'>a <b>b<i/>\n<!-- c -->c</b> d</p>": "A <b>B<i/>\n<!-- c -->C</b> D",
    "<r>see <i xml:space='preserve'>a\nb</i> c</r>": "SEE <i xml:space='preserve'>A\nB</i> C",
    "<p xml:space='preserve'>a\r\nb\r<b>c\r\n</b></p>": "A\r\nB\r<b>C\r\n</b>",
    # White space is not significant in one of them.
    "<p xml:space='preserve'>a\nb <i xml:space='default'>c\nd</i> e</p>": (
        "A\nB <i xml:space='default'>C D</i> E"
    ),
    "<pre>one <b>two\nthree</b> four</pre>": "ONE <b>TWO\nTHREE</b> FOUR",
    "<pre>a <b xml:space='default'>b\n<i>c</i></b>\nd</pre>": (
        "A <b xml:space='default'>B <i>C</i></b>\nD"
    ),
}


@pytest.mark.parametrize("document", LINES)
def test_significant_line_feeds_are_kept(document):
    """In inline elements, too."""
    start, _, rest = document.partition(">")
    end = rest[rest.rindex("</") :]
    found = translate(document, markup="html" if "<pre" in document else "xml")
    assert found == f"{start}>{LINES[document]}{end}"


def test_blocks_are_apart():
    seen = []

    def look(texts):
        seen.extend(texts)
        return upper(texts)

    translate("<div>one<p>two <b>b</b></p>three</div><a href=x><h2>four</h2> five</a> six", look)
    assert seen == ["one", "two b", "three", "four", "five", "six"]
    assert translate("<ul><li translate=no>a <p translate=yes>b</p></li></ul>") == (
        "<ul><li translate=no>a <p translate=yes>B</p></li></ul>"
    )
    seen.clear()
    found = translate("<p>same</p><p>same</p>", look)
    assert (found, seen) == ("<p>SAME</p><p>SAME</p>", ["same"])


NEIGHBOURS = {
    "<button>Save</button><button>Cancel</button>": ["Save", "Cancel"],
    "<label>Name</label><input><label>E-mail</label><input>": ["Name", "E-mail"],
    "<a href=a>Home</a><a href=b>About us</a><a href=c>Contact</a>": [
        *("Home", "About us", "Contact")
    ],
    "<nav>go <i><a>Home</a><!-- c --><a name=x></a><a><b>About</b> us</a></i></nav>": [
        *("go", "Home", "About us")
    ],
    "<a>one<br></a><a><img>two</a>": ["one", "two"],
    "<nav><span><a>Home</a></span><span><a>About us</a></span></nav>": ["Home", "About us"],
    "<div><span>Name</span><b><i>Age</i></b></div>": ["Name", "Age"],
    # These are parts of a sentence.
    "<p>see <a>one</a> <a>two</a></p>": ["see one two"],
    "<p>see <a>one</a>, <a>two</a></p>": ["see one, two"],
    "<p>see <a name=x></a><a>one</a></p>": ["see one"],
    "<p>see <a>one</a><a name=x></a></p>": ["see one"],
    "<p>see<a name=x></a><b>Two</b></p>": ["seeTwo"],
    "<p>so<sup><a>[1]</a><a>[2]</a></sup> it is": ["so it is"],
    "<p>so <a>it</a><sup><a>1</a></sup> is": ["so it is"],
    "<p>so<sup><a>1</a></sup><sup><a>2</a></sup> it is": ["so it is"],
}


@pytest.mark.parametrize("document", NEIGHBOURS)
def test_neighbours_without_white_space(document):
    seen = []

    def look(texts):
        seen.extend(texts)
        return identity(texts)

    found = translate(document, look)
    assert seen == NEIGHBOURS[document]
    assert found == document or len(seen) == 1


@pytest.mark.parametrize(
    ("document", "text", "expected"),
    [
        ("one<img>two three", "one two three", "ONE<img>TWO THREE"),
        ("one<b><input></b><!-- c --><i>two</i>", "one two",
         "ONE<b><input></b><!-- c --><i>TWO</i>"),
        ("one,<img>two<svg></svg>three", "one, two three", "ONE,<img>TWO<svg></svg>THREE"),
        ("<pre>one<img>two</pre>", "one two", "<pre>ONE<img>TWO</pre>"),
        ("one <img>two", "one two", "ONE <img>TWO"),
        ("one<img>.", "one.", "ONE<img>."),
        # A word goes on there.
        ("one<wbr>two", "onetwo", "ONETWO<wbr>"),
        ("one<!-- c -->two", "onetwo", "ONETWO<!-- c -->"),
        ("日<img>本", "日本", "<img>日本"),
    ],
)  # fmt: skip
def test_a_picture_ends_the_word_before_it(document, text, expected):
    seen = []

    def look(texts):
        seen.extend(texts)
        return upper(texts)

    assert (translate(document, look), seen) == (expected, [text])


def test_split():
    seen = []

    def look(texts):
        seen.extend(texts)
        return upper(texts)

    document = "<p>One <b>two. Three</b> four.  <i>Five</i>.</p>"
    split = re.compile(r"(?<=\.\s)").split
    assert translate(document, look, split=split) == (
        "<p>ONE <b>TWO. THREE</b> FOUR. <i>FIVE</i>.</p>"
    )
    assert seen == ["One two.", "Three four.", "Five."]
    with pytest.raises(InputError, match="`split` must return the parts of the text"):
        translate(document, split=str.split)


@pytest.mark.parametrize(
    ("document", "translations", "expected"),
    [
        ("<p>你<b>好</b>。再见！</p>", ["Hello.", "Bye!"], "<p>Hello. Bye!</p>"),
        ("<p>「你好。」再见！</p>", ["'Hello.'", "Bye!"], "<p>'Hello.' Bye!</p>"),
        ("<p>你好。再见！</p>", ["早。」", "再见！"], "<p>早。」再见！</p>"),
        ("<p>Hello. Bye!</p>", ["你好。", "再见！"], "<p>你好。再见！</p>"),
        ("<p>Hello. Bye!</p>", ["Hallo.", "再见！"], "<p>Hallo. 再见！</p>"),
    ],
)
def test_spaces_between_sentences(document, translations, expected):
    """As in documents: none after a full-width stop, and one elsewhere."""
    found = iter(translations)
    translated = translate(
        document,
        lambda texts: [AlignedTranslation(next(found)) for _ in texts],
        split=re.compile(r"(?<=[。！]」)|(?<=[。！])(?!」)|(?<=\.\s)").split,
    )
    assert re.sub("</?b>", "", translated) == expected


def test_sentences_are_translated_on_their_own():
    document = "<p>Dr. Ng <b>is in. He</b> waits! É𝄞.<sup>1</sup> So.</p>"
    seen = []

    def look(texts):
        seen.extend(texts)
        return upper(texts)

    assert translate(document, look) == (
        "<p>DR. NG <b>IS IN. HE</b> WAITS! É𝄞.<sup>1</sup> SO.</p>"
    )
    assert seen == ["Dr. Ng is in.", "He waits!", "É𝄞.", "So."]
    seen.clear()
    translate(document, look, split=None)
    assert seen == ["Dr. Ng is in. He waits! É𝄞. So."]


def test_attributes_only_on_request():
    document = "<p title='a &amp; b' lang=en>x <img alt=cat src=cat></p><p translate=no title=t>"
    assert "alt=cat" in translate(document)
    assert translate(document, attributes=["Alt", "title"]) == (
        "<p title='A &amp; B' lang=en>X <img alt=\"CAT\" src=cat></p><p translate=no title=t></p>"
    )


@pytest.mark.slow
@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(seed=strategies.integers(0, 2**32), noise=strategies.sampled_from([0, 0.3, 1]))
def test_well_formed(seed, noise):
    """Well-formed, with the same tags, and none inside a word."""
    rng = random.Random(seed)
    for markup, faults in (("xml", xml_faults), ("html", html_faults)):
        document = random_document(rng, markup)
        found = translate(document, reordering_translator(rng, noise), markup=markup)
        assert faults(document, found) == []
        assert tags_inside_words(found) <= tags_inside_words(document)


def test_text_without_tags_is_the_plain_translation():
    rng = random.Random(3)
    for _ in range(200):
        words = [f"w{index}" for index in range(rng.randint(1, 20))]
        chunks, depth = [], 0
        for word in words:
            if rng.random() < 0.3:
                chunks.append("<b>")
                depth += 1
            chunks += [word, " "]
            if depth and rng.random() < 0.4:
                chunks.insert(-1, "</b>")
                depth -= 1
            if rng.random() < 0.1:
                chunks.append("<i/>")
        document = f"<p>first {''.join(chunks).strip()}{'</b>' * depth}</p>"
        kept = []

        def translate_and_keep(texts, kept=kept):
            kept.extend(reordering_translator(rng, 0.2)(texts))
            return kept

        found = translate(document, translate_and_keep, markup="xml")
        assert xml_faults(document, found) == []
        assert text_of(found) == kept[0].text, document


@pytest.mark.slow
def test_fuzzed_documents():
    counts = fuzz(60, seed=6)  # with 5, one soup is of those of `test_what_is_repaired_stays_so`
    assert counts == {"html": 20, "xml": 20, "soup": 20}


@pytest.mark.slow
@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(strategies.text(alphabet="<>&/!-?='\" apbi;#x\n\r\0\u200b\u202e日", max_size=60))
@hypothesis.example("<b/;=; ;=>")  # with which `re` of Python 3.11 lost the place of a group
def test_any_characters(document):
    found = translate(document)
    assert soup_faults(found) == []
    try:
        found = translate(document, markup="xml")
    except InputError:
        return
    ElementTree.fromstring(found)


SOUP = {
    "<p>one<p>two <b>three": "<p>ONE</p><p>TWO <b>THREE</b></p>",
    "<b>one <i>two</b> three</i>": "<b>ONE <i>TWO</i></b> <i>THREE</i>",
    "<ul><li>a<li>b</ul>": "<ul><li>A</li><li>B</li></ul>",
    "a </b>b</div> c": "A B C",
    "a < b <3 & c": "A &lt; B &lt;3 &amp; C",
    "<p title='x>a": "",
    "a <!-- b": "A <!-- b-->",
    "<table>x<tr><td>y</table>": "X<table><tr><td>Y</td></tr></table>",
    "": "",
    " \n ": " \n ",
    "<plaintext>a</b>": "<pre>A&lt;/B&gt;</pre>",
}


@pytest.mark.parametrize("document", SOUP)
def test_soup_is_repaired(document):
    assert translate(document) == SOUP[document]


def test_names_of_xml():
    """Of lists and notes in an element with text, of listings, and of code within a text."""
    seen = []

    def look(texts):
        seen.extend(texts)
        return identity(texts)

    document = (
        "<d><li>Item one<ul><li>Sub <b>one</b></li><li>Sub two</li></ul></li>"
        "<para>A man.<footnote><para>A dog.</para></footnote> See <link>it</link></para>"
        "<programlisting>for i\n  <b>x</b></programlisting><screen>$ ls</screen>"
        "<para>Press <command>ls -l</command> now</para><command>Attack</command>"
        "<x>top<y><z>a</z><z>b</z></y></x><title>SVG</title><object>thing</object>"
        "<string translatable='false'>no</string><link>http://a.b/c?d=e&amp;f</link>"
        "<td>5 €</td><td>1.5</td><td>50 &#x25;</td></d>"
    )
    assert translate(document, look, markup="xml") == document
    assert seen == [
        *("A dog.", "Item one", "Sub one", "Sub two", "A man.", "See it", "Press ls -l now"),
        *("Attack", "top", "a", "b", "SVG", "thing", "5 €", "1.5"),
    ]
    with pytest.raises(ValueError, match="Received: XLIFF"):
        translate("<x:xliff xmlns:x='u'><x:source>a</x:source></x:xliff>", markup="xml")


def test_readings_are_kept_from_the_translator():
    seen = []

    def look(texts):
        seen.extend(texts)
        return identity(texts)

    ruby = "<p><ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rt>ji</rt></ruby></p>"
    assert "<rt>kan</rt>" in translate(ruby, look)
    assert seen == ["漢字"]


UNCHANGED = [
    "<html><body><p>a b</p>\n</body>\n</html>\n<!-- x -->\n\n",
    "<pre><!-- > -->\nx</pre>",
    "<pre>\n<!-- c -->\nx</pre>",
    "<pre><!-- b -->\n<!-- c -->\nx</pre>",
    "<pre><br>\nx</pre>",
    "<pre>\n<b>x</b>\ny</pre>",
    "<pre><b>\nx</b></pre>",
    "<p>a<!-- b\0c --></p>",
]


@pytest.mark.parametrize("document", UNCHANGED)
def test_what_the_parser_drops_is_kept(document):
    assert translate(document, identity) == document


@pytest.mark.xfail(strict=True, reason="the cell is no longer the first of the fragment")
def test_what_is_repaired_stays_so():
    """As the few fuzzed soups that change when they are repaired again."""
    once = translate("<td>A</td><select><option><at</select></at<></option></select>", identity)
    assert translate(once, identity) == once


PARTS_OF_TABLES = {
    "<td>cell</td><td>b</td>": "<td>CELL</td><td>B</td>",
    " <!-- c -->\n<tr><TD\n>x y</td></tr>\n": " <!-- c -->\n<tr><TD\n>X Y</td></tr>\n",
    "<th>a<td>b<tr><td>c": "<th>A</th><td>B</td><tr><td>C</td></tr>",
    "<caption>c</caption><colgroup><col></colgroup><col><thead><tr><th>h</th></tr></thead>": (
        "<caption>C</caption><colgroup><col></colgroup><col><thead><tr><th>H</th></tr></thead>"
    ),
    "<tbody><tr><td><table><td>x</table>y</td></tr></tbody>\r\n": (
        "<tbody><tr><td><table><td>X</td></table>Y</td></tr></tbody>\r\n"
    ),
    "<tfoot><tr><td><pre>\nx</pre></td></tr></tfoot></table><p>y</p>": (
        "<tfoot><tr><td><pre>\nX</pre></td></tr></tfoot><p>Y</p>"
    ),
    "a <td>b</td>": "A <td>B</td>",
    "</tr><tr><td>a<? x ?></td>": "<tr><td>A<? x ?></td></tr>",
    "<tdx>y</tdx>": "<tdx>Y</tdx>",
}


@pytest.mark.parametrize("document", PARTS_OF_TABLES)
def test_parts_of_tables(document):
    assert translate(document) == PARTS_OF_TABLES[document]


DEEP = 10_000  # beyond Python's limit of recursion


@pytest.mark.slow
@pytest.mark.representatives("b")
@pytest.mark.parametrize("name", ["b", "div", "x-y", "span translate=no"])
def test_deep_html(name):
    found = translate(f"<{name}>" * DEEP + "x" + f"</{name.partition(' ')[0]}>" * DEEP)
    assert found.count("<") == 2 * DEEP
    assert ("X" in found) == ("no" not in name)
    assert translate(f"<{name}>" * DEEP + "x").count("</") == DEEP


@pytest.mark.slow
def test_deep_xml():
    limit = sys.getrecursionlimit()
    found = translate("<b>" * DEEP + "x" + "</b>" * DEEP, markup="xml")
    assert found == "<b>" * DEEP + "X" + "</b>" * DEEP
    mixed = translate("<b>x " * DEEP + "</b>" * DEEP, markup="xml")
    assert mixed.count("<b>") == mixed.count("</b>") == DEEP
    assert sys.getrecursionlimit() == limit


def test_limits():
    with pytest.raises(InputError, match="nested at most 3 deep"):
        translate("<r><a><b><c/></b></a></r>", markup="xml", max_depth=3)
    with pytest.raises(InputError, match="nested at most 4 deep"):
        translate("<div><div><div>x", max_depth=4)
    with pytest.raises(InputError, match=r"at most 10 bytes\. Received: 11"):
        translate("x" * 11, max_bytes=10)
    with pytest.raises(InputError, match="`markup` must be one of"):
        MarkupTranslator(upper, markup="sgml")
    with pytest.raises(InputError, match=r"of each text\. Received: 0 for 1"):
        translate("x", lambda texts: [])
    with pytest.raises(InputError, match="a surrogate at 1"):
        translate("x\ud800")


BOMB = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)
)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (f"{BOMB}]><r>&j;</r>", "declares no entities. Received: the entity a at line 1"),
        (
            '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>',
            "declares no entities",
        ),
        ('<!DOCTYPE r [<!ENTITY % x SYSTEM "http://127.0.0.1/">%x;]><r/>', "declares no entities"),
        ("<r>&x;</r>", "well-formed XML. Received at line 1: undefined entity"),
        ("<r>\n<b></r>", "at line 2: mismatched tag"),
        ("<r>\x01</r>", "not well-formed"),
        ("", "no element found"),
        ("<r/><r/>", "junk after document element"),
    ],
)
def test_refused_xml(document, message):
    with pytest.raises(InputError, match=message):
        translate(document, markup="xml")


def test_entities_of_html_in_xml():
    document = '<!DOCTYPE html SYSTEM "x"><html><p>a&nbsp;b &eacute; &unknown; c</p></html>'
    assert translate(document, identity, markup="xml").endswith("a\xa0b é &unknown; c</p></html>")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("<p>é</p>".encode(), "<p>É</p>".encode()),
        ("\ufeff<p>é</p>".encode(), "\ufeff<p>É</p>".encode()),
        ("\ufeff<p>é</p>".encode("utf-16-le"), "\ufeff<p>É</p>".encode("utf-16-le")),
        (b'<meta charset="latin-1"><p>\xe9 \x80</p>', b'<meta charset="latin-1"><p>\xc9 \x80</p>'),
        (b"<meta charset=utf-16><p>x</p>", b"<meta charset=utf-16><p>X</p>"),
    ],
)
def test_encodings(data, expected):
    assert MarkupTranslator(upper).translate_bytes(data).data == expected


@pytest.mark.parametrize(
    ("name", "python_name", "text"),
    [
        ("gb2312", "gbk", "朱镕基"),
        ("Shift_JIS", "cp932", "①"),
        ("x-sjis", "cp932", "①"),
        ("euc-kr", "cp949", "똠"),
        ("iso-8859-9", "cp1254", "Ğ€"),
        ("tis-620", "cp874", "ก€"),
    ],
)
def test_names_mean_the_encodings_of_browsers(name, python_name, text):
    data = f"<meta charset={name}><p>{text}</p>".encode(python_name)
    assert MarkupTranslator(identity).translate_bytes(data).data == data


def test_encodings_of_xml():
    data = '<?xml version="1.0" encoding="iso-8859-1"?><r>é</r>'.encode("latin-1")
    translator = MarkupTranslator(
        lambda texts: [x._replace(text="日É") for x in upper(texts)], markup="xml"
    )
    found = translator.translate_bytes(data)
    assert found.data.decode("latin-1").endswith("<r>&#26085;É</r>")
    assert (found.num_texts, found.num_truncated) == (1, 0)
    for encoding in ("rot13", "nonsense", "unicode_escape", "punycode"):
        with pytest.raises(InputError, match="expected a known encoding, such as utf-8"):
            translator.translate_bytes(f'<?xml version="1.0" encoding="{encoding}"?><r/>'.encode())
    with pytest.raises(InputError, match="text in utf-8, which is declared or the default"):
        translator.translate_bytes(b"<r>abcde\xff</r>")


def test_a_translation_cannot_add_markup():
    hostile = "<script>x</script> & \0 \x07 ]]> \r"
    for markup in ("html", "xml"):
        found = translate(
            "<r>a</r>",
            lambda texts: [x._replace(text=hostile) for x in upper(texts)],
            markup=markup,
        )
        assert "&lt;script&gt;x&lt;/script&gt; &amp; \ufffd \ufffd ]]&gt;" in found
        assert found.count("<") == 2


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_large_document():
    """Hundreds of kilobytes; and a text with as many elements as words."""
    document = "<p>Hello <b>big</b> <i>world</i> &amp; you</p>\n" * 8_000
    assert len(document) > 300_000
    assert translate(document, markup="html") == document.replace("Hello", "HELLO").replace(
        "big", "BIG"
    ).replace("world", "WORLD").replace("you", "YOU")
    document = "<p>" + "<b>x</b> <i/>" * 5_000 + "</p>"
    found = translate(document, markup="xml")
    assert found.count("<b>X</b>") == found.count("<i/>") == 5_000
