"""The copy task, as the Annotated Transformer has it."""

import re

import numpy as np
import pytest

from training.demo.copy_task import copy_batches, run_copy_task


def test_batches():
    batches = list(copy_batches(np.random.default_rng(1), 3))
    assert len(batches) == 3
    for inputs, labels in batches:
        assert inputs["source"].shape == (80, 10)
        assert (inputs["source"][:, 0].numpy() == 1).all()
        np.testing.assert_array_equal(inputs["target"], inputs["source"][:, :-1])
        np.testing.assert_array_equal(labels, inputs["source"][:, 1:])
        assert 1 <= inputs["source"].numpy().min() <= inputs["source"].numpy().max() == 10


@pytest.mark.exhaustive
@pytest.mark.slow
def test_it_is_learned(capsys):
    assert run_copy_task() == list(range(1, 11))
    output = capsys.readouterr().out
    line = (
        r"Epoch Step:      1 \| Accumulation Step:   1 \| Loss: +\d+\.\d\d \| "
        r"Tokens / Sec: +[\d.]+ \| Learning Rate: \d\.\de-\d\d\n"
    )
    assert len(re.findall(line, output)) == 20
    assert float(re.findall(r"Loss: ([\d.]+)\n", output)[-1]) < 0.05
