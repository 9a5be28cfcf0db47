"""The beam search of one sentence, recorded step by step."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from tf_transformer.decoding.beam_search import Search
from tf_transformer.decoding.logits_processing import IMPOSSIBLE
from tf_transformer.decoding.search_interface import length_penalty, scored_length
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.inspection import tokenize_sentence
from tf_transformer.inference.translator import Translator
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import END_ID

Ids = tuple[int, ...]


class Candidate(NamedTuple):
    """An extension of a hypothesis by one token.

    Attributes:
        ids: the hypothesis with the new token, which is the end id if it ends.
        token_log_prob: log-probability of the new token; 0 for one that is forced, such as a tag.
        log_prob: log-probability of all tokens.
        score: what the hypothesis is ranked by, `log_prob` divided by the length penalty, if it
            ends and is kept; else None.
        is_kept: whether it stays in the beam, or ends in it.
    """

    ids: Ids
    token_log_prob: float
    log_prob: float
    score: float | None
    is_kept: bool


@dataclasses.dataclass(frozen=True)
class SearchTree:
    """The hypotheses of a beam search.

    Attributes:
        live: log-probability of every hypothesis that the search extended, by its ids.
        finished: score of the finished hypotheses, by their ids without the end id; best first.
        pieces: the piece of every id.
        steps: the best extensions that each step chose from, best first; those that it kept come
            first.
        num_tags: number of tokens at the start of every hypothesis that are given, the target's
            tags; the length penalty leaves them out.
    """

    live: dict[Ids, float]
    finished: dict[Ids, float]
    pieces: list[str]
    steps: list[list[Candidate]]
    num_tags: int = 0


def record_search(translator: Translator, text: str) -> SearchTree:
    """Translates one sentence and records every hypothesis of the beam.

    Raises:
        InputError: as `tokenize_sentence` or `check_scores`.
    """
    source, _ = tokenize_sentence(translator, text)
    num_tags = translator.model.config.num_target_tags
    tags, source = split_tags(source, num_tags)
    options = TranslationOptions.defaults(1) if num_tags else None
    decoder, state, arguments = translator.search.start(
        end_and_pad(source), options, tags if num_tags else None
    )
    search = _RecordedSearch(
        decoder,
        beam_size=arguments["beam_size"],
        end_ids=tuple(arguments["end_ids"]),
        num_best=arguments["beam_size"],
        suppressed_ids=tuple(arguments["suppressed_ids"]),
    )
    found = search.run(state, arguments["begin_id"], arguments["options"])
    check_scores(found.scores[:, 0])
    finished = {
        tuple(ids[:length].tolist()): float(score)
        for ids, length, score in zip(
            found.ids[0].numpy(), found.lengths[0].numpy(), found.scores[0].numpy(), strict=True
        )
        if score > IMPOSSIBLE
    }
    texts = translator.target_tokenizer.texts
    return SearchTree(search.live, finished, texts, search.steps, num_tags)


def num_candidates(beam_size: int) -> int:
    """Returns the number of candidates of a step to record: the beam, and some that it drops."""
    return beam_size + min(max(beam_size, 4), 16)


@dataclasses.dataclass
class _RecordedSearch(Search):
    """A search of one sentence, in eager mode, that records what it chooses from.

    Attributes:
        live: see `SearchTree`.
        steps: see `SearchTree`.
    """

    live: dict[Ids, float] = dataclasses.field(default_factory=dict)
    steps: list[list[Candidate]] = dataclasses.field(default_factory=list)
    _best_tokens: Any = None

    def candidate_tokens(self, logits, count, state):
        # More tokens of each hypothesis change nothing: the beam has no room for them.
        return super().candidate_tokens(logits, max(count, num_candidates(self.beam_size)), state)

    def best_tokens(self, logits, rows, step, state):
        self._best_tokens = super().best_tokens(logits, rows, step, state)
        return self._best_tokens

    def choose_extensions(self, logits, rows, step, state):
        chosen = super().choose_extensions(logits, rows, step, state)
        hypotheses = [tuple(ids) for ids in rows.ids[0].numpy().tolist()]
        log_probs = rows.log_probs[0].numpy()
        self.live |= {
            ids: float(log_prob)
            for ids, log_prob in zip(hypotheses, log_probs, strict=True)
            if log_prob > IMPOSSIBLE
        }
        length = scored_length(rows.options, step + 1)
        penalty = length_penalty(length, rows.options.length_penalty).numpy()[0]
        num_kept = int(np.count_nonzero(chosen[0][0].numpy() > IMPOSSIBLE))
        self.steps.append(self._candidates(hypotheses, log_probs, penalty, num_kept))
        return chosen

    def _candidates(self, hypotheses, log_probs, penalty, num_kept):
        """Returns the best extensions of the hypotheses, of which the step keeps the first."""
        token_ids, token_log_probs = (part[0].numpy() for part in self._best_tokens)
        extended = (log_probs[:, np.newaxis] + token_log_probs).ravel()
        candidates = []
        # In the order of the search's own top-k: of equal ones, the first comes first.
        order = np.argsort(-extended, kind="stable")[: num_candidates(self.beam_size)]
        for rank, index in enumerate(order[extended[order] > IMPOSSIBLE]):
            parent, column = divmod(int(index), token_ids.shape[1])
            token, log_prob = int(token_ids[parent, column]), float(extended[index])
            is_kept = rank < num_kept
            score = float(log_prob / penalty) if is_kept and token == END_ID else None
            candidates.append(
                Candidate(
                    ids=(*hypotheses[parent], token),
                    token_log_prob=float(token_log_probs[parent, column]),
                    log_prob=log_prob,
                    score=score,
                    is_kept=is_kept,
                )
            )
        return candidates
