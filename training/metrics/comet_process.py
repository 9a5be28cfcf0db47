"""Scores by unbabel-comet, as a program that the Python with that package runs.

Unbabel-comet needs older versions of packages that TensorFlow needs in newer ones, so it is in an
environment of its own, where this project is not installed: this file imports nothing of it, and
is valid for every Python that unbabel-comet has been released for. It is started with the name or
path of a model and the number of GPUs, writes a line with what the model is, and then answers each
line of its input, a JSON object with `mt`, `src` and `ref`, by a line with `scores` or `error`.
"""

import hashlib
import json
import os
import sys


def _open_channel():
    """Returns the file for answers; what libraries print goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _checkpoint(model):
    """Returns the path of a model's checkpoint, which is downloaded if the model is a name."""
    if os.path.isdir(model):
        return os.path.join(model, "checkpoints", "model.ckpt")
    if os.path.exists(model):
        return model
    from comet import download_model

    return download_model(model)


def _digest(path):
    hasher = hashlib.blake2b(digest_size=8)
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            hasher.update(chunk)
    return hasher.hexdigest()


def _load(model):
    """Loads a model as the program `comet-score` does, which computes in half precision."""
    import comet

    checkpoint = _checkpoint(model)
    loaded = comet.load_from_checkpoint(checkpoint)
    loaded.eval()
    loaded.half()
    loaded.set_embedding_cache()
    segments = loaded.hparams.get("input_segments") or ()
    facts = {
        "version": str(comet.__version__),
        "digest": _digest(checkpoint),
        "uses_references": bool(loaded.requires_references() or "ref" in segments),
    }
    return loaded, facts


def _score(model, num_gpus, texts):
    """Scores sentences in the batches of `comet-score`, on which rounding depends."""
    samples = [dict(zip(texts, row)) for row in zip(*texts.values())]  # noqa: B905 (Python 3.8)
    accelerator = "auto" if num_gpus else "cpu"
    found = model.predict(
        samples, batch_size=16, gpus=num_gpus, progress_bar=False, accelerator=accelerator
    )
    return {"scores": [float(score) for score in found.scores]}


def _main():
    channel = _open_channel()

    def answer(make):
        try:
            fields = make()
        except Exception as error:  # whatever it is, it becomes a line for the caller
            fields = {"error": f"{type(error).__name__}: {error}"}
        channel.write(json.dumps(fields) + "\n")
        channel.flush()
        return "error" not in fields

    loaded = []

    def load():
        model, facts = _load(sys.argv[1])
        loaded.append(model)
        return facts

    if answer(load):
        for line in sys.stdin:
            answer(lambda: _score(loaded[0], int(sys.argv[2]), json.loads(line)))  # noqa: B023


if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules are no modules of the environment
    _main()
