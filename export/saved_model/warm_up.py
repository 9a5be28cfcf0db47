"""Writes warm-up requests, which TF Serving replays when it loads a version."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from export.saved_model.deployment import MAX_BATCH_SIZE
from tf_transformer.errors import InputError
from tf_transformer.predictors.client.messages import data_type_name, make_tensor
from tf_transformer.predictors.client.serving_pb2 import PredictionLog

_MAX_RECORDS = 1000  # TF Serving refuses more


def write_warm_up(
    version: pathlib.Path,
    model_name: str,
    requests: dict[str, dict[str, np.ndarray]],
    first: Sequence[dict[str, dict[str, np.ndarray]]] = (),
) -> int:
    """Writes `assets.extra/tf_serving_warmup_requests`.

    The first request of a signature is slow, whatever its number of rows: one row warms it up. If
    searches are compiled, a row takes one of these, and a request with more rows than any of them
    has warms up the ordinary search.

    Args:
        version: folder of the SavedModel.
        model_name: the name the model is served under.
        requests: `{signature: {input: array}}`, with at least one row each.
        first: requests that are sent before them as they are, for compiled searches.

    Returns:
        The number of requests written.

    Raises:
        InputError: there are more than TF Serving accepts.
    """
    folder = version / "assets.extra"
    folder.mkdir()
    counts = [1]
    if first:
        largest = max(len(x) for part in first for inputs in part.values() for x in inputs.values())
        counts.append(min(largest + 1, MAX_BATCH_SIZE))
    parts = [
        {
            signature: {name: _repeat(values, count) for name, values in inputs.items()}
            for signature, inputs in requests.items()
        }
        for count in counts
    ]
    records = [
        _record(model_name, signature, inputs)
        for part in (*first, *parts)
        for signature, inputs in part.items()
    ]
    if len(records) > _MAX_RECORDS:
        raise InputError(
            f"expected at most {_MAX_RECORDS} warm-up requests. Received: {len(records)}"
        )
    with tf.io.TFRecordWriter(str(folder / "tf_serving_warmup_requests")) as writer:
        for record in records:
            writer.write(record)
    return len(records)


def _repeat(values: np.ndarray, count: int) -> np.ndarray:
    """Returns `count` rows: those of `values`, from the first again after the last."""
    return np.take(values, np.arange(count), axis=0, mode="wrap")


def _record(model_name, signature, inputs):
    log = PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature
    for name, values in inputs.items():
        data_type = tf.as_dtype(np.array(values).dtype).as_datatype_enum
        request.inputs[name].CopyFrom(make_tensor(np.array(values), data_type_name(data_type)))
    return log.SerializeToString()
