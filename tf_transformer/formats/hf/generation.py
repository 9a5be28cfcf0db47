"""Settings of Transformers' `generate` that change what a model writes.

They are in `generation_config.json`; those that it lacks, in `config.json`, as older versions of
Transformers read them.
"""

from collections.abc import Iterator
from typing import Any

from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.folder import FolderFiles
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.text.special_ids import END_ID, SUPPRESSED_IDS

FORCED_BEGIN = "forced_bos_token_id"
# Ids that are never produced.
_BANNED, _BANNED_SEQUENCES = "suppress_tokens", "bad_words_ids"
# What no model here can hold, and no search here can do.
_REFUSED = ("begin_suppress_tokens", "forced_decoder_ids", "sequence_bias", "force_words_ids")
# Options of a search, which belong to each translation here, and their values without effect.
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "num_beams": (DEFAULT_BEAM_SIZE,),
    "length_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "exponential_decay_length_penalty": (),
    "do_sample": (False,),
}


class Generation:
    """The settings of a folder.

    Args:
        files: the contents of its files.

    Raises:
        InputError: a setting is not supported.
    """

    def __init__(self, files: FolderFiles):
        self._folder = files.folder
        values = files.config | files.generation
        self._values = {name: value for name, value in values.items() if value is not None}
        for name in _REFUSED:
            if self._values.get(name):
                raise self._not_supported(name)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user must know of options, a sentence, for `ImportedModel`."""
        options = [
            f"{name}={shown(self._values[name])}"
            for name, neutral in _OPTIONS.items()
            if name in self._values and self._values[name] not in neutral
        ]
        if not options:
            return ()
        return (
            f"the original's search has {', '.join(options)}; options of a search are no part of "
            "a model here, but given for each translation",
        )

    def forced_begin(self) -> int | None:
        """Returns the id that every output begins with; None if there is none.

        Raises:
            InputError: it is no id.
        """
        token_id = self._values.get(FORCED_BEGIN)
        if token_id is not None and type(token_id) is not int:
            raise self._not_supported(FORCED_BEGIN)
        return token_id

    def check_no_forced_begin(self) -> None:
        """Raises an error if outputs must begin with an id, which the search here cannot do."""
        if self.forced_begin() is not None:
            raise self._not_supported(FORCED_BEGIN)

    def ban(self, target: VocabularyRows) -> VocabularyRows:
        """Returns the vocabulary of the target without the outputs that are never produced.

        Args:
            target: the vocabulary.

        Raises:
            InputError: sequences of several ids are banned, or the end.
        """
        ids = {int(row): token_id for token_id, row in enumerate(target.rows)}
        banned = set()
        for row, name in self._banned():
            if type(row) is not int or not 0 <= row < target.original_size:
                raise self._not_supported(name)
            if ids[row] == END_ID and name == _BANNED:
                raise self._not_supported(name)
            banned.add(ids[row])
        # The search produces none of the special ids but the end, which words cannot ban.
        others = sorted(banned - {*SUPPRESSED_IDS, END_ID, *target.added})
        return target._replace(added=(*target.added, *others))

    def _banned(self) -> Iterator[tuple[Any, str]]:
        for name in (_BANNED, _BANNED_SEQUENCES):
            found = self._values.get(name, [])
            if not isinstance(found, list):
                raise self._not_supported(name)
            for entry in found:
                if name == _BANNED:
                    yield entry, name
                elif isinstance(entry, list) and len(entry) == 1:
                    yield entry[0], name
                else:
                    raise self._not_supported(name)

    def _not_supported(self, name: str) -> InputError:
        return InputError(
            f"{self._folder}: {name}={shown(self._values[name])} is not supported; without it in "
            "generation_config.json and config.json, the model is imported, and its outputs differ"
        )
