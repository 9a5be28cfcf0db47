"""Decoding one token at a time, without a search."""

import numpy as np

from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.models.language_model import LanguageModel


def step_by_step(model, source, target, beam=1):
    """Logits of every position, one `decode_step` after the other."""
    decoder = IncrementalDecoder(model, beam)
    if isinstance(model, LanguageModel):
        state = decoder.start(len(target))
    else:
        state = decoder.start(len(target), model.encode(source), model.source_mask(source))
    same = np.tile(np.arange(beam, dtype="int32"), (len(target), 1))
    logits = []
    for number in range(target.shape[1]):
        newest = np.repeat(target[:, number : number + 1], beam, axis=1)
        step_logits, _, state = decoder.decode_step(newest, same, number, state)
        logits.append(step_logits)
    return np.stack(logits, axis=2)
