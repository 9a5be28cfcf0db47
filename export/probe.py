"""Run as a script by `verification.run_in_fresh_process`: knows nothing of this project.

Reads pickled requests, `{signature: {input: array}}`, from standard input, sends each twice to the
SavedModel named on the command line, and writes the second answers, pickled, to standard output.
"""

import os
import pickle
import sys

# Whatever the libraries print goes elsewhere.
answer_file = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401  registers the tokenizer's ops

signatures = tf.saved_model.load(sys.argv[1]).signatures
answers = {}
for name, inputs in pickle.load(sys.stdin.buffer).items():
    tensors = {key: tf.constant(value) for key, value in inputs.items()}
    for _ in range(2):
        found = signatures[name](**tensors)
    answers[name] = {key: value.numpy().tolist() for key, value in found.items()}
pickle.dump(answers, answer_file)
answer_file.close()
