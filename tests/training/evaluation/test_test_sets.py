"""Named test sets, from a file server on this machine in place of the real ones."""

import functools
import hashlib
import http.server
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import threading

import pytest
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.storage.score_log import read_scores
from training.evaluation.metrics import make_metrics
from training.evaluation.test_sets import check_test_set, open_test_set

DOCUMENTS = {"news.1": ["One.", "Two & a half."], "bbc.2": ["Three."], "news.3": ["Four."]}
# The programs below know these test sets, too.
PROGRAM = """
import json, sys
from sacrebleu.dataset import DATASETS, SUBSETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset
for kind, name, url, md5, pairs in json.loads(sys.argv.pop(1)):
    kinds = {"sgm": FakeSGMLDataset, "xml": WMTXMLDataset}
    DATASETS[name] = kinds[kind](name, data=[url], md5=[md5], langpairs=pairs, refs=["A", "B"])
from sacrebleu.sacrebleu import main
main()
"""


def sgm(side):
    rows = []
    for document, lines in DOCUMENTS.items():
        rows.append(f'<doc docid="{document}" genre="news" origlang="en">')
        rows += [f'<seg id="{n}">{side}  {line}</seg>' for n, line in enumerate(lines, 1)]
        rows.append("</doc>")
    return "".join(f"{row}\n" for row in rows)


def xml():
    rows = ["<dataset>"]
    for number, (document, lines) in enumerate(DOCUMENTS.items()):
        domain = ("news", "speech")[number % 2]
        rows.append(f'<doc id="{document}" origlang="en" domain="{domain}">')
        for head in (
            'src lang="en"',
            'ref lang="de" translator="A"',
            'ref lang="de" translator="B"',
        ):
            rows.append(f"<{head}>")
            rows += [
                f'<seg id="{n}">{head[-2]} {line.replace("&", "&amp;")}</seg>'
                for n, line in enumerate(lines, 1)
            ]
            rows.append(f"</{head[:3]}>")
        rows.append("</doc>")
    return "\n".join([*rows, "</dataset>"])


def archive(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A folder that a server publishes, its address, and the paths that were asked for."""
    folder = tmp_path_factory.mktemp("served")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *_):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


@pytest.fixture
def sets(served, tmp_path, monkeypatch):
    """Two small test sets in sacreBLEU's table, and an empty cache; also for other processes."""
    folder, address, asked = served
    cache = tmp_path / "cache"
    monkeypatch.setenv("SACREBLEU", str(cache))
    for module in ("sacrebleu.utils", "sacrebleu.dataset.base"):
        monkeypatch.setattr(f"{module}.SACREBLEU_DIR", str(cache))
    rows = []
    for kind, name, files, pairs in (
        ("sgm", "own24/two", {f"{s}.sgm": sgm(s) for s in "abs"}, ["s.sgm", "a.sgm", "b.sgm"]),
        ("xml", "own24", {"own.xml": xml()}, ["own.xml"]),
    ):
        data = archive(files)
        (folder / f"{kind}.tar.gz").write_bytes(data)
        row = (f"{address}/{kind}.tar.gz", hashlib.md5(data).hexdigest(), {"en-de": pairs})
        rows.append((kind, name, *row))
        make = {"sgm": FakeSGMLDataset, "xml": WMTXMLDataset}[kind]
        dataset = make(name, data=[row[0]], md5=[row[1]], langpairs=row[2], refs=["A", "B"])
        monkeypatch.setitem(DATASETS, name, dataset)
    asked.clear()
    return cache, rows


def test_a_download_is_kept(sets, served):
    cache, _ = sets
    for _ in range(2):
        found = open_test_set("own24/two", "en-de")
        assert list(found.source.lines()) == ["s One.", "s Two & a half.", "s Three.", "s Four."]
        assert [next(reference.lines()) for reference in found.references] == ["a One.", "b One."]
        assert found.documents == ["news.1", "news.1", "bbc.2", "news.3"]
        assert found.facts == {"name": "own24/two", "language_pair": "en-de"}
        assert found.source.path.is_relative_to(cache)
    assert served[2] == ["/sgm.tar.gz"]


def test_an_interrupted_download_is_repeated(sets, served):
    cache, _ = sets
    path = cache / "own24" / "raw" / "own24.xml.tar.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    assert len(open_test_set("own24", "en-de").documents) == 4
    assert served[2] == ["/xml.tar.gz"]


@pytest.mark.parametrize(
    ("name", "subset", "rows"),
    [
        ("own24/two", "news", [0, 1, 3]),  # the ids of documents
        ("own24/two", r"^bbc\.2$", [2]),
        ("own24", "spee", [2]),  # domains
        ("own24", "country:news", [0, 1, 3]),
    ],
)
def test_subsets(sets, name, subset, rows):
    whole, found = open_test_set(name, "en-de"), open_test_set(name, "en-de", subset)
    pairs = zip((whole.source, *whole.references), (found.source, *found.references), strict=True)
    for all_text, text in pairs:
        lines = list(all_text.lines())
        assert list(text.lines()) == [lines[row] for row in rows]
        assert [line.decode() for line in text.dataset().as_numpy_iterator()] == list(text.lines())
        assert str(text) == f"{all_text} (subset {subset})"
    assert found.documents == [whole.documents[row] for row in rows]
    assert found.facts["subset"] == subset


def test_the_order_of_references_is_always_the_same(sets, monkeypatch):
    """SacreBLEU's is that of a set of strings, which depends on the process."""
    whole = open_test_set("own24", "en-de")
    files = DATASETS["own24"].get_reference_files("en-de")
    for order in (files, files[::-1]):
        monkeypatch.setattr(DATASETS["own24"], "get_reference_files", lambda _, order=order: order)
        assert open_test_set("own24", "en-de").references == whole.references
    assert [next(reference.lines()) for reference in whole.references] == ["A One.", "B One."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"), [("own24/two", []), ("own24", []), ("own24", ["--subset", "n.w"])]
)
def test_scores_are_those_of_the_program(sets, tmp_path, name, words):
    """Which scores translations of the whole test set, of a subset or not."""
    whole = open_test_set(name, "en-de")
    found = open_test_set(name, "en-de", *words[1:])
    path = tmp_path / "hyp"
    path.write_text("".join(f"a {line[3:]}\n" for line in whole.source.lines()))
    command = [sys.executable, "-c", PROGRAM, json.dumps(sets[1]), "-t", name, "-l", "en-de"]
    command += ["-i", str(path), "-w", "8", "-m", "bleu", "chrf", "ter", *words]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    metrics = make_metrics(["bleu", "chrf", "ter"])
    hypotheses = [f"a {line[3:]}" for line in found.source.lines()]
    references = [list(reference.lines()) for reference in found.references]
    for metric, theirs in zip(metrics.values(), json.loads(printed), strict=True):
        score = metric.score(hypotheses, references)
        assert round(score.value, 8) == theirs["score"]
        assert score.signature == theirs["signature"]


def refusal(*arguments):
    with pytest.raises(InputError) as error:
        open_test_set(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_refused(sets):
    cache, _ = sets
    assert refusal("wmt2", "en-de").startswith("Unknown test set: 'wmt2'; did you mean 'wmt2")
    assert "Known are iwslt17, iwslt17/dev2010" in refusal("?", "en-de")
    assert refusal("own24", "de-en").startswith("Unknown language pair of own24: 'de-en'")
    with pytest.raises(InputError, match="Unknown language pair of wmt14/full: 'en-xx'"):
        check_test_set("wmt14/full", "en-xx")
    assert "--subset (: not a regular expression" in refusal("own24", "en-de", "(")
    assert not cache.exists()  # all of these before a download
    assert "matches; it has, among others, news, speech" in refusal("own24", "en-de", "sport")
    raw = cache / "own24" / "raw" / "own.xml"
    raw.write_text("<dataset>")
    assert f"{cache}/own24: incomplete or damaged" in refusal("own24", "en-de")


def test_another_file_than_the_published_one(sets, served):
    cache, rows = sets
    (served[0] / "sgm.tar.gz").write_bytes(b"<html>Log in</html>")
    message = refusal("own24/two", "en-de")
    expected, received = rows[0][3], hashlib.md5(b"<html>Log in</html>").hexdigest()
    assert f"another MD5 checksum than the published file: expected {expected}" in message
    assert f"received {received}" in message
    assert not (cache / "own24" / "two" / "raw" / "own24_two.sgm.tar.gz").exists()


def test_without_a_network(sets, monkeypatch):
    cache, _ = sets
    url = "http://127.0.0.1:9/xml.tar.gz"
    monkeypatch.setattr(DATASETS["own24"], "data", [url])
    message = refusal("own24", "en-de")
    assert f"not in sacreBLEU's cache {cache}/own24 and cannot be downloaded" in message
    assert "refused" in message and f"Missing is {url}" in message


@pytest.mark.slow
def test_evaluate_and_runs(sets, trained, tmp_path, capsys):
    """What is printed and stored; the document of each sentence; the tokenizer of the language."""
    model_dir = tmp_path / "models" / "model"
    shutil.copytree(trained, model_dir, ignore=shutil.ignore_patterns("scores.jsonl"))
    others = tmp_path / "others"
    others.write_text("a One.\na Two & a half.\na Four.\n")
    sentences, output = tmp_path / "sentences", tmp_path / "output"
    names = ["ter", "bleu", "chrf++", "exact"]
    given = ["--test-set", "own24/two", "--language-pair", "en-de", "--subset", "news"]
    given += ["--metrics", *names, "--compare", str(others), "--beam-size", "1"]
    given += ["--sentence-scores", str(sentences), "--output", str(output)]
    assert main(["evaluate", "--model-dir", str(model_dir), *given]) == 0
    printed = capsys.readouterr().out
    (score,) = read_scores(model_dir)
    assert [name for name in score if name in (*names, "perplexity", "chrf")] == names
    test_set = {"name": "own24/two", "language_pair": "en-de", "subset": "news"}
    assert score["test_set"] == test_set and score["sentences"] == 3
    assert score["ter_signature"].startswith("nrefs:2|") and len(score["references"]) == 2
    assert [one["metric"] for one in score["comparisons"]] == ["TER", "BLEU", "chrF2++"]
    assert printed.startswith(f"TER         {score['ter']:6.2f}   nrefs:2|")

    rows = [json.loads(line) for line in sentences.read_text().splitlines()]
    assert [row["document"] for row in rows] == ["news.1", "news.1", "news.3"]
    assert [row["translation"] for row in rows] == output.read_text().splitlines()
    assert rows[2]["references"] == ["a Four.", "b Four."] and rows[2]["source"] == "s Four."
    metric = make_metrics(["ter"])["ter"]
    texts = (
        [row["translation"] for row in rows],
        list(zip(*(row["references"] for row in rows), strict=True)),
    )
    assert [row["ter"] for row in rows] == metric.sentence_scores(*texts)

    assert main(["runs", str(tmp_path / "models")]) == 0
    head, row = capsys.readouterr().out.split("\n\n")[1].splitlines()[:2]
    assert re.findall(r"BLEU|chrF\+\+|chrF|TER|COMET|exact", head)[:5] == [
        *("BLEU", "chrF", "chrF++", "TER", "exact")
    ]
    assert "own24/two en-de news" in row and f"{score['ter']:.2f}" in row
