"""OpenNMT-tf: a checkpoint from random weights, logits and translations, run by its own Python.

Usage: opennmt_tf_program.py FOLDER, with `request.json` in it. It writes the checkpoints as a run
does, and `answer.npz`.
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import opennmt
import tensorflow as tf

ACTIVATIONS = {"relu": tf.nn.relu, "gelu": tf.nn.gelu, "swish": tf.nn.swish}
POSITIONS = {
    "sinusoids": opennmt.layers.SinusoidalPositionEncoder,
    "learned": lambda: opennmt.layers.PositionEmbedder(maximum_position=40),
    None: None,
}


def make_model(options: dict, data: dict, folder: pathlib.Path) -> opennmt.models.Transformer:
    """Returns a model with the weights of `weights.npz`."""
    options = dict(options)
    model = opennmt.models.Transformer(
        position_encoder_class=POSITIONS[options.pop("position_encoder")],
        ffn_activation=ACTIVATIONS[options.pop("ffn_activation")],
        share_embeddings=getattr(
            opennmt.models.EmbeddingsSharingLevel, options.pop("share_embeddings")
        ),
        **options,
    )
    model.initialize(data)
    model.create_variables()
    names = opennmt.utils.misc.get_variables_name_mapping(model, "model")
    suffix = "/.ATTRIBUTES/VARIABLE_VALUE"
    with np.load(folder / "weights.npz") as weights:
        for name, value in weights.items():
            names[name + suffix].assign(value)
        assert len(weights) == len(model.variables)
    return model


def save(model: opennmt.models.Transformer, folder: pathlib.Path) -> None:
    """Saves a checkpoint as training does, with values of the optimizer, and an averaged one."""
    optimizer = tf.keras.optimizers.legacy.Adam()
    variables = model.trainable_variables
    optimizer.apply_gradients([(tf.zeros_like(v), v) for v in variables])
    checkpoint = opennmt.utils.checkpoint.Checkpoint(
        model, optimizer, model_dir=str(folder / "run")
    )
    path = checkpoint.save(5)
    with np.load(folder / "weights.npz") as weights:
        names = {name + "/.ATTRIBUTES/VARIABLE_VALUE" for name in weights}
    stored = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    assert names == {name for name in stored if name.startswith("model/") and "SLOT" not in name}
    opennmt.utils.checkpoint.average_checkpoints(
        str(folder / "run"), str(folder / "run/avg"), dict(model=model, optimizer=optimizer)
    )
    model.visualize(str(folder / "run"))


def main(folder: pathlib.Path) -> None:
    """Answers the request in a folder."""
    request = json.loads((folder / "request.json").read_text())
    model = make_model(request["options"], request["data"], folder)
    save(model, folder)
    lines = [(folder / f"{side}.txt").read_text().splitlines() for side in ("source", "target")]
    features = model.features_inputter.make_features(tf.constant(lines[0]))
    labels = model.labels_inputter.make_features(tf.constant(lines[1]))
    outputs, _ = model(features, labels)
    answer = {"logits": outputs["logits"].numpy()}
    answer |= {f"source_{name}": features[name].numpy() for name in ("ids", "length")}
    answer |= {f"target_{name}": labels[name].numpy() for name in ("ids", "length")}
    bias = model.decoder.output_layer.bias
    if bias is not None:  # keep the search from padding, begin and unknown words
        never = [[0], [1], [bias.shape[0] - 1]]
        bias.assign(tf.tensor_scatter_nd_sub(bias, never, [1e9] * 3))
        model.params["maximum_decoding_length"] = request["max_length"]
        _, predictions = model(features)
        answer["tokens"] = predictions["tokens"].numpy()[:, 0].astype("bytes")
        answer["lengths"] = predictions["length"].numpy()[:, 0]
    np.savez(folder / "answer.npz", **answer)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
