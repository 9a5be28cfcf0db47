"""Lines and sentences that a splitter of sentences does not see."""

import pytest

from export.markup import MarkupTranslator
from tests.export.markup.fake_translators import backwards

# A document, the sentences that the model sees, and the translation.
DOCUMENTS = {
    "<td>$548<br>£23.92</td>": "$548|£23.92",
    "<td>A horse<br/>Two dogs</td>": "A horse|Two dogs",
    "<p>Jan Smith<br>12 High Street<br>London</p>": "Jan Smith|12 High Street|London",
    "<p>the horse runs<br><br>and so on</p>": "the horse runs|and so on",
    "<p>Jan runs.<br>and Laura</p>": "Jan runs.|and Laura",
    "<p>Dear Jan,<br>We have it</p>": "Dear Jan,|We have it",
    "<p>the <b>red<br>House</b> is</p>": "the red|House is",
    "<p>马跑。<br>马 跑</p>": "马跑。|马 跑",
    "<p>the dog.<a href=x>Here it is</a></p>": "the dog.|Here it is",
    "<p><span>The dog runs.</span><span>Jan runs.</span></p>": "The dog runs.|Jan runs.",
    "<p>the dog.<sup>2</sup>Here it is</p>": "the dog.|Here it is",
    "<p>私たちは、<br>夢を<br>応援します。</p>": "私たちは、 夢を 応援します。",
    "<p>Willkommen bei der<br>Stadt Köln</p>": "Willkommen bei der Stadt Köln",
    "<p>We have sold over<br>3,000 horses</p>": "We have sold over 3,000 horses",
    "<p>Das ist Dr.<br>Lang</p>": "Das ist Dr. Lang",
    "<p>Acme Inc.<br>1 Main St.<br>2nd floor</p>": "Acme Inc.|1 Main St.|2nd floor",
    "<p>Cook: 1 hr.<br>Yield: 6</p>": "Cook: 1 hr.|Yield: 6",
    # Raised above lowered.
    "<p>it is 5.0<span><sup>+0.5</sup><br><sub>-0.3</sub></span> Myr</p>": "it is 5.0 -0.3 Myr",
    "<p>of <i><sub>x</sub><br><sup>+2</sup></i> Dogs</p>": "of x Dogs",
    "<p>System.<wbr>Collections is</p>": "System.Collections is",
    "<p>The <a>Map</a>.<a>Entry</a> class</p>": "The Map.Entry class",
    "<p>It was with Jan.<b>Here it is</b></p>": "It was with Jan.|Here it is",
    "<p>for $548.<b>Jan</b></p>": "for $548.|Jan",
    # One sentence.
    "<p>the horse<br>runs</p>": "the horse runs",
    "<p>This is a line of an email that was broken at some width by the<br>House of Jan</p>": (
        "This is a line of an email that was broken at some width by the House of Jan"
    ),
    "<p>the U.<b>S</b>. is</p>": "the U.S. is",
    "<p>see www.<b>Example</b>.com</p>": "see www.Example.com",
    "<p>in node.<b>JS</b></p>": "in node.JS",
    "<p>at 12.<b>Mai</b></p>": "at 12.Mai",
    "<p>the dog.<b>here</b></p>": "the dog.here",
}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lines_and_sentences(document):
    seen = []

    def look(texts):
        seen.extend(texts)
        return backwards(texts)

    found = MarkupTranslator(look).translate(document)
    assert seen == DOCUMENTS[document].split("|")
    # What is between two lines stays there, whatever the order of the words.
    for tag in ("<br>", "<br/>", "<sup>2</sup>"):
        if tag in document and len(seen) == document.count(tag) + 1 and "<b>" not in document:
            lines = [" ".join(text.upper().split()[::-1]) for text in seen]
            assert found[found.index(">") + 1 : found.rindex("<")] == tag.join(lines)


def test_marks_behind_a_sentence_stay_behind_it():
    for mark in ("<sup>1</sup>", ' <a href="#r">↩</a>', '<a href="#fn1">1</a>', "[1]"):
        for document, expected in (
            ("<p>the big horse!{}</p>", "<p>HORSE! BIG THE{}</p>"),
            ("<p>It was a horse.{} Jan runs on.</p>", "<p>HORSE. A WAS IT{} ON. RUNS JAN</p>"),
        ):
            found = MarkupTranslator(backwards).translate(document.format(mark))
            assert found == expected.format(mark)


def test_a_block_as_a_whole():
    seen = []

    def look(texts):
        seen.extend(texts)
        return backwards(texts)

    MarkupTranslator(look, split=None).translate("<td>A horse.<br><br>Two dogs</td>")
    assert seen == ["A horse. Two dogs"]
