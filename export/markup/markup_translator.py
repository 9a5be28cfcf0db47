"""Translates documents with markup."""

import bisect
import collections
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from export.markup.aligned_translation import AlignedTranslation, TranslateTexts
from export.markup.asides import Aside, fold_asides
from export.markup.assembly import assemble
from export.markup.attributes import translatable_tags, translatable_values, with_values
from export.markup.parsing.encodings import decode_document
from export.markup.parsing.html_parsing import parse_html
from export.markup.parsing.tokens import Kind, Token
from export.markup.parsing.xml_parsing import parse_xml
from export.markup.placement import Placement
from export.markup.segment_text import SegmentText, Split, segment_text
from export.markup.segmentation import Segment, are_translatable, segments
from export.markup.structure import root_name
from export.markup.whole_words import WholeWord
from export.markup.word_links import WordLinks, words_with_links
from export.markup.words import Span, is_inside_word, overlapping, split_words
from tf_transformer.documents.sentence_splitter import sentence_splitter, space_between
from tf_transformer.errors import InputError
from tf_transformer.printable import shown

MARKUPS = ("html", "xml")
MAX_BYTES, MAX_DEPTH = 2**25, 2**17
# If a text has more different atoms, the translator reads none, so that time is bounded.
_MAX_ATOMS = 200
_CONTEXT = 16  # characters of a text that show whether a word goes on
_SPLIT_SENTENCES = sentence_splitter()
# What replaces the copies of its text in a translation.
_COPIED = (Kind.ATOM, Kind.WORD)


class TranslatedDocument(NamedTuple):
    """A translated document.

    Attributes:
        data: its bytes, in the encoding of the source.
        num_texts: number of different texts that were translated.
        num_truncated: how many of them exceeded the model's limit and were truncated.
        num_incomplete: how many of the translations lack a term or a protected span.
    """

    data: bytes
    num_texts: int
    num_truncated: int
    num_incomplete: int


class MarkupTranslator:
    """Translates HTML and XML, and puts the tags back in their places.

        with Client("localhost:8501") as client:
            translator = MarkupTranslator(translate_by_predictor(client))
            translator.translate("<p>The <b>red</b> house.</p>")

    Each sentence of a block is translated on its own. Inline elements are put back by the word
    alignment, see `Placement`. All else is copied: marks such as those of footnotes, which stay
    behind their words, see `join_small_parts`; tags with their attributes,
    comments, white space between blocks, scripts, `<code>`, what `translate="no"` or the class
    `notranslate` marks. Each tag comes back once, none inside a word; the result is well-formed.

    Args:
        translate: translates plain texts, see `translate_by_predictor`.
        markup: "html", for documents and fragments, or "xml".
        attributes: names of attributes whose values are translated too, such as `alt` and `title`.
        split: splits the text of a block into parts that are translated on their own; None leaves
            it whole. The default is `sentence_splitter()`.
        are_translatable: returns which texts to translate; the others are copied, as are those of
            which `translate` copies all parts.
        max_bytes: the largest document to accept.
        max_depth: the deepest nesting of elements to accept.

    Raises:
        InputError: the markup is neither of the two.
    """

    def __init__(
        self,
        translate: TranslateTexts,
        *,
        markup: str = "html",
        attributes: Collection[str] = (),
        split: Split | None = _SPLIT_SENTENCES,
        are_translatable: Callable[[Sequence[str]], Sequence[bool]] = are_translatable,
        max_bytes: int = MAX_BYTES,
        max_depth: int = MAX_DEPTH,
    ):
        if markup not in MARKUPS:
            raise InputError(f"`markup` must be one of {MARKUPS}. Received: {shown(markup)}")
        self._translate = translate
        self._markup = markup
        self._attributes = frozenset(name.lower() for name in attributes)
        self._split = split
        self._are_translatable = are_translatable
        self._max_bytes, self._max_depth = max_bytes, max_depth

    def translate(self, document: str) -> str:
        """Translates a document.

        Raises:
            InputError: as `translate_bytes`.
        """
        try:
            self._check_size(len(document.encode()))
        except UnicodeEncodeError as error:
            raise InputError(
                f"expected Unicode characters. Received: a surrogate at {error.start}"
            ) from error
        return self._translated(document)[0]

    def translate_bytes(self, document: bytes) -> TranslatedDocument:
        """Translates a document in the encoding that it declares.

        Raises:
            InputError: the document is larger or nested deeper than accepted, is XML that is not
                well-formed or declares entities, has an unknown encoding, the package for HTML is
                not installed, or `translate` or `split` do not return what they must.
        """
        self._check_size(len(document))
        text, encoding = decode_document(document, self._markup)
        translated, found = self._translated(text)
        return TranslatedDocument(
            encoding.encode(translated),
            num_texts=sum(not x.copied for x in found),
            num_truncated=sum(x.truncated for x in found),
            num_incomplete=sum(x.incomplete for x in found),
        )

    def _check_size(self, num_bytes):
        if num_bytes > self._max_bytes:
            raise InputError(
                f"expected a document of at most {self._max_bytes:,} bytes. Received: {num_bytes:,}"
            )

    def _translated(self, document: str) -> tuple[str, Collection[AlignedTranslation]]:
        """Returns the translation, and those of its texts."""
        parse = parse_html if self._markup == "html" else parse_xml
        tokens = parse(document, self._max_depth)
        if root_name(tokens) == "xliff":
            raise InputError(
                "expected a document. Received: XLIFF, which has translations beside its sources"
            )
        cache = _Cache(self._translate)
        if self._attributes:
            self._translate_attributes(tokens, cache)
        is_html = self._markup == "html" or root_name(tokens) == "html"
        (translated,) = self._translated_tokens([tokens], is_html, cache, depth=0)
        num_lines = document.count("\n")
        if self._markup == "html" and num_lines and document.count("\r\n") == num_lines:
            translated = translated.replace("\n", "\r\n")
        return translated, cache.found.values()

    def _translated_tokens(
        self, documents: Sequence[Sequence[Token]], is_html: bool, cache: "_Cache", depth: int
    ) -> list[str]:
        """Returns the translations of documents, those of the asides in them first."""
        folded = [fold_asides(tokens, is_html, depth) for tokens in documents]
        asides = [token for tokens in folded for token in tokens if isinstance(token, Aside)]
        if asides:
            contents = [aside.content for aside in asides]
            translations = self._translated_tokens(contents, is_html, cache, depth + 1)
            for aside, translation in zip(asides, translations, strict=True):
                aside.set_content(translation)
        numbered = [
            (number, part)
            for number, tokens in enumerate(folded)
            for part in segments(tokens, is_html)
        ]
        parts = self._without_copied([part for _, part in numbered])
        texts = [segment_text(x, self._split) for x in parts if isinstance(x, Segment)]
        cache.add(text.text[span.start : span.end] for text in texts for span in text.parts)
        parts, texts = _copy_segments(parts, texts, cache)
        rows = iter(self._without_lost_atoms(parts, texts, cache))
        translated: list[list[str]] = [[] for _ in documents]
        for (number, _), part in zip(numbered, parts, strict=True):
            translated[number].append(
                part if isinstance(part, str) else _translated_segment(next(rows), cache)
            )
        return ["".join(chunks) for chunks in translated]

    def _without_copied(self, parts: list[str | Segment]) -> list[str | Segment]:
        """Replaces segments that are not to be translated by their sources."""
        texts = [part.text for part in parts if isinstance(part, Segment)]
        flags = iter(self._are_translatable(texts) if texts else ())
        return [part if isinstance(part, str) or next(flags) else part.source for part in parts]

    def _without_lost_atoms(self, parts, texts, cache) -> list[SegmentText]:
        """Translates texts again without the atoms that the translation has no copy of.

        So nothing but copies of atoms is ever removed from a translation.
        """
        found = []
        for segment, text in zip((x for x in parts if isinstance(x, Segment)), texts, strict=True):
            translation = " ".join(
                cache.found[text.text[span.start : span.end]].text for span in text.parts
            )
            if _remove_lost_atoms(segment, translation):
                text = segment_text(segment, self._split)
            found.append(text)
        cache.add(text.text[span.start : span.end] for text in found for span in text.parts)
        return found

    def _translate_attributes(self, tokens: Sequence[Token], cache: "_Cache") -> None:
        tags = list(translatable_tags(tokens, self._attributes))
        cache.add(value for tag in tags for value in translatable_values(tag, self._attributes))
        texts = {text: found.text for text, found in cache.found.items()}
        for tag in tags:
            tag.source = with_values(tag.source, self._attributes, texts)


def _copy_segments(
    parts: list[str | Segment], texts: list[SegmentText], cache: "_Cache"
) -> tuple[list[str | Segment], list[SegmentText]]:
    """Replaces segments of which the translator copied all parts by their sources."""
    found: list[str | Segment] = []
    kept, rows = [], iter(texts)
    for part in parts:
        if isinstance(part, Segment):
            text = next(rows)
            sources = [text.text[span.start : span.end] for span in text.parts]
            if sources and all(cache.found[source].copied for source in sources):
                part = part.source
            else:
                kept.append(text)
        found.append(part)
    return found, kept


def _remove_lost_atoms(segment: Segment, translation: str) -> bool:
    """Removes the text of atoms without copies of their own; returns whether it did.

    These are atoms that a translation has too few copies of, that are part of a word, or whose text
    is also in another atom: it cannot be told then which copy is that of which atom. Words with
    raised or lowered parts lose their tags instead.
    """
    atoms = collections.Counter(
        token.text for token in segment.tokens if token.kind in _COPIED and token.text
    )
    if not atoms:
        return False
    lost = set(atoms)
    if len(atoms) <= _MAX_ATOMS:
        words = _words_of(translation)
        copies = {text: _words_of(text) for text in atoms}
        lost = _parts_of_words(segment) | {
            text
            for text, copy in copies.items()
            if not copy
            or _count(copy, words) < atoms[text]
            or any(_count(copy, other) for name, other in copies.items() if name != text)
        }
    tokens: list[Token] = []
    for token in segment.tokens:
        if isinstance(token, WholeWord) and token.text in lost:
            tokens += token.flat_tokens
            continue
        if token.kind is Kind.ATOM and token.text in lost:
            token.hidden, token.text = token.text, ""
        tokens.append(token)
    segment.tokens = tokens
    return bool(lost)


def _words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


def _count(copy: Sequence[str], words: Sequence[str]) -> int:
    """Counts how often words follow each other in others, without overlaps."""
    number, index = 0, 0
    while index + len(copy) <= len(words):
        if words[index : index + len(copy)] == copy:
            number += 1
            index += len(copy)
        else:
            index += 1
    return number


def _parts_of_words(segment: Segment) -> set[str]:
    """Returns the texts of atoms that a word goes on before or after, as in `<code>x</code>s`."""
    found = set()
    before, atom, before_atom = "", "", ""  # the text before, and an atom that has just been read
    for token in [*segment.tokens, Token(Kind.TEXT, "", text=" ")]:
        if token.text:
            own = before_atom + atom + token.text[:_CONTEXT]
            ends = (len(before_atom), len(before_atom) + len(atom))
            if atom and any(is_inside_word(own, end) for end in ends):
                found.add(atom)
            atom, before_atom = (token.text, before) if token.kind in _COPIED else ("", "")
            before = token.text[-_CONTEXT:]
    return found


class _Cache:
    """The translations of a document's texts, each of which is translated once.

    Attributes:
        found: the translations by text.
    """

    def __init__(self, translate: TranslateTexts):
        self.found: dict[str, AlignedTranslation] = {}
        self._translate = translate

    def add(self, texts: Iterable[str]) -> None:
        """Translates texts that are new."""
        new = list(dict.fromkeys(text for text in texts if text not in self.found))
        translations = self._translate(new) if new else []
        if len(translations) != len(new):
            raise InputError(
                "`translate` must return a translation of each text. Received: "
                f"{len(translations)} for {len(new)}"
            )
        self.found.update(zip(new, translations, strict=True))


def _translated_segment(segment: SegmentText, cache: _Cache) -> str:
    """Returns the translation of a segment with its tags."""
    text, links = "", WordLinks()
    words: list[Span] = []
    end, first_word = 0, 0
    starts: dict[int, int] = {}
    for part in segment.parts:
        source = segment.text[part.start : part.end]
        num_words = len(overlapping(segment.words, part))
        source_words = [
            Span(word.start - part.start, word.end - part.start)
            for word in segment.words[first_word : first_word + num_words]
        ]
        found = cache.found[source]
        found = found._replace(text=found.text.strip())
        if text and found.text:
            touches = end == part.start and part.start in segment.breaks
            text += "" if touches else space_between(text, segment.text[end : part.start])[:1]
        own, end_own = (
            bisect.bisect_left(segment.joined, word, key=lambda span: span.start)
            for word in (first_word, first_word + num_words)
        )
        joined = [Span(a - first_word, b - first_word) for a, b in segment.joined[own:end_own]]
        target_words, part_links = words_with_links(source, source_words, joined, found)
        starts[first_word] = len(words)
        links += (
            {first_word + word: share for word, share in of_word.items()} for of_word in part_links
        )
        words += (Span(len(text) + start, len(text) + end) for start, end in target_words)
        text += found.text
        end, first_word = part.end, first_word + num_words
    placement = Placement(links, [text[a:b] for a, b in words], len(segment.words), starts)
    places = placement.place(segment.root)
    translated = assemble(segment.root, places, text, words)
    return f"{segment.before}{translated}{segment.after}"
