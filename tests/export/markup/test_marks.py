"""Marks of footnotes, raised and lowered parts of words, readings, and keys."""

import re

import pytest

from export.markup import AlignedTranslation, MarkupTranslator
from tests.export.markup.fake_translators import backwards, fixed, identity, upper

NOTE = '<sup class="reference"><a href="#r">1</a></sup>'
# What stands behind a word, and the model does not see.
MARKS = [
    NOTE,
    '<sup id="r1" class="reference"><a href="#n1"><span>[</span>1<span>]</span></a></sup>',
    "<sup>1</sup>",
    "<sup>1,2</sup>",
    "<sup>1–3</sup>",
    "<sup>12</sup>",
    "<sup>[1]</sup>",
    "<sup>[note 1]</sup><sup>[2]</sup>",
    '<sup>[<i><a href="/w/Citation">citation needed</a></i>]</sup>',
    "<sup>*</sup>",
    "<sup>†</sup><sup>‡</sup>",
    "<sup>1</sup>,<sup>2</sup>",
    "<sup>1</sup>, <sup>2</sup>",
    '<sup><a href="#a">a</a></sup>',
    '<sup><a href="#a">iv</a></sup>',
    "<sup>a</sup>",
    "<sup>a,b</sup>",
    "<sup>TM</sup>",
    "<sup>®</sup>",
    '<sub><a href="#r">3</a></sub>',
    '<sub class="footnote">3</sub>',
    '<a href="#f">*</a>',
    '<a href="#f">†</a>',
    '<a href="#f">[1]</a>',
    '<a href="n.html#f">1</a>',
    '<a href="#f"><sup>1</sup></a>',
    '<a id="b" href="#f" role="doc-noteref">b</a>',
    '<span class="footnote-ref">1</span>',
    '[<a href="#1">1</a>]',
    '[<a href="#1">1</a>, <a href="#2">2</a>]',
    '<a href="#top">↩</a>',
    "<sup><b>3</b></sup>",
    '<sup><a href="#c">[2]</a></sup><sup>: 12–13 </sup>',
    "<sup>1,2,*</sup>",
    "<sup>(1)</sup>",
    '<small><a href="#1">(1)</a></small>',
    "<sup>1</sup><sup>,</sup><sup>2</sup>",
    "<sup>1 2</sup>",
    "<sup>nb 1</sup>",
    "<sup>1.</sup>",
    "<sup>¹</sup>",
    "<sup>①</sup>",
    "<sup>†1</sup>",
    "<sup>1, p. 4</sup>",
    "<sup>1001</sup>",
    "<sup>&#8203;1</sup>",
    "<sup>i</sup>",
    "<sup>ii</sup>",
    "<sup>||</sup>",
    "<sup>α</sup>",
    "<sup>A1</sup>",
    "<sup>✝</sup>",
    "<sup>⁑</sup>",
    "<sup>•</sup>",
    "<sup>+</sup>",
    "<sup>b,c</sup>",
    "<sup>a)</sup>",
    "<sup>(a)</sup>",
    "<sup>new!</sup>",
    '<span style="font-size:70%; vertical-align: super">1</span>',
    '<span style="vertical-align:0.4em">1</span>',
    '<span class="sup">1</span>',
    "<cite>[1]</cite>",
    "<b>[2]</b>",
    "<b>*</b>",
    '<a href="#fn1">1</a>',
    '<a href="page.html#cite_note-12">12</a>',
    "<small>1</small>",
    "<sup>see note</sup>",
    '<font size="1">2</font>',
    '<span class="citation">(Smith 2001)</span>',
    "<sup>" + ",".join(map(str, range(1, 26))) + "</sup>",
    "¹",
    "¹,²",
    "[1]",
    "[1, 2]",
    "*",
    "†",
]


def translate(document, translator, **options):
    """Returns the translation, and the texts that the translator saw."""
    seen = []

    def look(texts):
        seen.extend(texts)
        return translator(texts)

    return MarkupTranslator(look, **options).translate(document), seen


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_follows_its_word(mark):
    source, target = "Jan paid $548 for the horse.", "Jan bezahlte 548 $ für das Pferd."
    translator = fixed(source, target, "0-0 1-1 2-2 2-3 3-4 4-5 5-6")
    found, seen = translate(f"<p>Jan paid $548 for the horse{mark}.</p>", translator)
    assert (found, seen) == (f"<p>Jan bezahlte 548 $ für das Pferd{mark}.</p>", [source])
    for document, expected in (
        ("the horse Peter runs{}", "RUNS{} PETER HORSE THE"),
        ("the horse Peter{} runs", "RUNS PETER{} HORSE THE"),
        ("the <b>horse{}</b> runs", "RUNS <b>HORSE{}</b> THE"),
        ("the <b>horse</b>{} runs", "RUNS <b>HORSE</b>{} THE"),
        ("<b>the horse{}</b> runs", "RUNS <b>HORSE{} THE</b>"),
        # None is inside an element that it is not in.
        ("<b>the Peter</b>{} runs", "RUNS <b>PETER THE</b>{}"),
    ):
        found, seen = translate(f"<p>{document.format(mark)}</p>", backwards)
        assert seen == [re.sub("</?b>", "", document.format(""))]
        assert found == f"<p>{expected.format(mark)}</p>"


def test_the_text_around_marks():
    """White space beside them is kept, sentences end before them, and words are not joined."""
    for document, text in (
        ("<p>The horse.{} Jan runs.</p>", "The horse. Jan runs."),
        ("<p>The horse {}, and</p>", "The horse , and"),
        ("<p>The horse {} and</p>", "The horse and"),
        ("<p>horse{}Jan</p>", "horse Jan"),
        ("<p>{} Jan runs.</p>", "Jan runs."),
        ("<li>{}Jan runs.</li>", "Jan runs."),
        ("<p>The horse. {}Jan runs.</p>", "The horse. Jan runs."),
        ("<p>Das {}<i>Pferd</i></p>", "Das Pferd"),
        ("<p>“The horse”{} (Jan){}</p>", "“The horse” (Jan)"),
    ):
        for mark in (NOTE, "<sup>2</sup>"):
            found, seen = translate(document.format(mark, mark), identity, split=None)
            assert (found, seen) == (document.format(mark, mark), [text])
    # The number of a verse stays before its sentence.
    assert translate("<p>the horse. <sup>2</sup>In beginning</p>", backwards)[0] == (
        "<p>HORSE. THE <sup>2</sup>BEGINNING IN</p>"
    )


def test_marks_alone_are_no_text():
    for document in ("<td><sup>[1]</sup></td>", '<p><a href="#a">*</a> </p>'):
        assert translate(document, upper) == (document, [])


def test_chinese():
    mark = "<sup>[1]</sup>"
    translation = AlignedTranslation("马跑。", ["▁The", "▁horse", "▁runs."], ["▁马", "跑", "。"],
                                     [(1, 0), (2, 1), (2, 2)])  # fmt: skip
    found, _ = translate(f"<p>The horse{mark} runs.</p>", lambda texts: [translation])
    assert found == f"<p>马{mark}跑。</p>"
    document = "<p>马<sup>1</sup>跑。</p>"
    assert translate(document, by_characters) == (document, ["马跑。"])


def by_characters(texts):
    """The text itself, with a piece for each character."""
    return [
        AlignedTranslation(text, list(text), list(text), [(i, i) for i in range(len(text))])
        for text in texts
    ]


def test_letters_behind_numbers_and_signs():
    document = "<p>12.5<sup>a</sup> or 3<sup>a</sup> (n = 12)<sup>b</sup>, N.<sup>o</sup> 5</p>"
    assert translate(document, identity) == (document, ["12.5 or 3a (n = 12), N.o 5"])


def test_a_price_and_the_one_that_it_replaces():
    found, seen = translate("<p>for <del>$548</del><ins>$500</ins> now</p>", identity)
    assert seen == ["for $548 $500 now"]
    assert found == "<p>for <del>$548</del> <ins>$500</ins> now</p>"


# Marks behind a price, a number, a date, a short word and a sign, and what the model sees of each.
BEHIND = {
    "£19": ["<sup>{}</sup>", "a", "b", "b,c", "1", "1,2", "i", "*", "a)", "st."],
    "$548": ["<sup>{}</sup>", "a", "2", "1001", "ii", "†1"],
    "£23": ["<sub>{}</sub>", "1"],
    "$549": ['<a href="notes.html">{}</a>', "1", "12"],
    "4/1/2015": ["<sup>{}</sup>", "b", "1", "e"],
    "937": ["<sup>{}</sup>", "d", "e", "4"],
    "20": ["<sup>{}</sup>", "c", "12", "ii"],
    "Jan": ["<sup>{}</sup>", "b", "1", "a,b", "1a"],
    "dog": ["<sup>{}</sup>", "a", "e", "x", "3"],
    "USA": ["<sup>{}</sup>", "a", "b", "2"],
    "of": ["<sup>{}</sup>", "a", "b", "1"],
    "5 kg": ["<sup>{}</sup>", "a", "1,2", "1)"],
    "(n = 12)": ["<sup>{}</sup>", "a", "2", "*"],
    "–": ["<sup>{}</sup>", "g", "1"],
    "£19 ": ["<sup>{}</sup>", "a", "1", "b,c"],
    "£19\u2060": ["<sup>{}</sup>", "a", "[1]"],
}


@pytest.mark.parametrize("word", BEHIND)
def test_a_mark_behind_other_words(word):
    template, *texts = BEHIND[word]
    for text in texts:
        mark = template.format(text)
        for document in (f"<p>it is {word}{mark} now</p>", f"<td>{word}{mark}</td>"):
            seen = re.sub("<.*?>", "", document.replace(mark, ""))
            translated = [" ".join(seen.split())] if re.search("[^0-9–]", seen) else []
            assert translate(document, identity) == (document, translated)


def test_marks_that_are_characters():
    for word in ("£19", "$548", "4/1/2015", "Jan", "USA", "horse", "(n = 12)", "£19\u2060"):
        for mark in ("¹", "¹²", "[1]", "[1,2]", "*", "†"):
            document = f"<p>it is {word}{mark} now</p>"
            assert translate(document, identity) == (document, [f"it is {word} now"])


# Marks before a sentence, such as those of a note and those that lead back to it.
LEADING = [
    "<sup>a</sup> ",
    "<sup>a)</sup> ",
    "<sup>(a)</sup> ",
    "<sup>b</sup>",
    "<sup>1.</sup> ",
    "<sup>*</sup> ",
    "<b>*</b> ",
    "† ",
    "[1] ",
    "¹ ",
    '<a href="#r1">[1]</a> ',
    '<a href="#r1">1.</a> ',
    '<b><a href="#cite_ref-1">^</a></b> ',
    '<span class="mw-cite-backlink">↑ <sup><a href="#cite_ref-3">3,0</a></sup> '
    '<sup><a href="#cite_ref-4">3,1</a></sup></span> ',
    '<span class="mw-cite-backlink">^ <a href="#r"><sup><i><b>a</b></i></sup></a> '
    '<a href="#s"><sup><i><b>b</b></i></sup></a></span> ',
    '↑ <a href="#cite_ref-1">1,0</a> <a href="#cite_ref-2">1,1</a> ',
    '<a href="#r" role="doc-backlink">back</a> ',
    '<span class="versenum">2</span>',
    '<b class="verse">2</b> ',
    '<span class="label">12</span>',
    "*",
]


@pytest.mark.parametrize("mark", LEADING)
def test_a_mark_before_a_sentence(mark):
    document = f"<li>{mark}Jan bought it for $548.</li>"
    assert translate(document, identity) == (document, ["Jan bought it for $548."])
    document = f"<p>{mark}Jan bought it.<br>{mark}Laura, too.</p>"
    assert translate(document, identity) == (document, ["Jan bought it.", "Laura, too."])


def test_marks_of_tei():
    for mark in ('<ref target="#n1">1</ref>', '<note-ref/><hi rend="superscript">a</hi>'):
        document = f"<d><p>Jan paid $548{mark} now</p><p>x</p></d>"
        assert translate(document, identity, markup="xml") == (
            document,
            ["Jan paid $548 now", "x"],
        )


# Parts of the sentence.
NO_MARKS = {
    'see <a href="#f">[1]</a> for more': "see [1] for more",
    "see [<a href='#f'>1</a>] for more": "see [1] for more",
    'in chapter <a href="#c3">3</a> of it': "in chapter 3 of it",
    '19<a href="#x">84</a> was': "1984 was",
    'version-<a href="#x">2</a> was': "version-2 was",
    'the <a href="x">horse</a>s': "the horses",
    "that <sup>is raised</sup> text": "that is raised text",
    'so <a href="x"><sup>it is</sup></a>': "so it is",
    "<a>*</a> is a sign": "* is a sign",
    "* is a sign": "* is a sign",
    "this is *important* text": "this is *important* text",
    "f** it": "f** it",
    "5 m² and 3¹/₂ cups of x² at A*": "5 m² and 3¹/₂ cups of x² at A*",
    "[1] shows that": "[1] shows that",
    "see [1] for more": "see [1] for more",
    "<b>3</b>D is in": "3D is in",
    "20<small>m</small> of it": "20m of it",
    "10<small>km</small> and x<sub>1</sub>": "10km and x1",
    "a<sup>b</sup> is a power": "ab is a power",
}


@pytest.mark.parametrize("document", NO_MARKS)
def test_what_is_no_mark(document):
    assert translate(document, identity)[1] == [NO_MARKS[document]]


# Words with raised and lowered parts, which the model reads as they are.
WHOLE_WORDS = {
    "H<sub>2</sub>O is wet": "H2O is wet",
    "5 m<sup>2</sup> of it": "5 m2 of it",
    "12 km<sup>2</sup>, and": "12 km2, and",
    "the 1<sup>st</sup> of it": "the 1st of it",
    "le XVIII<sup>e</sup> siècle": "le XVIIIe siècle",
    "M<sup>me</sup> Curie": "Mme Curie",
    "C<sub>6</sub>H<sub>12</sub>O<sub>6</sub> here": "C6H12O6 here",
    "Ca(OH)<sub>2</sub> here": "Ca(OH)2 here",
    "Na<sup>+</sup> ions": "Na+ ions",
    "x<sup>2</sup> + y<sup>2</sup>": "x2 + y2",
    "10 m<sup>2</sup>/s here": "10 m2/s here",
    "<sup>14</sup>C dating": "14C dating",
    "add <sup>1</sup>/<sub>2</sub> cup": "add 1/2 cup",
    "<b>CO<sub>2</sub></b> here": "CO2 here",
    "v<sub>max</sub> and p<sub>&lt;</sub>": "vmax and p<",
    "sin<sup>2</sup> of it": "sin2 of it",
    "5 м<sup>2</sup> здесь": "5 м2 здесь",
    "the 2<sup>nd</sup> or 3<sup>RD</sup>": "the 2nd or 3RD",
    "le 20<sup>e</sup> siècle": "le 20e siècle",
    "la 1<sup>a</sup> vez": "la 1a vez",
    "Wil<sup>m</sup> and Ser<sup>vo</sup>": "Wilm and Servo",
    "Sr<sup>a</sup> Lopez": "Sra Lopez",
    "5 m s<sup>−1</sup>": "5 m s−1",
    "SO<sub>4</sub><sup>2−</sup> and Ca<sup>2+</sup>": "SO42− and Ca2+",
    "20<sup>°</sup>C": "20°C",
    "x<sup>n</sup> of it": "xn of it",
}


@pytest.mark.parametrize("document", WHOLE_WORDS)
def test_whole_words(document):
    found, seen = translate(f"<p>{document}</p>", identity)
    assert (found, seen) == (f"<p>{document}</p>", [WHOLE_WORDS[document]])


def test_a_number_is_not_made_longer():
    """A raised number after another one is kept from the model, which would read 106 people."""
    for document, text in (
        ("10<sup>6</sup> people", "10 people"),
        ("3<sup>1</sup>/<sub>2</sub> cups", "3 cups"),
        ("in 1990<sup>2</sup> it", "in 1990 it"),
        ("(a + b)<sup>2</sup> is", "(a + b) is"),
    ):
        assert translate(document, identity) == (document, [text])


def test_a_word_that_is_not_copied_loses_its_raised_part():
    """The whole word would be raised otherwise."""
    found, seen = translate(
        "<p>the 1<sup>st</sup> of 5 m<sup>2</sup></p>",
        fixed("the 1st of 5 m2", "der 1. von 5 m2", "0-0 1-1 2-2 3-3 4-4"),
    )
    assert (found, seen) == ("<p>der 1. von 5 m<sup>2</sup></p>", ["the 1st of 5 m2"])
    # Outside of the element that it is in, too; and if it is there fewer times.
    document = "<p><b>not H<sub>2</sub>O</b> now</p>"
    translator = fixed("not H2O now", "H2O jetzt nicht", "0-2 1-0 2-1")
    found = translate(document, translator)[0]
    assert re.sub("<.*?>", "", found) == "H2O jetzt nicht"
    document = "<p>H<sub>2</sub>O or H<sub>2</sub>O</p>"
    found = translate(document, fixed("H2O or H2O", "H2O", "0-0"))[0]
    assert found == "<p>H2O</p>"


def test_readings_stay_with_their_words():
    for document, text in (
        ("<ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby>を読む", "漢字を読む"),
        ("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>を読む", "漢字を読む"),
        ("<ruby>한글<rt>hangeul</rt></ruby>은", "한글은"),
        ("<ruby>ABC<rt>x</rt></ruby>s are", "ABCs are"),
    ):
        found, seen = translate(document, by_characters)
        assert seen == [text]
        assert sorted(re.findall("<r[tp]>.*?</r[tp]>", found)) == sorted(
            re.findall("<r[tp]>.*?</r[tp]>", document)
        )
        assert found.index("<ruby>") < found.index("<rt>") < found.index("</ruby>")
    translation = AlignedTranslation("I go to Tokyo", ["▁東京", "へ", "行く"],
                                     ["▁I", "▁go", "▁to", "▁Tokyo"],
                                     [(2, 0), (2, 1), (1, 2), (0, 3)])  # fmt: skip
    document = "<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ行く"
    assert translate(document, lambda texts: [translation])[0] == (
        "I go to <ruby>Tokyo<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>"
    )
    # A word that does not come out takes its reading with it.
    translation = translation._replace(
        text="I go", target_pieces=["▁I", "▁go"], links=[(2, 0), (2, 1)]
    )
    assert translate(document, lambda texts: [translation])[0] == "I go"


def test_keys():
    """Keys that are pressed together are one word, which the translation copies as a whole."""
    document = "<p>Press <kbd>Ctrl</kbd>+<kbd>Alt</kbd>+<kbd>Del</kbd> or <kbd>Esc</kbd> now</p>"
    assert translate(document, identity) == (document, ["Press Ctrl+Alt+Del or Esc now"])
    translator = fixed("Press Ctrl+C now", "Jetzt Ctrl+C drücken", "0-2 1-1 2-0")
    found, _ = translate("<p>Press <kbd>Ctrl</kbd>+<kbd>C</kbd> now</p>", translator)
    assert found == "<p>Jetzt <kbd>Ctrl</kbd>+<kbd>C</kbd> drücken</p>"
    # Without a copy, they are kept from the translator.
    found, seen = translate("<p>a <kbd>Ctrl</kbd>+<kbd>C</kbd> b</p>", upper)
    assert (found, seen) == ("<p>A <kbd>Ctrl</kbd>+<kbd>C</kbd> B</p>", ["a Ctrl+C b", "a b"])


def test_abbreviations():
    document = '<p>The <abbr title="It is">WHO</abbr><sup>1</sup> is <abbr>e.g.</abbr> x</p>'
    assert translate(document, identity) == (document, ["The WHO is e.g. x"])


def test_xml():
    document = (
        "<d><para>the horse<superscript>1</superscript> of H<subscript>2</subscript>O"
        '<xref rid="f1" ref-type="fn">2</xref> is <hi rend="sup">3</hi></para></d>'
    )
    found, seen = translate(document, identity, markup="xml")
    assert (found, seen) == (document, ["the horse of H2O is"])


def test_many_marks():
    """In linear time, and however deep."""
    document = "<p>" + "a<sup>[1]</sup> <b>" * 200 + "H<sub>2</sub>O " * 200 + "</b>" * 200
    found, (text,) = translate(document + "</p>", identity)
    assert text.split() == ["a"] * 200 + ["H2O"] * 200
    assert found.count("<sup>[1]</sup>") == 200
    assert re.sub("<.*?>", "", found).count("H2O") == 200
