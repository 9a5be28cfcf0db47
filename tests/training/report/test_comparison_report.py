"""The page of `compare`: its data, its policy, and what the command refuses."""

import base64
import hashlib
import html.parser
import json
import re

import pytest

from tests.training.report.hostile import HOSTILE, NAME
from tf_transformer.__main__ import main, make_parser
from training.report.charts import NUM_COLORS, draw_bars, draw_intervals, draw_lines, draw_points
from training.report.compared_texts import ComparedTexts
from training.report.comparison_report import ComparisonSettings, compare
from training.report.html_page import show_hidden, to_json, write_page
from training.report.sentence_groups import group_by_length
from training.report.system_scores import make_metrics, score_systems
from training.report.word_frequencies import count_words, group_by_frequency


class Elements(html.parser.HTMLParser):
    """All elements of a page with their attributes, and the text in each script and style."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.texts = []
        self.is_open = False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.texts.append("")
            self.is_open = True

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            self.texts[-1] += data


@pytest.fixture(scope="module")
def page() -> str:
    shifted = HOSTILE[3:] + HOSTILE[:3]
    texts = ComparedTexts(
        source=shifted,
        references=[HOSTILE, shifted],
        systems={NAME: HOSTILE[1:] + HOSTILE[:1], "$x$": HOSTILE},
    )
    settings = ComparisonSettings(
        source_language="en", target_language="de", facts=[f"reference: {HOSTILE[1]}\u202e"]
    )
    return compare(texts, settings).as_html()


def test_texts_are_data_only(page):
    elements = Elements(page)
    _, data, _ = elements.texts
    found = json.loads(data)
    assert found["references"][0] == HOSTILE
    assert found["systems"][0]["name"] == NAME
    assert not set("<>&\u2028\u2029") & set(data)
    assert page.count("document.title='bad'") == data.count("document.title='bad'")
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"img", "b", "iframe", "link", "object"}
    for _, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert attributes.get(name, "#").startswith("#")
    # A namespace is the only address.
    assert set(re.findall(r"https?://[\w.]+", page)) <= {"http://www.w3.org"}
    assert "U+202E" in page


def test_the_policy_allows_this_script_and_style_only(page):
    elements = Elements(page)
    style, _, script = elements.texts
    (policy,) = (
        attributes["content"]
        for tag, attributes in elements.found
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed["default-src"] == "'none'"
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[name] == f"'sha256-{digest}'"


def test_names_of_elements_are_unique_and_labels_have_controls(page):
    names = [attributes["id"] for _, attributes in Elements(page).found if "id" in attributes]
    assert len(names) == len(set(names))
    for tag, attributes in Elements(page).found:
        for name in ("href", "xlink:href"):
            if name in attributes:
                assert attributes[name][1:] in names, tag
        if "clip-path" in attributes:
            assert attributes["clip-path"][5:-1] in names


def test_json_that_a_page_can_hold():
    values = ["</script>", "<!--", "&lt;", "\u2028\u2029\x00", "\ud800"[:0], 1.5, None]
    assert json.loads(to_json(values)) == values
    assert to_json(["<&>\u2028"]) == r'["\u003c\u0026\u003e\u2028"]'
    with pytest.raises(ValueError, match="JSON"):
        to_json([float("nan")])


def test_names_of_files_that_are_not_utf_8(tmp_path):
    write_page(tmp_path / "a.html", to_json(["a\udcff"]))
    assert (tmp_path / "a.html").read_text() == r'["a\udcff"]'


def test_hidden_characters_are_shown():
    shown = str(show_hidden("a<\u202eb\x00"))
    mark = '<span class="hidden-character">U+{}</span>'
    assert shown == f"a&lt;{mark.format('202E')}b{mark.format('0000')}"


@pytest.mark.parametrize(
    "chart",
    [
        draw_bars("bars", ["a", "b"], [[1, None], [0, 2]]),
        draw_bars("classes", ["a"], [[1]] * (NUM_COLORS + 1), horizontal=True),
        draw_points("points", ["a", "b"], [[1, 2]]),
        draw_intervals("intervals", [(1, 0.5), (2, 0)]),
        draw_lines("lines", [(0, [(1, 2.0), (2, 3.0)])], logarithmic=True),
    ],
)
def test_charts_take_their_colours_from_the_page(chart):
    assert "currentColor" in chart and "var(--series-1)" in chart and "style=" not in chart
    assert not re.search("#f[de]00", chart)
    assert f"var(--series-{NUM_COLORS + 1})" not in chart
    assert 'role="img"' in chart and "<title>" in chart


def test_groups_by_length():
    references = ["a", "a b", "a b", *["a b c"] * 6, "a b c d e"]
    metrics = score_systems({"x": references}, [references], make_metrics(), 2)
    groups = group_by_length(references, metrics)
    assert [(group.title, group.sentences) for group in groups] == [("1–2", 3), ("3", 6), ("5", 1)]
    assert sum(group.sentences for group in groups) == 10
    assert groups[0].scores[1] == [pytest.approx(100)]


def test_groups_by_frequency():
    counts = count_words(["a a a a a a a a a a b"])
    groups = group_by_frequency(counts, ["a b new"], [["a b b"], ["a a old"]])
    assert [(group.title, group.words, group.f_scores) for group in groups] == [
        ("0", 1, [0, 0]),
        ("1–9", 1, [pytest.approx(200 / 3), 0]),
        ("10–99", 1, [100, pytest.approx(200 / 3)]),
    ]


@pytest.fixture
def files(tmp_path):
    texts = {
        "ref": "Ein Hund läuft.\nZwei Katzen.\n",
        "more": "Ein Hund rennt.\nZwei Katzen.\n",
        "a": "Ein Hund läuft.\nKatzen.\n",
        "b": "Der Hund\nZwei Katzen.\n",
        "source": "A dog runs.\nTwo cats.\n",
        "short": "Ein Hund\n",
        "none": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_compare(files, capsys):
    report, scores = files / "r.html", files / "s.json"
    command = [
        *("compare", f"{files}/ref", f"{files}/a", f"{files}/b", "--source", f"{files}/source"),
        *("--more-references", f"{files}/more", "--names", "one", "two", "--languages", "en", "de"),
        *("--training-text", f"{files}/ref", "--report", str(report), "--json", str(scores)),
    ]
    assert main(command) == 0
    found = json.loads(scores.read_text())
    assert (found["sentences"], found["references"]) == (2, 2)
    assert found["scores"]["BLEU"]["systems"].keys() == {"one", "two"}
    assert found["errors"]["two"]["truncated"] == 1 and found["errors"]["one"]["truncated"] == 0
    printed = capsys.readouterr().out
    assert "nrefs:2|bs:1000" in printed and f"Report: {report}" in printed
    (difference,) = found["scores"]["chrF"]["differences"]
    assert f"{difference['difference']:+.2f}" in printed
    page = report.read_text()
    assert "F1 of words by their number in the training text" in page


def test_one_system_needs_no_source_and_no_page(files, capsys):
    assert main(["compare", f"{files}/ref", f"{files}/a"]) == 0
    printed = capsys.readouterr().out
    assert "compared with" not in printed and "a  " in printed
    assert sorted(path.name for path in files.iterdir()) == [
        *("a", "b", "more", "none", "ref", "short", "source")
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ref short", "short must have one line for each of the 2 sentences of the test set"),
        ("ref a --source short", "the source must have one line for each of the 2"),
        ("ref a --more-references none", "reference 2 must have one line for each of the 2"),
        ("none none", "the reference is empty"),
        ("ref nowhere", "nowhere: no such file"),
        ("ref a b --names x", "expected a name for each of the 2 systems. Received: 1"),
        ("ref a b --names x x", "the name 'x' is given to two systems"),
        ("ref a --names \x1b", "name of a system: expected 1 to 100 printable characters"),
        ("ref a --report r.txt", "r.txt: expected a name that ends in .html"),
        ("ref a --languages en de", "--languages is for the report; give --report"),
        ("ref a --training-text ref", "--training-text is for the report; give --report"),
        ("ref a --report r.html --json r.html", "r.html is also --report; give another one"),
        ("ref a --json a", "a is an input file; give another one"),
        ("ref a.html --report a.html", "a.html is an input file; give another one"),
        ("ref a --report nowhere/r.html", "nowhere/r.html: there is no folder"),
        ("ref a --report r.html --training-text nowhere", "nowhere: no such file"),
    ],
)
def test_what_compare_refuses(files, words, message, capsys, monkeypatch):
    monkeypatch.chdir(files)
    (files / "a.html").write_text("Ein\nZwei\n")
    before = sorted(path.name for path in files.iterdir())
    assert main(["compare", *words.split(" ")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert sorted(path.name for path in files.iterdir()) == before


def test_texts_that_a_page_cannot_hold(monkeypatch):
    monkeypatch.setattr("training.report.compared_texts.MAX_CHARACTERS", 5)
    with pytest.raises(ValueError, match="at most 5 characters, and these texts have 6"):
        ComparedTexts(source=None, references=[["abc"]], systems={"x": ["def"]})


def test_files_of_one_name_in_two_folders(files):
    (files / "more.d").mkdir()
    (files / "more.d" / "a").write_text("x\ny\n")
    scores = files / "s.json"
    command = ["compare", f"{files}/ref", f"{files}/a", f"{files}/more.d/a", "--json", str(scores)]
    assert main(command) == 0
    names = json.loads(scores.read_text())["errors"]
    assert list(names) == [f"{files}/a", f"{files}/more.d/a"]


def test_compare_has_the_tokenizers_of_evaluate():
    words = ["compare", "ref", "a", "--tokenize", "flores200"]
    assert make_parser().parse_args(words).tokenize == "flores200"
