"""Translations with their alignments, by which tags are put back."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import tqdm

from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.predictor import Predictor

if TYPE_CHECKING:
    from tf_transformer.terms.glossary import Glossary

_PAIR = re.compile("([0-9]{1,6})-([0-9]{1,6})")
_PIECES = ("source_pieces", "target_pieces", "hard_alignment")
_OUTPUTS = ("translation", *_PIECES, "truncated", "copied")


class AlignedTranslation(NamedTuple):
    """A translation of a text, and what its pieces come from.

    Pieces are SentencePiece's, in which `▁` stands for a space, or words. They need not be exactly
    the characters of the texts, see `piece_spans`. Without pieces or links, places in the
    translation are proportional to those in the source.

    Attributes:
        text: the translation.
        source_pieces: pieces of the source, in order.
        target_pieces: pieces of the translation, in order.
        links: pairs (i, j): target piece j comes from source piece i, both counted from 0.
        truncated: whether the source exceeded the model's limit and was truncated.
        incomplete: whether a term or a protected span is missing.
        copied: whether the text depends on no language and is copied.
    """

    text: str
    source_pieces: Sequence[str] = ()
    target_pieces: Sequence[str] = ()
    links: Sequence[tuple[int, int]] = ()
    truncated: bool = False
    incomplete: bool = False
    copied: bool = False


# Plain texts to their translations, as many and in the same order.
TranslateTexts = Callable[[Sequence[str]], Sequence[AlignedTranslation]]


def translate_by_predictor(
    predictor: Predictor,
    options: Mapping[str, Any] | None = None,
    *,
    prepare: Callable[[str], str] = lambda text: text,
    glossary: "Glossary | None" = None,
    protect: int = 0,
    keep_capitals: bool = False,
    is_english: bool = False,
) -> TranslateTexts:
    """Returns a function that translates texts by a model, with a progress bar.

    Args:
        predictor: a model directory, a SavedModel or a server, with the signature `markup` or
            `markup_options`, or `markup_terms` for terms and protected spans.
        options: search options by name, such as `beam_size`; without any, those of the model.
        prepare: adds language tags to a text.
        glossary: terms; None if there are none.
        protect: kinds of spans to copy unchanged, see `protection`.
        keep_capitals: whether texts in capitals are translated as they are; otherwise they are
            translated in sentence case, as by `DocumentTranslator`.
        is_english: whether the texts are English, see `sentence_case`.

    Raises:
        InputError: in the call, there is no such signature, or as `Predictor.predict_batches`.
        OSError: in the call, an alignment is not valid, or as `Predictor.predict_batches`.
    """
    flags = {"keep_capitals": keep_capitals, "is_english": is_english}

    def translate(texts: Sequence[str]) -> list[AlignedTranslation]:
        task, outputs, needed_by = "markup", list(_OUTPUTS), "--markup"
        inputs: dict[str, list] = {"text": list(map(prepare, texts))}
        if glossary or protect:
            task, needed_by = "markup_terms", "--markup with --terms or --protect"
            outputs += ["terms_unmet", "terms_ignored"]
            inputs["terms"] = [glossary.entries_for(x, True) if glossary else "" for x in texts]
            inputs["protect"] = [protect] * len(texts)
        found: list[AlignedTranslation] = []
        batches = answer(predictor, task, inputs, {**(options or {}), **flags}, needed_by=needed_by)
        with tqdm.tqdm(total=len(texts), unit=" texts", disable=None) as progress:
            for batch in batches:
                rows = zip(*(batch[name] for name in outputs), strict=True)
                found += (_aligned_translation(*row) for row in rows)
                progress.update(len(batch["translation"]))
        return found

    return translate


def _aligned_translation(
    text: str,
    source_pieces: str,
    target_pieces: str,
    hard_alignment: str,
    truncated: bool,
    copied: bool,
    unmet: str = "",
    num_ignored: int = 0,
) -> AlignedTranslation:
    """Returns a row of the task `markup_terms`."""
    matches = [_PAIR.fullmatch(word) or _refuse(word) for word in hard_alignment.split()]
    # Not `split()`: a piece may contain another kind of space.
    sources, targets = (x.split(" ") if x else [] for x in (source_pieces, target_pieces))
    links = [(int(match[1]), int(match[2])) for match in matches]
    incomplete = bool(unmet) or num_ignored > 0
    return AlignedTranslation(text, sources, targets, links, truncated, incomplete, copied)


def _refuse(word):
    raise OSError(f"expected a pair i-j of a hard alignment. Received: {word[:80]!r}")
