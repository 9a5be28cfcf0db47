"""Markup in translations: whether documents stay well-formed, and where elements come back.

    python -m benchmarks.markup --documents 10000
    python -m benchmarks.markup
    python -m benchmarks.markup --model-dir demo-out/model --data demo-out/data

The first command translates generated documents with a translator that only reorders words, and
counts those that are not well-formed, have other tags, a tag inside a word, or an inline element
without its text; such elements are left out. The second one marks
words of generated sentences, with alignments that are wrong for a share of the words. The third one
marks words of the demonstration's test set whose places in the German are known from the templates,
and counts the sentences that the model translates as the reference does.
"""

import argparse
import collections
import pathlib
import random
import re
import time
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

from export.markup import AlignedTranslation, MarkupTranslator, TranslateTexts
from tf_transformer.word_alignment.pharaoh import parse_links

NOISE = (0.0, 0.1, 0.2, 0.3)
INLINE = ("b", "cite", "em", "i", "span", "u")
BLOCKS = ("div", "h2", "li", "p", "td", "ul")
EMPTY = ("br", "img", "wbr")
WORDS = (
    *("the", "house", "of", "my", "brother", "stands", "at", "river-side,", "don't!", "3.5", "%"),
    *("naïve", "Größe", "e\u0301t\u00e9", "日本語", "שלום", "\u202eabc\u202c", "zero\u200bwidth"),
    *("\U0001f600", "x", "<", "y", "&", "z", ">", "\u00ad"),
)
VOIDS = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta",
                   "source", "track", "wbr"))  # fmt: skip
SOUP = (
    "<p>", "</p>", "<b>", "</b>", "<i class=x>", "</i>", "<div>", "</div>", "<table>", "<tr>",
    "<td>", "</table>", "<ul>", "<li>", "</ul>", "<a href='x'>", "</a>", "</x>", "<x-y z>", "<br/>",
    "<script>if (a<b) '</p>'</script>", "<style>p > b {}</style>", "<svg><path/><title>t</title>",
    "</svg>", "<textarea>", "</textarea>", "<select><option>", "</select>", "<pre>\n", "</pre>",
    "<!-- c -->", "<!-->", "<!--", "<?php x ?>", "<!x>", "</ x>", "</>", "<![CDATA[x]]>", "<", "&",
    "&amp;", "&nbsp;", "&notit;", "&#0;", "<p x='", "<code>", "</code>", "<span translate=no>",
    "</span>", "\0", "\r", "\n", " ", "<template>", "</template>", "<html lang=x>", "<body>",
    "</body>", "<head>", "<title>", "</title>", "<iframe>", "</iframe>", "<math>", "</math>",
    "<noscript>", "</noscript>",
)  # fmt: skip


def reordering_translator(rng: random.Random, noise: float = 0.0) -> TranslateTexts:
    """Returns a translator that moves phrases, and aligns a share of the words at random."""

    def translate(texts):
        return [_reordered(rng, text.split(), noise) for text in texts]

    return translate


def _reordered(rng, words, noise):
    order = reordering(rng, len(words))
    links = [(rng.randrange(len(words)) if rng.random() < noise else i, j)
             for j, i in enumerate(order)]  # fmt: skip
    target = [words[i].upper() for i in order]
    sides = ([f"▁{word}" for word in side] for side in (words, target))
    return AlignedTranslation(" ".join(target), *sides, links)


def reordering(rng: random.Random, length: int) -> list[int]:
    """Returns a permutation that moves phrases of up to four words by a few places."""
    phrases, start = [], 0
    while start < length:
        end = min(start + rng.randint(1, 4), length)
        phrases.append(range(start, end))
        start = end
    keys = [index + rng.uniform(0, 2.5) for index in range(len(phrases))]
    return [i for _, phrase in sorted(zip(keys, phrases, strict=True)) for i in phrase]


def random_document(rng: random.Random, markup: str) -> str:
    """Returns a well-formed document with elements nested at random."""
    body = "".join(_block(rng, rng.randint(0, 3), markup) for _ in range(rng.randint(1, 4)))
    if markup == "xml":
        return f'<?xml version="1.0"?>\n<!DOCTYPE d>\n<d>{body}</d>\n'
    return rng.choice((body, f"<!DOCTYPE html>\n<html>\n<body>{body}</body>\n</html>\n"))


def _block(rng, depth, markup):
    name = rng.choice(BLOCKS if markup == "xml" else ("div", "section"))
    inside = "".join(
        _block(rng, depth - 1, markup) if depth and rng.random() < 0.5 else _text(rng, markup)
        for _ in range(rng.randint(1, 3))
    )
    return f"<{name}{_attributes(rng)}>\n{inside}\n</{name}>"


def _text(rng, markup):
    name = rng.choice(("p", "p", "pre") if markup == "html" else ("p",))
    return f"<{name}{_white_space(rng, markup)}>{_inline(rng, 3, markup)}</{name}>"


def _inline(rng, depth, markup):
    chunks = []
    for _ in range(rng.randint(0, 6)):
        kind = rng.random()
        if kind < 0.6 or not depth:
            words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5)))
            chunks.append(words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
        elif kind < 0.8:
            name = rng.choice(INLINE)
            inside = _inline(rng, depth - 1, markup)
            attributes = _attributes(rng) + _white_space(rng, markup)
            # Significant line feeds make it a block, which would count as a tag inside a word.
            beside = " " if "\n" in inside else ""
            chunks.append(f"{beside}<{name}{attributes}>{inside}</{name}>{beside}")
        elif kind < 0.9:
            slash = "/" if markup == "xml" else ""
            chunks.append(f"<{rng.choice(EMPTY)}{_attributes(rng)}{slash}>")
        else:
            chunks.append(rng.choice(("<!-- c -->", "<!--\n-->", "<code>f(x)</code>",
                                      "<code>f(\nx)</code>", '<i translate="no">\n<b>x</b></i>',
                                      '<span translate="no">Brand</span>')))  # fmt: skip
        chunks.append(rng.choice(("", " ", " ", "\n", "\n  ")))
    return "".join(chunks)


def _attributes(rng):
    return rng.choice(("", ' id="1"', ' title=\'a &gt; "b"\' class="x"', '\n  lang="en"'))


def _white_space(rng, markup):
    """Returns an attribute that says whether white space is significant."""
    if markup == "html":
        return ""
    return rng.choice(("", "", ' xml:space="preserve"', ' xml:space="default"'))


class _Tags(HTMLParser):
    """Counts tags, and finds those that are not nested."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: collections.Counter = collections.Counter()
        self.is_nested = True

    def handle_starttag(self, tag, attrs):
        self.tags[tag, tuple(attrs)] += 1
        if tag not in VOIDS and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        if tag in VOIDS:
            return
        self.is_nested = self.is_nested and bool(self.open) and self.open.pop() == tag


def html_faults(document: str, translated: str) -> list[str]:
    """Returns what is wrong with the translation of a well-formed document."""
    found = []
    for text in (document, translated):
        tags = _Tags()
        tags.feed(text)
        tags.close()
        found.append(tags)
    before, after = found
    faults = [] if after.is_nested and not after.open else ["not nested"]
    return faults + _other_tags(before.tags, after.tags) + _emptied(document, translated)


def xml_faults(document: str, translated: str) -> list[str]:
    """Returns what is wrong with the translation of a document."""
    try:
        after = ElementTree.fromstring(translated.encode())
    except ElementTree.ParseError as error:
        return [f"not well-formed: {error}"]
    tags = [collections.Counter((x.tag, tuple(x.attrib.items())) for x in root.iter())
            for root in (ElementTree.fromstring(document.encode()), after)]  # fmt: skip
    return _other_tags(*tags) + _emptied(document, translated)


def _other_tags(before: collections.Counter, after: collections.Counter) -> list[str]:
    """Returns a fault if tags were added, or others were lost than those of inline elements."""
    lost = {name for name, _ in before - after}
    return ["other tags"] if after - before or lost - set(INLINE) else []


def _emptied(document: str, translated: str) -> list[str]:
    """Returns a fault if there are more inline elements without any content than before."""
    pattern = re.compile(rf"<({'|'.join(INLINE)})(?: [^>]*|\n[^>]*)?></\1>")
    numbers = [len(pattern.findall(text)) for text in (document, translated)]
    return ["emptied element"] if numbers[1] > numbers[0] else []


def tags_inside_words(translated: str) -> int:
    """Returns how many inline tags stand between two letters, but for pictures, which end words."""
    return len(re.findall(r"[a-zA-Z]</?(?:a|b|em|i|u|wbr)(?: [^>]*)?>[a-zA-Z]", translated))


def fuzz(num_documents: int, seed: int) -> dict[str, int]:
    """Translates random documents; returns how many had which fault."""
    rng = random.Random(seed)
    counts: collections.Counter = collections.Counter()
    for number in range(num_documents):
        kind = ("html", "xml", "soup")[number % 3]
        markup = "html" if kind == "soup" else kind
        if kind == "soup":
            parts = (*SOUP, *WORDS, " a ")
            document = "".join(rng.choice(parts) for _ in range(rng.randint(1, 40)))
        else:
            document = random_document(rng, markup)
        translator = MarkupTranslator(reordering_translator(rng, 0.2), markup=markup)
        translated = translator.translate(document)
        counts[kind] += 1
        faults = soup_faults(translated) if kind == "soup" else (
            (xml_faults if kind == "xml" else html_faults)(document, translated)
        )  # fmt: skip
        if kind != "soup" and tags_inside_words(translated) > tags_inside_words(document):
            faults.append("tag inside a word")
        for fault in faults:
            counts[f"{kind}: {fault}"] += 1
    return dict(counts)


def soup_faults(translated: str) -> list[str]:
    """Returns whether a second pass over a translation finds anything left to repair."""
    identity = MarkupTranslator(lambda texts: [AlignedTranslation(text) for text in texts])
    first = identity.translate(translated)
    return [] if identity.translate(first) == first else ["changes when repaired again"]


Marked = tuple[list[str], int, int, set[int]]  # words, first and end of the element, true words


def score(translator: MarkupTranslator, marked: list[Marked], references=None) -> dict[str, float]:
    """Marks words, translates them, and compares the places of the elements with the true ones.

    Args:
        translator: a translator of XML.
        marked: the words of each sentence, which of them are marked, and their true places.
        references: translations for which the places are true; None accepts any.
    """
    lines = [_mark(words, first, end) for words, first, end, _ in marked]
    document = f"<d><p>{'</p><p>'.join(lines)}</p></d>"
    found = ElementTree.fromstring(translator.translate(document))
    hits = predicted = true = exact = used = 0
    for index, (paragraph, (*_, words)) in enumerate(zip(found, marked, strict=True)):
        if references and "".join(paragraph.itertext()) != references[index]:
            continue
        used += 1
        places = _places(paragraph)
        hits += len(places & words)
        predicted += len(places)
        true += len(words)
        exact += places == words
    precision, recall = hits / max(predicted, 1), hits / max(true, 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return {"sentences": used, "f1": f1, "precision": precision, "recall": recall,
            "exact": exact / max(used, 1)}  # fmt: skip


def _mark(words, first, end):
    escaped = [x.replace("&", "&amp;").replace("<", "&lt;") for x in words]
    signs = re.search(r"[.,!?:;]*$", escaped[end - 1])[0] if end else ""
    last = escaped[end - 1].removesuffix(signs)
    inside = " ".join([*escaped[first : end - 1], last])
    return " ".join([*escaped[:first], f"<b>{inside}</b>{signs}", *escaped[end:]])


def _places(paragraph) -> set[int]:
    """Returns the indices of the words that the element contains."""
    element = paragraph.find(".//b")
    if element is None:  # none of its words came out
        return set()
    before = paragraph.text or ""
    inside = "".join(element.itertext())
    text = "".join(paragraph.itertext())
    start, end = len(before), len(before) + len(inside)
    return {index for index, match in enumerate(re.finditer(r"\S+", text))
            if match.start() < end and match.end() > start}  # fmt: skip


def known_places(rng, words, links) -> Marked | None:
    """Marks a phrase whose words in the translation are contiguous and come from nothing else."""
    spans = [(first, end) for first in range(len(words))
             for end in range(first + 1, min(first + 6, len(words) + 1))]  # fmt: skip
    rng.shuffle(spans)
    for first, end in spans:
        targets = {j for i, j in links if first <= i < end}
        others = {j for i, j in links if not first <= i < end}
        is_whole = targets and max(targets) - min(targets) + 1 == len(targets)
        if is_whole and not targets & others and all(
            any(i == word for i, _ in links) for word in range(first, end)
        ):  # fmt: skip
            return words, first, end, targets
    return None


def noisy_score(noise: float, num_sentences: int, seed: int) -> dict[str, float]:
    """Returns the score with a translator that moves phrases, and a noisy alignment."""
    rng = random.Random(seed)
    orders, marked = {}, []
    for number in range(num_sentences):
        words = [f"w{number}x{index}" for index in range(rng.randint(4, 30))]
        order = reordering(rng, len(words))
        links = {(i, j) for j, i in enumerate(order)}
        found = known_places(rng, words, links)
        if found:
            orders[" ".join(words)] = order
            marked.append(found)

    def translate(texts):
        for text in texts:
            words, order = text.split(), orders[text]
            links = [(rng.randrange(len(words)) if rng.random() < noise else i, j)
                     for j, i in enumerate(order)]  # fmt: skip
            target = [words[i].swapcase() for i in order]
            yield AlignedTranslation(" ".join(target), [f"▁{x}" for x in words],
                                     [f"▁{x}" for x in target], links)  # fmt: skip

    translator = MarkupTranslator(lambda texts: list(translate(texts)), markup="xml")
    return score(translator, marked)


def model_score(model_dir: pathlib.Path, data: pathlib.Path, most: int) -> dict[str, float]:
    """Returns the score of a model of the demonstration, and the share of equal translations."""
    from export.markup import translate_by_predictor
    from tf_transformer.inference.translator import Translator
    from tf_transformer.predictors.model_predictor import ModelPredictor

    rng = random.Random(1)
    files = [(data / f"test.{name}").read_text(encoding="utf-8").splitlines()[:most]
             for name in ("en", "de", "align")]  # fmt: skip
    marked, references = [], []
    for number, (source, target, line) in enumerate(zip(*files, strict=True), 1):
        found = known_places(rng, source.split(), parse_links(line, f"test.align:{number}"))
        if found:
            marked.append(found)
            references.append(target)
    translate = translate_by_predictor(ModelPredictor.of(Translator.load(model_dir)))
    translator = MarkupTranslator(translate, markup="xml")
    return {"marked": len(marked)} | score(translator, marked, references)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=0)
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model-dir", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    options = parser.parse_args()
    if options.model_dir and not options.data:
        parser.error("--model-dir needs --data, the folder of the demonstration's data")
    if options.model_dir:
        print("model", model_score(options.model_dir, options.data, options.sentences))
        return
    if options.documents:
        start = time.process_time()
        found = fuzz(options.documents, options.seed)
        cells = [*map(str, found.values()), f"{time.process_time() - start:.0f}"]
        titles = [*found, "processor time, s"]
        rule = "|" + "---|" * len(cells)
        print(f"| {' | '.join(titles)} |\n{rule}\n| {' | '.join(cells)} |", flush=True)
        return
    for noise in NOISE:
        found = noisy_score(noise, options.sentences, options.seed)
        print(f"noise {noise:.0%}:", {name: round(value, 4) for name, value in found.items()})


if __name__ == "__main__":
    main()
