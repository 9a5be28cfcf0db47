"""Run as a script by `verification.run_in_fresh_process`: knows nothing of this project.

Reads pickled requests, `{signature: {input: array}}`, from standard input, sends the first row of
each and then all rows to the SavedModel named on the command line, and writes the answers to the
latter, pickled one by one, to standard output. It loads and asks it by a session, as TF Serving's
server does: what Python's own loader makes of it says nothing of that. The graph is closed before
the first request: one that traced or added anything would fail.
"""

import os
import pickle
import sys


def main(path: str) -> None:
    # Whatever the libraries print goes elsewhere.
    answer_file = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        saved_model = tf.compat.v1.saved_model.load(session, ["serve"], path)
    session.graph.finalize()
    for name, inputs in pickle.load(sys.stdin.buffer).items():
        signature = saved_model.signature_def[name]
        feeds = {signature.inputs[key].name: value for key, value in inputs.items()}
        fetches = {key: tensor.name for key, tensor in signature.outputs.items()}
        session.run(fetches, {name: value[:1] for name, value in feeds.items()})
        found = session.run(fetches, feeds)
        pickle.dump({key: value.tolist() for key, value in found.items()}, answer_file)
        answer_file.flush()


if __name__ == "__main__":
    main(sys.argv[1])
