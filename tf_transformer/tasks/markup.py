"""Translations with the alignments by which tags of markup are put back, with and without terms."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.align import PIECES
from tf_transformer.tasks.task import (
    KEEP_CAPITALS,
    SCORE,
    TEXT,
    TRANSLATION,
    TRUNCATED,
    Input,
    Output,
    Task,
)
from tf_transformer.tasks.terms import IGNORED, PHRASES, UNMET

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate_markup(
    parts: "Parts",
    text: Any,
    terms: Any = None,
    protect: Any = None,
    keep_capitals: Any = None,
    is_english: Any = False,
    **options: Any,
) -> dict[str, Any]:
    """Translates and aligns sentences of documents, with each row's terms if there are any."""
    import tensorflow as tf

    from tf_transformer.documents.source_sentences import (
        Phrases,
        restore_sentences,
        source_sentences,
        split_tags,
    )

    translator, search = parts.translator, parts.search_options(options)
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", replace_control_characters=False)
    tags, sentences = split_tags(translator, text)
    rows = tf.range(tf.size(text))
    restores = tf.fill(tf.shape(text), True) if keep_capitals is None else ~keep_capitals
    phrases = None if terms is None else Phrases(terms, protect)
    given = source_sentences(translator, sentences, restores, is_english, phrases, rows)
    source = tf.where(given.is_translated, tf.strings.join([tags, given.text]), "")
    lacking = {}
    if phrases is None:
        found = parts.aligner.align(source, search)
    else:
        written = parts.constrained.translate_in_graph(source, given.terms, given.protect, search)
        found = parts.aligner.align_pairs(source, written.text)._replace(scores=written.scores)
        num_ignored = written.num_ignored + given.num_ignored
        lacking = {"terms_unmet": written.unmet, "terms_ignored": num_ignored}
    return {
        "translation": restore_sentences(translator, source, found.text, sentences, given),
        "score": found.scores,
        "source_pieces": found.source_pieces,
        "target_pieces": found.target_pieces,
        "hard_alignment": found.hard,
        "truncated": found.truncated,
        "copied": ~given.is_translated,
        **lacking,
    }


_IS_ENGLISH = Input("is_english", "bool", "whether a word i in lower case is written I")
_OUTPUTS = (
    TRANSLATION,
    SCORE,
    *PIECES,
    TRUNCATED,
    Output("copied", "bool", "whether the text depends on no language"),
)

TRANSLATE_MARKUP = Task(
    "markup",
    "the translation of a sentence of a page, and which pieces of both sides belong together",
    (TEXT,),
    _OUTPUTS,
    translate_markup,
    "markup",
    "markup_options",
    flags=(KEEP_CAPITALS, _IS_ENGLISH),
    is_optional=True,
)
TRANSLATE_MARKUP_WITH_TERMS = Task(
    "markup_terms",
    "the same as `markup`, with a translation that contains given phrases",
    (TEXT, *PHRASES),
    (*_OUTPUTS, UNMET, IGNORED),
    translate_markup,
    with_options="markup_terms",
    flags=(KEEP_CAPITALS, _IS_ENGLISH),
    is_optional=True,
)
