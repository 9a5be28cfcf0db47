"""Run as a script by `saved_model.verify`: knows nothing of this project.

Reads a JSON list of base64 strings, translates them with the SavedModel named on the command line
and prints the answer as JSON.
"""

import base64
import json
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

texts = [base64.b64decode(text) for text in json.load(sys.stdin)]
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(texts))
print(
    json.dumps(
        {
            "translation": [
                base64.b64encode(text).decode() for text in answer["translation"].numpy()
            ],
            "score": answer["score"].numpy().tolist(),
            "truncated": answer["truncated"].numpy().tolist(),
        }
    )
)
