"""Runs a SavedModel in a process without this project; `run_in_fresh_process` starts it.

Reads pickled requests, `{signature: [{input: array}, ...]}`, from standard input. Sends the first
row of each batch, and then all of its rows, to the SavedModel named on the command line, and writes
the outputs of the latter to standard output, one pickle per signature. The SavedModel is loaded and
run in a session, as TF Serving does: `tf.saved_model.load` restores it in another way. The graph is
finalized before the first request, so that a request that traces or adds an operation fails.
"""

import ctypes
import gc
import os
import pickle
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def main(path: str, parent: int) -> None:
    """Answers the requests on standard input with the SavedModel at `path`.

    Args:
        path: folder of the SavedModel.
        parent: number of the process that has started this one.
    """
    _end_with(parent)
    # Standard output carries only the answers; output of libraries goes to standard error.
    answer_file = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    # As in the settings of the server.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        saved_model = tf.compat.v1.saved_model.load(session, ["serve"], path)
    session.graph.finalize()
    for name, batches in pickle.load(sys.stdin.buffer).items():
        signature = saved_model.signature_def[name]
        fetches = {key: tensor.name for key, tensor in signature.outputs.items()}
        answers = []
        for inputs in batches:
            feeds = {signature.inputs[key].name: value for key, value in inputs.items()}
            session.run(fetches, {name: value[:1] for name, value in feeds.items()})
            found = session.run(fetches, feeds)
            answers.append({key: value.tolist() for key, value in found.items()})
        pickle.dump(answers, answer_file)
        answer_file.flush()
    gc.freeze()  # Python collects garbage several times as it exits


def _end_with(parent):
    """Ends this process when its parent ends: one that is killed cannot do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended already
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
