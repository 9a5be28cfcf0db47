"""The request that the guide of an export shows for a signature."""

import json
import pathlib
import re

import tensorflow as tf

from tests.served_functions import load_signatures


def answer_to_the_guide(folder: pathlib.Path, signature: str) -> dict[str, tf.Tensor]:
    """Sends it to the newest version of the folder, whose outputs must have one row."""
    guide = (folder / "README.md").read_text()
    bodies = [json.loads(body) for body in re.findall("curl -d '(.*)'", guide)]
    (body,) = [body for body in bodies if body.get("signature_name") == signature]
    version = max(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    function = load_signatures(folder / str(version))[signature]
    _, specs = function.structured_input_signature
    outputs = function(
        **{name: tf.constant(values, specs[name].dtype) for name, values in body["inputs"].items()}
    )
    assert {len(value) for value in outputs.values()} == {1}
    return outputs
