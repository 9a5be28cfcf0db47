"""Run by test_monitoring.py: an uninterrupted training beside one that was killed, all judged.

A process of its own, because deterministic ops cannot be switched off again.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import tensorflow as tf

from tests.conftest import Corpus, small_config
from training.trainer import train

WATCHED = {
    "validation__translate_every": 1,
    "validation__report_every": 3,
    "validation__keep_best": 1,
    "validation__patience": 50,
    "validation__histograms": True,
    "optimization__keep_checkpoints": 2,
}


def read_variables(model_dir, step):
    reader = tf.train.load_checkpoint(str(model_dir / "checkpoints" / f"step-{step}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def are_equal(ours, theirs):
    # `save_counter` counts the saves of a process.
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name])
        for name in ours
        if not name.startswith(("save_counter", "_CHECKPOINTABLE"))
    )


def main(corpus_dir, directory):
    tf.config.experimental.enable_op_determinism()
    corpus = Corpus(pathlib.Path(corpus_dir))
    whole, killed = (pathlib.Path(directory) / name for name in ("whole", "killed"))
    train(small_config(**WATCHED), model_dir=whole, **corpus.arguments)
    train(small_config(optimization__steps=20, **WATCHED), model_dir=killed, **corpus.arguments)
    # As if killed between saving step 20 and judging it.
    path = killed / "validation_scores.json"
    scores = json.loads(path.read_text())
    scores["scores"] = [record for record in scores["scores"] if record["step"] < 20]
    path.write_text(json.dumps(scores))
    shutil.rmtree(killed / "best_checkpoints")
    train(small_config(**WATCHED), model_dir=killed, **corpus.arguments)
    best = [
        sorted(path.name for path in (run / "best_checkpoints").iterdir())
        for run in (whole, killed)
        if (run / "best_checkpoints").exists()
    ]
    result = {
        "variables": are_equal(read_variables(whole, 30), read_variables(killed, 30)),
        "scores": (whole / "validation_scores.json").read_text() == path.read_text(),
        "best": len(best) == 2 and best[0] == best[1],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
