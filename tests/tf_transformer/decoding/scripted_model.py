"""A step function with scripted probabilities, and in plain Python what a search in it finds."""

import functools
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

PAD, BEGIN, END = 0, 1, 2
NUM_CODES = 65521  # prime


class ScriptedModel:
    """Its logits are looked up by a code of row and prefix, which only the cache carries.

    So a cache that belongs to another parent gives other logits, and every probability can be
    recomputed in NumPy.

    Args:
        vocab_size: tokens.
        biases: pairs of an id and what is added to all its logits.
        end_id: ends a hypothesis.
        decided: share of the prefixes after which one token, never pad or begin, is almost certain.
    """

    def __init__(self, vocab_size, biases=(), end_id=END, decided=0.0):
        rng = np.random.default_rng(vocab_size)
        scale = rng.uniform(0.5, 4.0, (NUM_CODES, 1))
        table = rng.normal(size=(NUM_CODES, vocab_size)) * scale
        for token, bias in biases:
            table[:, token] += bias
        certain = rng.integers(2, vocab_size, NUM_CODES)
        table[np.arange(NUM_CODES), certain] += 20.0 * (rng.random(NUM_CODES) < decided)
        self.table = table.astype(np.float32)
        self.end_id = end_id

    @functools.cached_property
    def log_prob_table(self):
        logits = self.table.astype(np.float64)
        largest = logits.max(axis=1, keepdims=True)
        return logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))

    def log_probs(self, row, ids):
        """Log-probabilities of the token after `ids`, `(vocab,)` float64."""
        code = row
        for token in (BEGIN, *ids):
            code = next_code(code, token)
        return self.log_prob_table[code]

    def output_log_prob(self, row, ids):
        """log p(ids, end | row)."""
        tokens = (*ids, self.end_id)
        return sum(self.log_probs(row, ids[:i])[token] for i, token in enumerate(tokens))


scripted_model = functools.cache(ScriptedModel)


def next_code(code, token):
    return (code * 1103 + token + 1) % NUM_CODES


def first_cache(rows, beam_size):
    codes = tf.repeat(rows[:, tf.newaxis], beam_size, axis=1)
    return {"codes": codes, "inputs": (tf.zeros((tf.shape(rows)[0], beam_size, 0), tf.int32),)}


def step_function(table):
    """The model as a step function; its cache also keeps all inputs, on an axis that grows."""

    def step(newest, cache):
        codes = next_code(cache["codes"], newest)
        inputs = tf.concat([cache["inputs"][0], newest[:, :, tf.newaxis]], axis=2)
        return tf.gather(table, codes), {"codes": codes, "inputs": (inputs,)}

    return step


class ScriptedSteps:
    """A step function as a `StepModel`: its cache is reordered as the search says.

    Args:
        step: maps the newest tokens, `(rows, beam)`, and a nest of `(rows, beam, ...)` to the
            logits and the new nest.
    """

    compaction_interval = 8

    def __init__(self, step):
        self.step = step

    def decode_step(self, newest, parents, position, state, return_attention=False):
        state = tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), state)
        logits, state = self.step(newest, state)
        return logits, None, state

    def select_rows(self, rows, alive, parents, position, state):
        return tf.nest.map_structure(lambda x: tf.gather(x, rows), state)


# ---- What a search should find, in plain Python. ----


class Output(NamedTuple):
    score: float
    log_prob: float
    ids: tuple[int, ...]


def output(log_prob, ids, alpha):
    return Output(log_prob / ((5 + len(ids) + 1) / 6) ** alpha, log_prob, ids)


def extensions(model, row, ids, max_length, suppressed_ids):
    """Every token that may follow, with its log-probability."""
    for token, log_prob in enumerate(model.log_probs(row, ids).tolist()):
        must_end = len(ids) == max_length
        if token not in suppressed_ids and (token == model.end_id or not must_end):
            yield token, log_prob


def all_outputs(model, row, max_length, alpha, suppressed_ids):
    """Every possible output, best first."""
    found = []

    def extend(ids, log_prob):
        for token, token_log_prob in extensions(model, row, ids, max_length, suppressed_ids):
            if token == model.end_id:
                found.append(output(log_prob + token_log_prob, ids, alpha))
            elif token_log_prob > -math.inf:
                extend((*ids, token), log_prob + token_log_prob)

    extend((), 0.0)
    return sorted(found, reverse=True)


def plain_beam_search(model, row, max_length, alpha, suppressed_ids, beam_size):
    """Beam search as its docstring says, without any early stop.

    Returns:
        finished outputs, best first, and the live prefixes at the begin of each step.
    """
    live, finished, visited = [(0.0, ())], [], []
    while live:
        visited.append([ids for _, ids in live])
        candidates = sorted(
            (
                (log_prob + token_log_prob, ids, token)
                for log_prob, ids in live
                for token, token_log_prob in extensions(model, row, ids, max_length, suppressed_ids)
            ),
            reverse=True,
        )
        live = []
        for log_prob, ids, token in candidates[: beam_size - len(finished)]:
            if token == model.end_id:
                finished.append(output(log_prob, ids, alpha))
            else:
                live.append((log_prob, (*ids, token)))
    return sorted(finished, reverse=True), visited


def plain_greedy_search(model, row, max_length, alpha, suppressed_ids):
    ids, log_prob = (), 0.0
    while True:
        candidates = extensions(model, row, ids, max_length, suppressed_ids)
        token, token_log_prob = max(candidates, key=lambda pair: pair[1])
        log_prob += token_log_prob
        if token == model.end_id:
            return output(log_prob, ids, alpha)
        ids = (*ids, token)
