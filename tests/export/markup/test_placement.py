"""Where elements come back, by alignments made by hand."""

import itertools
import random
import re
import xml.etree.ElementTree as ElementTree

import pytest

from export.markup import AlignedTranslation, MarkupTranslator
from tests.export.markup.fake_translators import (
    backwards,
    fixed,
    identity,
    reordered,
    unaligned,
    upper,
)


def html(document, translate):
    return MarkupTranslator(translate).translate(document)


@pytest.mark.parametrize(
    ("document", "target", "links", "expected"),
    [
        # A word that moves takes its element with it, and the sign after it stays outside.
        ("the <b>red</b> house.", "la maison rouge.", "0-0 1-2 2-1", "la maison <b>rouge</b>."),
        ("<b>the red</b> house", "la maison rouge", "0-0 1-2 2-1", "<b>la maison rouge</b>"),
        # Several words for one, and one for several.
        ("<b>not</b> here", "ne pas ici", "0-0 0-1 1-2", "<b>ne pas</b> ici"),
        ("a <b>fire truck</b> comes", "ein Auto kommt", "0-0 1-1 2-1 3-2", "ein <b>Auto</b> kommt"),
        # A word that is linked wrongly neither extends an element nor divides it.
        ("<b>a b c</b> d e", "A B C D E", "0-0 1-1 2-2 3-3 0-4", "<b>A B C</b> D E"),
        ("<b>a b c</b> d e", "A B C D E", "0-0 4-1 2-2 1-2 3-3 4-4", "<b>A B C</b> D E"),
        # A whole text has the whole translation, links or none.
        ("<b>a b</b>", "X Y Z", "0-1", "<b>X Y Z</b>"),
        ("<b><i>a b</i></b>", "X Y", "1-0", "<b><i>X Y</i></b>"),
        # An element whose words come to nothing is left out; what else it contains is not.
        ("go <b>to</b> bed", "geh schlafen", "0-0 2-1", "geh schlafen"),
        ("go <b>to<img></b> bed", "geh schlafen", "0-0 2-1", "geh<img> schlafen"),
        ("go <i><b>to</b></i> bed", "geh schlafen", "0-0 2-1", "geh schlafen"),
        ("go <b id=''>to</b> bed", "geh schlafen", "0-0 2-1", "geh schlafen"),
        # A link, or the target of one, keeps a word: its own, if only others won it, or the next.
        ("go <a href=x>to</a> bed", "geh schlafen", "0-0 2-1", "geh <a href=x>schlafen</a>"),
        (
            "go <i><a href=x>to</a></i> bed",
            "geh schlafen",
            "0-0 2-1",
            "geh <i><a href=x>schlafen</a></i>",
        ),
        ("go <b id=x>to</b>, yes", "geh, ja", "0-0 2-1 3-2", "<b id=x>geh</b>, ja"),
        ("a <a href=x>b</a> c d", "A BC D", "0-0 1-1 2-1 3-2", "A <a href=x>BC</a> D"),
        ("a <a href=x>b</a> <b>c</b> d", "A BC D", "0-0 1-1 2-1 3-2", "A <a href=x>BC</a> D"),
        ("<a href=x>a</a> <a href=y>b</a>", "AB", "0-0 1-0", "<a href=x>AB</a>"),
        # Elements whose ranges cross have a part of their own words each.
        ("He <a href=x>has seen</a> <a href=y>Anna</a> .", "Er hat Anna gesehen .",
         "0-0 1-1 2-3 3-2 4-4", "Er <a href=x>hat</a> <a href=y>Anna</a> gesehen ."),
        ("He <a href=x>has seen</a> <b>Anna</b> .", "Er hat Anna gesehen .",
         "0-0 1-1 2-3 3-2 4-4", "Er <a href=x>hat</a> <b>Anna</b> gesehen ."),
        ("He <b>has seen</b> <i>Anna</i> .", "Er hat Anna gesehen .",
         "0-0 1-1 2-3 3-2 4-4", "Er <b>hat</b> <i>Anna</i> gesehen ."),
        ("<a href=x>a b</a> <a href=y>c d</a> e", "A D B", "0-0 1-2 3-1",
         "<a href=x>A</a> <a href=y>D</a> B"),
        ("<b>a b c d</b> <i>e</i>", "A E B C D", "0-0 1-2 2-3 3-4 4-1", "A <i>E</i> <b>B C D</b>"),
        # So have links in an element, which gets a word for each.
        ("x <i><a href=x>the</a> <a href=y>horse</a></i>", "das Pferd", "0-0 2-1",
         "<i><a href=x>das</a> <a href=y>Pferd</a></i>"),
        ("x <i><b><a href=x>a</a></b> <a href=y>b</a> <a href=z>c</a></i>", "X , A , Y", "0-0 1-2",
         "<i><b><a href=x>X</a></b> , <a href=y>A</a> , <a href=z>Y</a></i>"),
        ("<i><a href=x>a b</a> <a href=y>c</a></i> d", "D B C A", "0-3 1-1 2-2 3-0",
         "D <i><a href=x>B</a> <a href=y>C</a> A</i>"),
        # A sign is enough if there is nothing else.
        ("<a href=x>a</a> b <a href=y>c</a>", "A !", "0-0", "<a href=x>A</a> <a href=y>!</a>"),
        # Nested elements stay nested, and siblings beside each other.
        ("<b>a <i>b</i></b> c", "C B A", "0-2 1-1 2-0", "C <b><i>B</i> A</b>"),
        ("<b>a</b> <i>b</i> c", "B A C", "0-1 1-0 2-2", "<i>B</i> <b>A</b> C"),
        ("<b>a b</b> <i>c d</i>", "A C B D", "0-0 1-2 2-1 3-3", "<b>A C B</b> <i>D</i>"),
        # Elements without content go before the next word, or stay at the end.
        ("a <img> b c", "B C A", "0-2 1-0 2-1", "<img> B C A"),
        ("a b <img>", "B A", "0-1 1-0", "B A <img>"),
        ("<img>a b", "B A", "0-1 1-0", "<img>B A"),
        ("a b<br>c", "A B C", "0-0 1-1 2-2", "A B<br>C"),
        ("a <!-- c --> b", "A B", "0-0 1-1", "A <!-- c --> B"),
    ],
)  # fmt: skip
def test_by_hand(document, target, links, expected):
    import re

    source = re.sub("<br>", " ", document)
    source = " ".join(re.sub("<!--.*?-->|<[^>]*>", "", source).split())
    if (document, target) == ("the <b>red</b> house.", "la maison rouge."):
        source = "the red house."
    assert html(document, fixed(source, target, links)) == expected


@pytest.mark.parametrize(
    ("document", "target", "links", "expected"),
    [
        # The white space that the source has before it, also where the translation has none.
        ("3 photos <code>y</code>!", "3 Fotos.", "0-0 1-1", "3 Fotos <code>y</code>."),
        ("3 photos <img>.", "3 Fotos.", "0-0 1-1", "3 Fotos <img>."),
        ("has <i translate=no>X</i>.", "hat er.", "0-1", "hat er <i translate=no>X</i>."),
        ("hi <b><img></b>!", "Hallo!", "0-0", "Hallo <b><img></b>!"),
        ("photos <i class=x></i> <img><img>!", "Fotos.", "0-0",
         "Fotos <i class=x></i> <img><img>."),
        # It does not touch a word that it does not touch in the source.
        ("to Ulm <code>f()</code>, at 3 goes", "nach Ulm geht um 3", "0-0 1-1 5-2 3-3 4-4",
         "nach Ulm <code>f()</code> geht um 3"),
        ("we (<img>) go", "wir gehen", "0-0 2-1", "wir <img> gehen"),
        ("a <i></i>, b", "A B", "0-0 2-1", "A <i></i> B"),
        ("a b <b><img></b> c", "C B A", "0-2 1-1 2-0", "<b><img></b> C B A"),
        # Where it touches a word in the source, and beside signs, there is none.
        ("a <img>b", "B A", "0-1 1-0", "<img>B A"),
        ("a<img> b", "A B", "0-0 1-1", "A<img> B"),
        ("cafe\u0301<img> b", "CAFE B", "0-0 1-1", "CAFE<img> B"),
        ("a (<img>) b", "A () B", "0-0 1-1 2-2", "A (<img>) B"),
        # Chinese has no spaces.
        ("see <img> <code>f()</code>, it", "看是红色", "0-0", "看是红色<img><code>f()</code>"),
    ],
)  # fmt: skip
def test_white_space_beside_elements_without_words(document, target, links, expected):
    """Text of atoms, of which the translation has no copy, does not count."""
    import re

    source = " ".join(re.sub("<code>.*?</code>|<i trans.*?</i>|<[^>]*>", "", document).split())
    translation = fixed(source, target, links)([source])
    assert html(document, lambda texts: translation * len(texts)) == expected


def test_no_tag_inside_a_word():
    assert html("un<b>believ</b>able <i>th</i>ing", upper) == "<b>UNBELIEVABLE</b> <i>THING</i>"
    # Two elements have parts of the same word: the first one gets it.
    assert html("<b>un</b><i>able</i> x", upper) == "<b>UNABLE</b> X"
    # But a link needs it more.
    assert html("<b>un<i>a</i></b><a href=x>ble</a> x", upper) == "<a href=x>UNABLE</a> X"
    assert html("<i>y <b>un</b><a id=x>able</a></i> x", upper) == "<i>Y <a id=x>UNABLE</a></i> X"
    assert html("x foo<wbr>bar y", upper) == "X FOOBAR<wbr> Y"


@pytest.mark.parametrize(
    "document",
    [
        '<a href="/wiki/Doi">doi</a>:<a href="https://doi.org/1">10.1000/182</a> is',
        "the <a href=x>horse</a>/<a href=y>dog</a> is",
        "the <a href=x>horse</a>-<a href=y>dog</a>-<a href=z>cat</a> is",
        "the <b><a href=x>A</a></b>&amp;<i><a href=y>B</a></i> is",
        "<a id=top>Big</a>-<a href=b>Ben</a> is",
        "the <span id=a>A</span>/<span id=b>B</span> is",
        "the <a href=x>horse</a>-and-<a href=y>dog</a> is",
    ],
)
def test_links_in_one_word(document):
    """Each keeps its part of the word: of what is joined by signs, each part is a word then."""
    assert html(document, identity) == document
    words, pieces = re.sub("<.*?>", "", document).replace("&amp;", "&").split(), []
    for word in words:
        parts = re.findall(r"\w+|\W", word)
        pieces += [f"▁{parts[0]}", *parts[1:]]
    links = [(i, i) for i in range(len(pieces))]
    translation = AlignedTranslation(" ".join(words), pieces, pieces, links)
    assert html(document, lambda texts: [translation]) == document
    # In a noisy alignment, too, and in another order of the words.
    translation = translation._replace(links=[(max(i - 1, 0), i) for i in range(len(pieces))])
    assert html(document, lambda texts: [translation]).count("</") == document.count("</")
    found = html(document, backwards)
    parts = document.replace("the ", "").rpartition(" ")[0]
    text = "(?<=>)[^<]+|^[^<]+"
    start, middle = found.split(" ", 1)
    assert start == "IS"
    assert middle.removesuffix(" THE") == re.sub(text, lambda x: x[0].upper(), parts).replace(
        "&AMP;", "&amp;"
    )


def test_links_in_one_word_that_is_another_one_in_the_translation():
    for target, links, expected in (
        ("Pferd/Hund da", "0-0 1-1", "<a href=x>Pferd</a>/<a href=y>Hund</a> da"),
        ("Pferd und Hund da", "0-0 0-2 1-3", "<a href=x>Pferd</a> und <a href=y>Hund</a> da"),
        ("Tiere da", "0-0 1-1", "<a href=x>Tiere</a> <a href=y>da</a>"),
    ):
        document = "<a href=x>horse</a>/<a href=y>dog</a> here"
        assert html(document, fixed("horse/dog here", target, links)) == expected
    # Other words keep theirs: no tag is inside a word.
    document = "<a href=x>a</a>/<a href=y>b</a> <b>well</b>-known"
    translator = fixed("a/b well-known", "A/B wohl-bekannt", "0-0 1-1")
    assert html(document, translator) == ("<a href=x>A</a>/<a href=y>B</a> <b>wohl-bekannt</b>")


def test_signs():
    """They are linked by their order, whatever the alignment of pieces says."""
    document = "He said <q>yes, no</q>, then (<b>maybe</b>)."
    translation = AlignedTranslation(
        "Er sagte ja, nein, dann (vielleicht).",
        ["▁He", "▁said", "▁yes", ",", "▁no", ",", "▁then", "▁(", "maybe", ")."],
        ["▁Er", "▁sagte", "▁ja", ",", "▁nein", ",", "▁dann", "▁(", "viel", "leicht", ").", ""],
        [(0, 0), (1, 1), (2, 2), (9, 3), (4, 4), (9, 5), (6, 6), (0, 7), (8, 8), (8, 9), (0, 10)],
    )
    assert html(document, lambda texts: [translation]) == (
        "Er sagte <q>ja, nein</q>, dann (<b>vielleicht</b>)."
    )


def _random_text(rng, words, depth, links):
    """Returns a text with elements in it, and adds the addresses of its links to a list."""
    chunks = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.4 or not depth:
            chunks.append(" ".join(next(words) for _ in range(rng.randint(1, 2))))
        elif kind < 0.7:
            links.append(len(links))
            text = " ".join(next(words) for _ in range(rng.randint(1, 3)))
            chunks.append(f'<a href="{links[-1]}">{text}</a>')
        else:
            name = rng.choice(("b", "i", "span"))
            chunks.append(f"<{name}>{_random_text(rng, words, depth - 1, links)}</{name}>")
    return " ".join(chunks)


@pytest.mark.slow
@pytest.mark.parametrize("share_of_links", [0, 0.3, 1, 2])
def test_no_link_is_lost(share_of_links):
    """Whatever the alignment says, if there are as many words as links."""
    rng = random.Random(7)
    num_crowded = 0
    for _ in range(300):
        links = []
        words = (f"w{index}" + rng.choice(("", "", " ,")) for index in itertools.count())
        document = f"<p>{_random_text(rng, words, 3, links)} end</p>"
        source = re.sub("<[^>]*>", "", document).split()
        num_words = len(links) + rng.choice((0, 0, 1, 5))
        num_crowded += num_words == len(links) > 1
        target = [f"t{index}" for index in range(num_words)] + ["."] * rng.randint(1, 3)
        rng.shuffle(target)
        pairs = [
            (rng.randrange(len(source)), rng.randrange(len(target)))
            for _ in range(int(share_of_links * len(target)))
        ]
        sides = ([f"▁{word}" for word in side] for side in (source, target))
        translation = AlignedTranslation(" ".join(target), *sides, pairs)
        found = html(document, lambda texts, found=translation: [found] * len(texts))
        case = (document, translation, found)
        assert "".join(ElementTree.fromstring(found).itertext()) == translation.text, case
        texts = {
            x.get("href"): "".join(x.itertext()) for x in ElementTree.fromstring(found).iter("a")
        }
        assert set(texts) == set(map(str, links)), case
        assert found.count("<a ") == len(links), case
    assert num_crowded > 50


def test_a_copy_in_the_range_of_another_element_is_not_doubled():
    source, target = "the bar foo sh", "A foo B sh"
    document = "<a href=x>the bar</a> <code>foo</code> sh"
    expected = "<a href=x>A</a> <code>foo</code> B sh"
    assert html(document, fixed(source, target, "0-0 1-2 2-1 3-3")) == expected


def test_links_of_a_long_text(monkeypatch):
    """It is divided, and no link is lost or moved that was in order."""
    document = " ".join(
        f"w{i} <b><a href={i}>a{i}</a> <a href=x{i}>b{i}</a></b>" for i in range(80)
    )
    expected = html(document, upper)
    noisy = reordered(lambda number: [max(i - (i % 3 == 2), 0) for i in range(number)])
    crowded = html(document, noisy)
    assert crowded.count("<a ") == expected.count("<a ") == 160
    monkeypatch.setattr("export.markup.placement._MAX_PAIRS", 1000)
    assert html(document, upper) == expected
    assert html(document, noisy) == crowded


def test_names_are_linked_to_themselves():
    translate = fixed("to Hamburg by train", "mit dem Zug nach Hamburg", "2-0 3-1 3-2 0-3 3-4")
    assert html("to <b>Hamburg</b> by train", translate) == "mit dem Zug nach <b>Hamburg</b>"


def test_scripts_without_spaces():
    translation = AlignedTranslation(
        "我喜欢红色的房子。",
        ["▁I", "▁like", "▁red", "▁houses", "."],
        ["▁我", "喜欢", "红色的", "房子", "。"],
        [(i, i) for i in range(5)],
    )
    document = "I like <b>red</b> <img> <i>houses</i>."
    assert html(document, lambda texts: [translation]) == "我喜欢<b>红色的</b><img><i>房子</i>。"


def test_pieces_that_are_not_the_text():
    """Unknown pieces, normalized characters, and other white space."""
    translation = AlignedTranslation(
        "DAS ½ HAUS ﬁN",
        ["▁the", "▁1⁄2", "▁", "<unk>", "▁fi", "n"],
        ["▁DAS", "▁", "1⁄2", "▁<unk>", "<unk>", "▁fi", "N"],
        [(0, 0), (1, 2), (3, 3), (3, 4), (4, 5), (5, 6)],
    )
    document = "the ½ <b>ሀሁ</b> <i>ﬁn</i>"
    assert html(document, lambda texts: [translation]) == "DAS ½ <b>HAUS</b> <i>ﬁN</i>"


@pytest.mark.parametrize(
    "translation",
    [
        AlignedTranslation("A B C D"),
        AlignedTranslation("A B C D", ["▁a"], ["▁A"], []),
        AlignedTranslation("A B C D", ["▁a"], ["▁A"], [(7, 9), (-1, 0)]),
        AlignedTranslation("A B C D", ["zz", "yy"], ["xx"], [(0, 0)]),
        AlignedTranslation("A B C D", [], [], [(0, 0)]),
    ],
)
def test_without_alignment_places_are_proportional(translation):
    found = html("a <b>b</b> c <img>d", lambda texts: [translation])
    assert re.sub("</?b>", "", found) == "A B C <img>D"
    assert found.count("<b>") == found.count("</b>") <= 1
    assert html("a <b>b</b> c <img>d", unaligned) == "A <b>B</b> C <img>D"


def test_an_empty_translation_keeps_pictures_and_marks():
    document = "a <b>b <img></b> <i>c</i><sup>[1]</sup> <u></u>d"
    found = html(document, lambda texts: [AlignedTranslation("")])
    assert found == "<img><sup>[1]</sup><u></u>"


def test_what_is_not_translated():
    document = (
        'x <code>f(a)</code> y <span translate="no">Big Apple</span> z <i class="a notranslate">N'
        "</i> <kbd>K</kbd>"
    )
    # `upper` makes no copy of these: they are kept from the translator then.
    assert html(document, upper) == document.replace("x", "X").replace("y", "Y").replace("z", "Z")
    # If the translation has a copy, this is what the element stands for.
    translate = fixed("use the foo now", "NUN foo NUTZEN", "0-2 2-0 3-1")
    assert html("use the <code>foo</code> now", translate) == "NUN <code>foo</code> NUTZEN"
    seen = []

    def translate_and_look(texts):
        seen.extend(texts)
        return upper(texts)

    html("see <code>foo</code> and <svg><text>bar</text></svg> there", translate_and_look)
    assert seen == ["see foo and there", "see and there"]


def test_an_atom_keeps_the_words_around_it():
    """Nothing but a copy of it is removed from a translation."""
    assert html("I <code>run</code> fast", backwards) == "<code>run</code> FAST I"
    translate = fixed("I run fast", "je cours vite", "0-0 1-1 1-2")
    with pytest.raises(KeyError, match="I fast"):
        html("I <code>run</code> fast", translate)


@pytest.mark.parametrize(
    "document",
    [
        "<p>Der <code>git</code>-Befehl <code>git push</code> und <code>git</code>.</p>",
        "<p>Die <code>List</code>-Klasse ist eine <code>List[int]</code>.</p>",
        "<p>pre<code>foo</code> x <code>foo bar</code></p>",
        "<p>two <kbd>K</kbd>s <kbd>K B</kbd></p>",
        "<p><code>foo</code>s: <code>foo</code>, <code>foo bar</code></p>",
        "<p>pre<code>foo</code> x foo</p>",
    ],
)
def test_atoms_with_parts_of_others(document):
    """No text is doubled: what cannot be told apart is kept from the translator."""
    translator = MarkupTranslator(identity, markup="html")
    found = translator.translate(document)
    assert sorted(re.findall(r"\w+", found)) == sorted(re.findall(r"\w+", document))


def test_equal_atoms_side_by_side():
    texts = []

    def translate(given):
        texts.extend(given)
        return identity(given)

    document = "<p>Press <kbd>Tab</kbd> <kbd>Tab</kbd> now</p>"
    assert MarkupTranslator(translate, markup="html").translate(document) == document
    assert texts == ["Press Tab Tab now"]


@pytest.mark.slow
def test_many_atoms():
    document = "<p>" + " ".join(f"<code>a{i} b</code> c" for i in range(2000)) + "</p>"
    found = MarkupTranslator(identity, markup="html").translate(document)
    assert re.findall("<code>.*?</code>", found) == re.findall("<code>.*?</code>", document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<p><i>one two </i><label>three</label></p>", "<i>ONE TWO</i> <label>THREE</label>"),
        ("<p><a>b</a><a>c</a><b> y</b></p>", "<a>B</a><a>C</a> <b>Y</b>"),
        ("<pre>one <b>two </b><i>a\nb</i></pre>", "ONE <b>TWO</b> <i>A\nB</i>"),
        ("<pre><i>a\nb</i><u> c</u></pre>", "<i>A\nB</i> <u>C</u>"),
    ],
)
def test_white_space_at_the_ends_of_texts(document, expected):
    """It stands outside of the elements there."""
    found = MarkupTranslator(upper, markup="html").translate(document)
    assert re.sub("^<p>|^<pre>|</p>$|</pre>$", "", found) == expected
