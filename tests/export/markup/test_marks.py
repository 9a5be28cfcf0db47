"""Marks of footnotes, raised and lowered parts of words, readings, and keys."""

import re

import pytest

from export.markup import AlignedTranslation, MarkupTranslator
from tests.export.markup.fake_translators import backwards, fixed, identity, upper

NOTE = '<sup class="reference"><a href="#r">1</a></sup>'
CAPITAL = '<a class="footnote-ref" href="#A">A</a>'
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
    "<sub>[1]</sub>",
    "<sub>*</sub>",
    "<sub>†</sub>",
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
        ("the <a href=x>horse</a>{} runs", "RUNS <a href=x>HORSE</a>{} THE"),
        # None is inside an element that it is not in.
        ("<b>the Peter</b>{} runs", "RUNS <b>PETER THE</b>{}"),
    ):
        found, seen = translate(f"<p>{document.format(mark)}</p>", backwards)
        assert seen == [re.sub("<.*?>", "", document.format(""))]
        assert found == f"<p>{expected.format(mark)}</p>"


def test_a_mark_follows_the_compound_that_its_word_became_a_part_of():
    for document, links, expected in (
        ("a red fire truck{} is", "0-0 1-1 2-1 3-1 4-2", "ein Wagen{} ist"),
        ("a red fire{} truck is", "0-0 1-1 2-1 3-1 4-2", "ein Wagen{} ist"),
        # More of the word comes from behind the mark.
        ("a red{} fire truck is", "0-0 1-1 2-1 3-1 4-2", "ein{} Wagen ist"),
    ):
        translator = fixed(document.format(""), expected.format(""), links)
        found, _ = translate(f"<p>{document.format(NOTE)}</p>", translator)
        assert found == f"<p>{expected.format(NOTE)}</p>"


def test_a_mark_inside_a_word_follows_it():
    for word in ("$548{}/year", "horse{}-drawn", "Jan{}'s"):
        found, seen = translate(f"<p>the {word.format(NOTE)} is</p>", identity)
        assert seen == [f"the {word.format('')} is"]
        assert found == f"<p>the {word.format('')}{NOTE} is</p>"


def test_marks_between_links():
    """A link that is a mark belongs to the sentence; links with only marks between are apart."""
    for document, texts in (
        (f"for the <i>horse</i>{CAPITAL} and", "for the horse and"),
        (f"the <a href=x>horse</a>{CAPITAL}{CAPITAL} is", "the horse is"),
        (f"the <a href=x>horse</a><b>{CAPITAL}</b> is", "the horse is"),
        (f"Jan said.{CAPITAL}<a href=x>Laura</a> is", "Jan said.|Laura is"),
        ("<a href='#fn1'>1</a><a href=x>Laura</a> is", "Laura is"),
        (f"by <a href=x>Jan</a>{CAPITAL}, <a href=y>Laura</a>{CAPITAL} is", "by Jan, Laura is"),
        (f"<a href=x>Home</a>{CAPITAL}<a href=y>About us</a>", "Home|About us"),
        ("<a href=x>Home</a><sup>1</sup><a href=y>About us</a>", "Home|About us"),
        ("<a href='?p=1'>Prev</a><a href='?p=2'>2</a><a href='?p=3'>Next</a>", "Prev|Next"),
    ):
        document = f"<p>{document}</p>"
        assert translate(document, identity) == (document, texts.split("|"))


@pytest.mark.parametrize("space", ["\xa0", "\u202f", "\u2009", "\u3000"])
@pytest.mark.parametrize(
    "mark", ["<sup>1</sup>", "<sup>[1]</sup>", '<a href="#fn1"><sup>1</sup></a>',
             '<b><a class="fnref" href="#fn1">[1]</a></b>', '<a href="#fn1">*</a>']
)  # fmt: skip
def test_other_white_space_beside_marks(space, mark):
    """It is no sign: the mark stays behind its word, and the model sees one space there."""
    for document, text in (
        ("A horse{0}{1} and dog ran.", "A horse{0}and dog ran."),
        ("A horse {1}{0}and dog ran.", "A horse and dog ran."),
        ("A horse{0}{1}{0}and dog ran.", "A horse{0}and dog ran."),
        ("A horse{0}{1}, and dog ran.", "A horse{0}, and dog ran."),
        ("A horse ran.{0}{1} It was.", "A horse ran.|It was."),
    ):
        document, text = (x.format(space, mark) for x in (document, text))
        found, seen = translate(document, identity)
        assert seen == text.split("|")
        assert found.split() == document.split()
    found, _ = translate(f"A horse{space}{mark} and dog ran.", backwards)
    assert " ".join(found.split()) == f"RAN. DOG AND HORSE {mark} A"


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


@pytest.mark.parametrize("letter", ["a", "e", "n", "x", "ii", "aa"])
def test_letters_behind_a_full_stop(letter):
    """They are marks of the sentence that ends there, whatever its last word is."""
    for sentence in ("It cost $548.", "It is £548.50.", "I saw him.", "It was $5.", "It is 12.",
                     "It was in 1990.", "Here I am.", "He lives in the US."):  # fmt: skip
        document = f"<p>{sentence}<sup>{letter}</sup> Laura buys 3 horses.</p>"
        seen = [sentence, "Laura buys 3 horses."]
        assert translate(document, identity) == (document, seen)
    document = f"<th>Age, yr.<sup>{letter}</sup></th>"
    assert translate(document, identity) == (document, ["Age, yr."])


def test_abbreviations_with_a_period_and_raised_letters():
    for document, text in (
        ("N.<sup>o</sup> 5, n.<sup>os</sup> 6 y 7", "N.o 5, n.os 6 y 7"),
        ("Sr.<sup>a</sup> Lopez, D.<sup>r</sup> Kunz", "Sr.a Lopez, D.r Kunz"),
        ("Prof.<sup>a</sup> Ana, D.<sup>ña</sup> Eva", "Prof.a Ana, D.ña Eva"),
        ("M.<sup>me</sup> Curie, M.<sup>lle</sup> Dax", "M.me Curie, M.lle Dax"),
        ("la 1.<sup>a</sup> vez, 2.<sup>o</sup> C", "la 1.a vez, 2.o C"),
    ):
        assert translate(document, identity) == (document, [text])


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
    "937": ["<sup>{}</sup>", "d", "4"],
    "Jan's": ["<sup>{}</sup>", "2", "a"],
    "don’t": ["<sup>{}</sup>", "3"],
    "vitamin D": ["<sup>{}</sup>", "2", "12"],
    "Größe L": ["<sup>{}</sup>", "2"],
    "£20k": ["<sup>{}</sup>", "3"],
    "$548m": ["<sup>{}</sup>", "2"],
    "20 mg": ["<sup>{}</sup>", "2"],
    "5 km": ["<sup>{}</sup>", "12"],
    "20": ["<sup>{}</sup>", "c", "12", "ii"],
    "Jan": ["<sup>{}</sup>", "b", "1", "a,b", "1a"],
    "Max": ["<sup>{}</sup>", "2", "b"],
    "Ma": ["<sup>{}</sup>", "2", "a", "e"],
    "Li": ["<sup>{}</sup>", "2", "a"],
    "MD": ["<sup>{}</sup>", "b", "2"],
    "5G": ["<sup>{}</sup>", "3"],
    "USB-C": ["<sup>{}</sup>", "4"],
    "Vitamin C": ["<sup>{}</sup>", "1", "2"],
    "World War I": ["<sup>{}</sup>", "2"],
    "n/a": ["<sup>{}</sup>", "e", "1"],
    "5 min": ["<sup>{}</sup>", "1"],
    # It can be a power, too, and is kept from the model then.
    "5 V": ["<sup>{}</sup>", "1", "2"],
    "2,000 W": ["<sup>{}</sup>", "2", "3"],
    "30 °C": ["<sup>{}</sup>", "2"],
    "Mr. K": ["<sup>{}</sup>", "2", "3"],
    "$547": ['<span class="note">{}</span>', "1"],
    "$546": ['<span style="font-size:60%">{}</span>', "1"],
    "$545": ['<span style="position:relative;top:-0.5em">{}</span>', "1"],
    "$544": ['<span class="txt-sup">{}</span>', "1"],
    "$54": ['<a href="part0012.html#x">{}</a>', "5", "12"],
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
        for mark in (
            *("¹", "¹²", "⁽¹⁾", "ᵃ", "[1]", "[1,2]", "[a]", "[note 1]", "[^1]", "[*]"),
            *("*", "***", "†", "§", "※2"),
        ):
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


def test_signs_of_significance():
    for document in ("<td>*<i>p</i> &lt; 0.05</td>", "<td>** P ≤ 0.01.</td>"):
        seen = re.sub("<.*?>|[*] ?", "", document).replace("&lt;", "<")
        assert translate(document, identity) == (document, [seen])
    # It keeps apart what would be one sentence without it.
    document = "<p>It is so. *p &gt; 0.05 then.</p>"
    assert translate(document, identity)[1] == ["It is so.", "*p > 0.05 then."]


def test_characters_before_sentences_of_a_block():
    for signs in (("¹", "²"), ("*", "**"), ("*", "†"), ("[1]", "[2]")):
        first, second = signs
        document = f"<p>{first} Jan bought it. {second} Laura paid $5* and £20[1].</p>"
        seen = ["Jan bought it.", "Laura paid $5 and £20."]
        assert translate(document, identity) == (document, seen)
    document = "<p>(*) Jan runs. It cost $548* and £20[1].</p>"
    assert translate(document, identity)[1] == ["(*) Jan runs.", "It cost $548 and £20."]


# Elements that contain marks, or words with raised parts, and other text.
AROUND_MARKS = {
    "It has 20 g<sup>2</sup> of it": "It has 20 g of it",
    "Up to 5x<sup>3</sup> faster than 5 l<sup>2</sup>": "Up to 5x faster than 5 l",
    "5,9 l/100 km<sup>2</sup>, 95 g/km<sup>3</sup>": "5,9 l/100 km, 95 g/km",
    "at 120 km/h<sup>2</sup> for 10 h<sup>3</sup>": "at 120 km/h for 10 h",
    'a horse<a href="#n1">1</a>,<a href="#n2">2</a> ran': "a horse ran",
    'paid $548,<a href="#fn1">1</a> and left': "paid $548, and left",
    "buys <b>3<sup>1</sup></b> horses": "buys 3 horses",
    "paid <b>$548<sup>1</sup></b> now": "paid $548 now",
    "paid <span class='price'>$5<sup>99</sup></span> now": "paid $5 now",
    '<b>20<sup class="reference"><a href="#c">[1]</a></sup></b> eggs': "20 eggs",
    "5 <span>m<sup>2</sup></span> of <i>x<sup>2</sup></i>": "5 m2 of x2",
    "<abbr>N<sup>o</sup></abbr> 5 at <b>10<sup>3</sup></b>": "No 5 at 10",
    "He said “<i>Jan paid $548<sup>1</sup> now</i>” twice": "He said “Jan paid $548 now” twice",
    "<i>the 2<sup>nd</sup> horse</i> is <b>“red<sup>1</sup>”</b>": "the 2nd horse is “red”",
    '<span>It runs. <a href="#r" role="doc-backlink">↩</a></span>': "It runs.",
    "他买了《<a>马<sup>[1]</sup></a>》和<b>3<sup>[2]</sup></b>头牛": "他买了《马》和3头牛",
    "for <sup>$</sup>548 and 20<sup>%</sup>": "for $548 and 20%",
    '(<a href="#b">2001</a>), Eq. (<a href="#S2.E1">1</a>) is': "(2001), Eq. (1) is",
    'paid <a href="/p"><span>$</span><span>548</span></a> now': "paid $548 now",
    '(<a href="/w">/<span><i>k</i><i>oʊ</i></span>/</a>) is': "(/koʊ/) is",
    "<del>He</del><ins>She</ins> paid": "He She paid",
    'a mu<span class="pagenum" id="P1">13</span>seum': "a museum",
    'at $5<span class="pagenum">[Pg 15]</span> is': "at $5 is",
    '$548<span class="pagenum" id="P1">16</span> there': "$548 there",
}


@pytest.mark.parametrize("document", AROUND_MARKS)
def test_elements_around_marks(document):
    found, seen = translate(f"<p>{document}</p>", identity)
    assert seen == [AROUND_MARKS[document]]
    # In the same order, except for what is inside a word, or in a text that is one word here.
    texts = [re.sub("<.*?>|\\s", "", text) for text in (found, document)]
    assert sorted(texts[0]) == sorted(texts[1])
    assert texts[0] == texts[1] or "museum" in texts[0] or "他" in texts[0]


def test_code_inside_words_keeps_sentences_apart():
    document = "<p>Use the <code>horse</code>s. Laura buys 3 horses.</p>"
    _, seen = translate(document, identity)
    assert set(seen[-2:]) == {"Use the s.", "Laura buys 3 horses."}


# A sentence with a text of its own inside, which the model sees first.
ASIDES = {
    '<p>Jan paid $548<span class="sidenote">It is a lot. Really.</span> now.</p>': (
        "It is a lot.|Really.|Jan paid $548 now."
    ),
    '<p>Laura<label for="m" class="margin-toggle">⊕</label><input id="m"/>'
    '<span class="marginnote">A note.</span> buys it.</p>': "A note.|Laura buys it.",
    '<p>$548<span class="ltx_note"><sup class="ltx_note_mark">1</sup>'
    '<span class="ltx_note_outer"><span><sup>1</sup><span class="ltx_tag">1</span>'
    "The price is high.</span></span></span> for it.</p>": "The price is high.|$548 for it.",
    '<p>$548<span class="tooltip">1<span class="tooltiptext">In dollars.</span></span> now</p>': (
        "In dollars.|$548 now"
    ),
    '<p><span class="a-offscreen">$548.00</span><span>$548</span> now</p>': "$548.00|$548 now",
    '<p>$548<span class="screen-reader-text">dollars</span> now</p>': "dollars|$548 now",
    # Words that are raised, or in a badge, and touch a word.
    "<p>Delivery<sup>within 3 days</sup></p>": "within 3 days|Delivery",
    "<p>Jan ran<sup>citation needed</sup> away</p>": "citation needed|Jan ran away",
    "<p>$548<sup>see page 3</sup> for it.</p>": "see page 3|$548 for it.",
    "<p>$548<sub>within 3 days</sub> for it.</p>": "within 3 days|$548 for it.",
    '<p>It ran.<sup>see <a href="/x">the list</a></sup> So.</p>': "see the list|It ran.|So.",
    '<li>Inbox<span class="badge">New</span></li>': "New|Inbox",
    '<p>Inbox<span class="badge">99+<i class="visually-hidden">unread messages</i></span></p>': (
        "unread messages|Inbox"
    ),
}


@pytest.mark.parametrize("document", ASIDES)
def test_asides(document):
    assert translate(document, identity) == (document, ASIDES[document].split("|"))


@pytest.mark.parametrize("name", ["badge", "badge badge-pill", "count", "nav-counter", "Counter"])
def test_badges(name):
    """A number in one is no part of the word that it touches."""
    for word in ("Jan paid $548", "Inbox", "Files"):
        for number in ("3", "27", "99+", "(4)", "1,234", "1.2k"):
            document = f'<p>{word}<span class="{name}">{number}</span> is</p>'
            assert translate(document, identity) == (document, [f"{word} is"])
    for document, text in (
        ('<p>Inbox <span class="badge">4</span> is</p>', "Inbox 4 is"),
        ('<p>for $<span class="badge">5</span> is</p>', "for $5 is"),
        ('<p>the <span class="badge">new</span> horse</p>', "the new horse"),
    ):
        assert translate(document, identity) == (document, [text])


def test_words_behind_numbers():
    """In a box they are apart from a number; others, and endings, are not."""
    for document, text in (
        ('$548<span class="per">per month</span> is', "$548 per month is"),
        ('<span class="p">$548</span><span class="per">per month</span>', "$548 per month"),
        ('<span class="p">$548</span>per month', "$548 per month"),
        ("$548<small>per month</small> is", "$548 per month is"),
        ("5<span>km</span> and 2<span>nd</span>", "5km and 2nd"),
        ("<b>5</b>fach und <b>80</b>ern", "5fach und 80ern"),
        ("<span>5</span>개월간은", "5개월간은"),
    ):
        found, seen = translate(f"<p>{document}</p>", identity)
        assert seen == [text]
        assert re.sub("<.*?>", "", found) == text


# Elements that touch, without white space between them, and what the model reads.
NEIGHBOURS = {
    "<span>$548</span><span>3 bottles</span>": "$548 3 bottles",
    "<b>Windows 11</b><i>64 bit</i>": "Windows 11 64 bit",
    "<time>10:30</time><em>12 min ago</em>": "10:30 12 min ago",
    "<a href=x>May 3, 2024</a><span><b>12</b> bottles</span>": "May 3, 2024 12 bottles",
    "paid <s>$549</s><b>$548</b> for it": "paid $549 $548 for it",
    "<span>€ 49,95</span><span>€ 29,95</span>": "€ 49,95 € 29,95",
    "<span>49,95 €</span><span>29,95 €</span>": "49,95 € 29,95 €",
    "<span>20%</span><span>5 left</span>": "20% 5 left",
    "$<span>24</span><span>99</span>": "$24 99",
    "<span>Calories</span><span>320</span>": "Calories 320",
    "<span>by Jan</span><span>5 min</span>": "by Jan 5 min",
    "<span>Only</span><span>$5</span>": "Only $5",
    "<span>Weight:</span><span>4 kg</span>": "Weight: 4 kg",
    "<b>5</b><i>bottles</i>": "5 bottles",
    # One word.
    "<b>H</b><i>2</i>O": "H2O",
    "<b>1</b><i>st</i> horse": "1st horse",
    "<span>24</span><span>.</span><span>99</span> paid": "24.99 paid",
    "<span>T</span><span>he horse</span>": "The horse",
    "<b>mu</b><i>seum</i>": "museum",
    "<b>10<i>24</i></b> horses": "1024 horses",
}


@pytest.mark.parametrize("document", NEIGHBOURS)
def test_numbers_in_elements_that_touch(document):
    found, seen = translate(f"<p>{document}</p>", identity)
    assert seen == [NEIGHBOURS[document]]
    assert " ".join(re.sub("<.*?>", "", found).split()) == seen[0]


def test_raised_parts_with_white_space():
    """Neither are parts of words, nor ordinal numbers with their words notes."""
    for document, text in (
        ("x<sub>i, j</sub> of e<sup>i x</sup>", "x of e"),
        ("10<sup>n + 1</sup> of it", "10 of it"),
    ):
        assert translate(document, identity) == (document, [text])
    for document in ("le 1<sup>er janvier</sup>", "that <sup>is raised</sup> x"):
        assert translate(document, identity)[1] == [re.sub("<.*?>", "", document)]


def test_edit_links_of_mediawiki():
    bracket = '<span class="mw-editsection-bracket">{}</span>'
    edit = '<a href="/e">edit</a>'
    rest = '<span class="mw-editsection-divider"> | </span><a href="/s">edit source</a>'
    for links, texts in (
        (f'<span class="mw-editsection">{bracket}{edit}{bracket}</span>', "edit"),
        (f'<span class="mw-editsection">{bracket}{edit}{rest}{bracket}</span>',
         "edit|edit source"),
        (f'<span class="editsection">[{edit} | <a href="/s">edit source</a>]</span>',
         "edit|edit source"),
    ):  # fmt: skip
        headline = '<h2><span class="mw-headline" id="R">{}</span>{}</h2>'
        links = links.format("[", "]")
        document = headline.format("All references", links)
        seen = ["All references", *texts.split("|")]
        assert translate(document, identity) == (document, seen)
        expected = headline.format("REFERENCES ALL", links).replace(">edit<", ">EDIT<")
        expected = expected.replace(">edit source<", ">SOURCE EDIT<")
        assert translate(document, backwards)[0] == expected


def test_asides_of_xml():
    for document, text in (
        (
            "<d><para>Acme sells <indexterm><primary>a horse</primary></indexterm>20 eggs"
            "<indexterm><primary>the egg</primary></indexterm> for $548.</para></d>",
            "a horse|the egg|Acme sells 20 eggs for $548.",
        ),
        (
            "<d><para>He <emphasis>paid<footnote><para>In cash. All.</para></footnote></emphasis> "
            "it.</para></d>",
            "In cash.|All.|He paid it.",
        ),
        (
            "<d><p>Press <menuchoice><guimenu>File</guimenu><guimenuitem>Open</guimenuitem>"
            "</menuchoice> now</p></d>",
            "File|Open|Press now",
        ),
        (
            "<d><p>Press <keycombo><keycap>Ctrl</keycap><keycap>C</keycap></keycombo> now</p></d>",
            "Press CtrlC now",
        ),
        ('<d><p>£19<xref ref-type="bibr" rid="b4">4</xref> by J<i/></p></d>', "£19 by J"),
        ('<d><p>£22<link linkend="n3">3</link> and <noteref>1</noteref></p></d>', "£22 and 1"),
        ('<d><p>£19<ref target="n1">1</ref> is</p></d>', "£19 is"),
    ):
        found, seen = translate(document, identity, markup="xml")
        assert (found, seen) == (document, text.split("|"))


def test_short_notes_of_xml():
    for note, text in (
        ("<fn>x</fn>", "x"),
        ("<fn>1</fn>", ""),
        ("<footnote><p>x</p></footnote>", "x"),
    ):
        document = f"<d><p>The horse{note} ran. It was.</p></d>"
        seen = [*filter(None, [text]), "The horse ran.", "It was."]
        assert translate(document, identity, markup="xml") == (document, seen)


def test_what_is_not_to_be_translated_is_no_aside():
    for document in (
        '<p translate="no">Foo <span class="sr-only">secret word</span></p>',
        '<p>Foo <span class="sidenote notranslate">secret word</span> is</p>',
        '<p>Foo <code>x <i class="sr-only">secret word</i></code> is</p>',
    ):
        assert "secret word" in translate(document, upper)[0]


def test_hidden_texts():
    for document in (
        '<td><span style="display:none">000548</span>$548</td>',
        "<td><span hidden>000548</span>$548</td>",
    ):
        assert translate(document, identity) == (document, ["$548"])


def test_words_with_names_of_marks():
    for document, text in (
        ('<p><a class="next page-numbers" href="/p/3">Older posts</a></p>', "Older posts"),
        ('<p><a class="back-link" href="/">Back to the shop</a> now.</p>', "Back to the shop now."),
        ('<p>in <span class="no-line-break">New York</span> now.</p>', "in New York now."),
        ('<p>the <a class="hotline-number" href="/">free hotline</a> now</p>',
         "the free hotline now"),
        ('<p>Page <span class="page-number">3</span> of 10</p>', "Page 3 of 10"),
        ('<p><strong class="note">Note:</strong> the horse</p>', "Note: the horse"),
        ('<p>Name<span class="form-note">(optional)</span></p>', "Name(optional)"),
        ('<p>Inbox<span style="margin-top:-3px">New</span></p>', "InboxNew"),
        ("<p>§ 433 BGB regelt</p>", "§ 433 BGB regelt"),
        ("<p>将②代入①得 x = 3。</p>", "将②代入①得 x = 3。"),
    ):  # fmt: skip
        assert translate(document, upper, split=None)[1] == [text]


def test_a_reference_behind_a_space():
    for mark in (
        '<a class="footnote-reference brackets" href="#i"><span>[</span>1<span>]</span></a>',
        '<a href="#fn1" role="doc-noteref">1</a>',
    ):
        document = f"<p>It costs $548 {mark}. Then.</p>"
        assert translate(document, identity) == (document, ["It costs $548 .", "Then."])
    document = "<p>Jan said.[1]Laura came.</p>"
    assert translate(document, identity)[1] == ["Jan said.", "Laura came."]


def test_a_mark_behind_a_comma_follows_its_word():
    document = "<p>Jan came in 1990,<sup>1</sup> Bob in 1995,<sup>2</sup> later</p>"
    assert translate(document, backwards)[0] == (
        "<p>LATER 1995,<sup>2</sup> IN BOB 1990,<sup>1</sup> IN CAME JAN</p>"
    )


def test_endings_behind_marks():
    for document, text in (
        ("<p>Ankara<sup>[1]</sup>'da is</p>", "Ankara'da is"),
        ("<p>horse<sup>1</sup>Jan is</p>", "horse Jan is"),
    ):
        assert translate(document, identity)[1] == [text]


@pytest.mark.slow
def test_many_asides():
    """However deep, and in linear time."""
    document = '<span class="sidenote">A note.' * 300 + "</span>" * 300
    found, seen = translate(f"<p>x{document}</p>" * 3, identity)
    assert found == f"<p>x{document}</p>" * 3
    assert set(seen) >= {"A note.", "x"}
    text = "It cost £19[1] there. " * 500
    assert translate(f"<p>{text}</p>", identity, split=None)[1] == [text.replace("[1]", "").strip()]


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
    'see Sections <a href="#s1">1</a>–<a href="#s3">3</a> here': "see Sections 1–3 here",
    'Figs <a href="#f3">2</a>,<a href="#f4">3</a> and <a href="#f6">6</a>': "Figs 2,3 and 6",
    'see <a href="#a">[1]</a>,<a href="#b">[2]</a>,<a href="#c">[3]</a>': "see [1],[2],[3]",
    'Eqs. <a href="#r1">(1)</a>–<a href="#r3">(3)</a> hold': "Eqs. (1)–(3) hold",
    'in <a href="#a1">4.1</a>/<a href="#a3">4.3</a> it is': "in 4.1/4.3 it is",
    "100 km<sup>2</sup>, 12/km<sup>2</sup>": "100 km2, 12/km2",
    "9.8 m/s<sup>2</sup> and 5x<sup>2</sup> is": "9.8 m/s2 and 5x2 is",
}


@pytest.mark.parametrize("document", NO_MARKS)
def test_what_is_no_mark(document):
    assert translate(document, identity)[1] == [NO_MARKS[document]]


# Words with raised and lowered parts, which the model reads as they are.
WHOLE_WORDS = {
    "H<sub>2</sub>O is wet": "H2O is wet",
    "5 m<sup>2</sup> of it": "5 m2 of it",
    "12 km<sup>2</sup>, and": "12 km2, and",
    "x<sub>*</sub> and a<sub>[1]</sub>": "x* and a[1]",
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
    "8.3 J mol<sup>−1</sup> K<sup>−1</sup>": "8.3 J mol−1 K−1",
    "SO<sub>4</sub><sup>2−</sup> and Ca<sup>2+</sup>": "SO42− and Ca2+",
    "20<sup>°</sup>C": "20°C",
    "x<sup>n</sup> of it": "xn of it",
    "the R<sup>2</sup> of it": "the R2 of it",
    "5 kPa m<sup>2</sup> or 3 kg<sup>−1</sup>": "5 kPa m2 or 3 kg−1",
    "25 kg/m<sup>2</sup> and 9.8 m/s<sup>2</sup>": "25 kg/m2 and 9.8 m/s2",
    "9 €/m<sup>2</sup> of it": "9 €/m2 of it",
    "40 µg/m³ of Ca²⁺ and s⁻¹": "40 µg/m³ of Ca²⁺ and s⁻¹",
    "19,<sup>99</sup> € or 19<sup>,99</sup> €": "19,99 € or 19,99 €",
    "à 14<sup>h</sup>30 le 100<sup>e</sup>": "à 14h30 le 100e",
    "20<sup>й</sup> and 10<sup>a</sup>": "20й and 10a",
    "XIX<sup>e</sup> and I<sup>er</sup>": "XIXe and Ier",
}


@pytest.mark.parametrize("document", WHOLE_WORDS)
def test_whole_words(document):
    found, seen = translate(f"<p>{document}</p>", identity)
    assert (found, seen) == (f"<p>{document}</p>", [WHOLE_WORDS[document]])


# Words whose parts are in several elements, and what comes back if that is not the document.
IN_ELEMENTS = {
    "<i>r</i><sup>2</sup> is": "",
    "<i>E</i> = <i>mc</i><sup>2</sup>": "",
    "<i>R</i><sub><i>t</i></sub> is": "",
    "<i>H</i><sub>0</sub> and <b><i>r</i><sup>2</sup></b>": "",
    "5 <abbr>m</abbr><sup>2</sup> is": "",
    "<sup>14</sup><b>C</b> is": "",
    "<i>x</i><sub>1</sub> + <i>x</i><sub>1</sub>": "",
    "<b>H</b><sub>2</sub><i>O</i> is": "",
    "kg/<i>m</i><sup>2</sup> is": "",
    "<span><b>CO</b></span><b><span style='vertical-align:sub'>2</span></b> is": "",
    "(<i>x</i>)<sub>2</sub> is": "",
    # Variables and code, which are copied.
    "<var>x</var><sub>1</sub> is": "",
    "<var>x</var><sub><var>i</var></sub> and <i>y</i><sub><var>i</var></sub>": "",
    "5<var>x</var><sup>2</sup> is": "",
    # An element with other words, and a link, get the whole word.
    "<b>5 m</b><sup>2</sup> is": "<b>5 m<sup>2</sup></b> is",
    "<b>5 <i>m</i></b><sup>2</sup> is": "<b>5 <i>m</i><sup>2</sup></b> is",
    "<sup>14</sup><b>C is</b> x": "<b><sup>14</sup>C is</b> x",
    "<a href=x>m</a><sup>2</sup> is": "<a href=x>m<sup>2</sup></a> is",
    "H<sub>2</sub><a href=x>O</a> is": "<a href=x>H<sub>2</sub>O</a> is",
}


@pytest.mark.parametrize("document", IN_ELEMENTS)
def test_whole_words_in_elements(document):
    found, seen = translate(f"<p>{document}</p>", identity)
    assert seen == [re.sub("<.*?>", "", document)]
    assert found == f"<p>{IN_ELEMENTS[document] or document}</p>"


def test_a_word_in_elements_that_is_not_copied_keeps_them():
    translator = fixed("the r2 of it", "la R-2 de ça", "0-0 1-1 2-2 3-3")
    for word, expected in (
        ("<i>r</i><sup>2</sup>", "<i>R-2</i>"),
        ("<a href=x>r</a><sup>2</sup>", "<a href=x>R-2</a>"),
        ("r<sub id=x>2</sub>", "<sub id=x>R-2</sub>"),
    ):
        found, _ = translate(f"<p>the {word} of it</p>", translator)
        assert found == f"<p>la {expected} de ça</p>"
    # Variables are kept from the translator then.
    found, seen = translate("<p>the <var>x</var><sup>2</sup> is</p>", upper)
    assert found == "<p>THE <var>x</var><sup>2</sup> IS</p>"
    assert seen == ["the x2 is", "the is"]


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
