"""Training SentencePiece models from a corpus."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import sentencepiece

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import language_tag
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tf_transformer.text.text_file import TextFile
from training.config import VocabularyConfig

# Sentences that SentencePiece draws at random from larger corpora, to bound its memory.
MAX_SENTENCES = 2_000_000


def train_vocabularies(
    sources: Sequence[TextFile],
    targets: Sequence[TextFile],
    config: VocabularyConfig,
    read: Callable[[Sequence[TextFile]], Iterable[str]] | None = None,
) -> tuple[bytes | None, bytes]:
    """Trains one model for both sides, or one for each.

    Args:
        sources, targets: files of each side; a language model has no sources.
        config: of the vocabulary.
        read: chooses the lines of files to train on; None takes all.

    Returns:
        The serialised SentencePiece models of source and target, equal when joint; None for the
        source of a language model.

    Raises:
        ValueError: the corpus cannot fill the vocabulary.
    """

    def train(files, tags=()):
        return train_sentencepiece((read or _all_lines)(files), config, tags)

    if not sources:
        return None, train(targets)
    tags = [language_tag(language) for language in config.languages]
    if config.joint:
        model = train([*sources, *targets], tags)
        return model, model
    return train(sources, tags), train(targets)


def _all_lines(files: Sequence[TextFile]) -> Iterator[str]:
    for file in files:
        yield from file.lines()


def train_sentencepiece(
    lines: Iterable[str], config: VocabularyConfig, tags: Sequence[str] = ()
) -> bytes:
    """Trains one SentencePiece model with the project's special ids; tags are never split.

    Raises:
        ValueError: the text cannot fill the vocabulary; says what size it can fill.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            split_digits=config.split_digits,
            normalization_rule_name=config.normalization,
            # A char model holds the characters there are; the size is its upper limit.
            hard_vocab_limit=config.kind == "bpe",
            pad_id=PAD_ID,
            unk_id=UNKNOWN_ID,
            bos_id=BEGIN_ID,
            eos_id=END_ID,
            user_defined_symbols=list(tags),
            input_sentence_size=MAX_SENTENCES,
            shuffle_input_sentence=True,
            max_sentence_length=65_536,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(_explain(error, config)) from error
    return model.getvalue()


def _explain(error: RuntimeError, config: VocabularyConfig) -> str:
    limit = re.search(r"value <= (\d+)", str(error))
    if limit:
        return (
            f"the corpus is too small for a vocabulary of {config.size} {config.kind} pieces: "
            f"it fills at most {limit[1]}; set --vocab-size {limit[1]} or less"
        )
    characters = re.search(r"required_chars. \d+ vs (\d+)", str(error))
    if characters:
        return (
            f"a vocabulary of {config.size} pieces is too small for the corpus's characters"
            f"{' and the 256 bytes' if config.byte_fallback else ''}: set --vocab-size "
            f"{characters[1]} or more"
        )
    if "all_chars_count" in str(error):
        return "the corpus holds nothing but blanks"
    reason = str(error).rpartition("] ")[2] or str(error)
    return f"no vocabulary of {config.size} {config.kind} pieces can be trained: {reason.strip()}"
