"""Verification without the start of a process, which test_export.py has."""

import pathlib
from collections.abc import Mapping

import tensorflow as tf


def run_in_this_process(version: pathlib.Path, requests: Mapping[str, list]) -> dict[str, list]:
    """Answers like `export.saved_model.verification.run_in_fresh_process`."""
    return answers_of(tf.saved_model.load(str(version)).signatures, requests)


def answers_of(signatures: Mapping, requests: Mapping[str, list]) -> dict[str, list]:
    """The outputs of each batch of `requests`, by signature."""

    def answer(name, inputs):
        outputs = signatures[name](**{key: tf.constant(x) for key, x in inputs.items()})
        return {key: x.numpy().tolist() for key, x in outputs.items()}

    return {name: [answer(name, batch) for batch in batches] for name, batches in requests.items()}
