"""Writes warm-up requests, which TF Serving replays when it loads a version."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.predictors.client.messages import data_type_name, make_tensor
from tf_transformer.predictors.client.serving_pb2 import PredictionLog

# The first request of a signature is slow, whatever its number of rows.
_ONE_ROW = (1,)
# A single row takes a compiled search, if there is one; several rows take the ordinary one.
_WITH_COMPILED = (1, 8)
_MAX_RECORDS = 1000  # TF Serving refuses more


def write_warm_up(
    version: pathlib.Path,
    model_name: str,
    requests: dict[str, dict[str, np.ndarray]],
    first: Sequence[dict[str, dict[str, np.ndarray]]] = (),
) -> int:
    """Writes `assets.extra/tf_serving_warmup_requests`.

    Args:
        version: folder of the SavedModel.
        model_name: the name the model is served under.
        requests: `{signature: {input: array}}`, with at least 8 rows each.
        first: requests that are sent before them as they are, for compiled searches.

    Returns:
        The number of requests written.

    Raises:
        InputError: there are more than TF Serving accepts.
    """
    folder = version / "assets.extra"
    folder.mkdir()
    parts = [
        {
            signature: {name: values[:rows] for name, values in inputs.items()}
            for signature, inputs in requests.items()
        }
        for rows in (_WITH_COMPILED if first else _ONE_ROW)
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


def _record(model_name, signature, inputs):
    log = PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature
    for name, values in inputs.items():
        data_type = tf.as_dtype(np.array(values).dtype).as_datatype_enum
        request.inputs[name].CopyFrom(make_tensor(np.array(values), data_type_name(data_type)))
    return log.SerializeToString()
