"""Time per kernel of TensorFlow, measured by its profiler."""

import collections
import glob
import pathlib
import tempfile
from collections.abc import Callable


def kernel_times(function: Callable[[], object]) -> collections.Counter:
    """Returns the milliseconds that a call of the function spends in each type of operation."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as directory:
        with tf.profiler.experimental.Profile(directory):
            function()
        return _read_profile(directory)


def _read_profile(directory):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    (path,) = glob.glob(f"{directory}/**/*.xplane.pb", recursive=True)
    space.ParseFromString(pathlib.Path(path).read_bytes())
    times = collections.Counter()
    for plane in space.planes:
        names = {key: value.name for key, value in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name, _, kind = names[event.metadata_id].rpartition(":")
                # Events of operations are named `NAME:TYPE`.
                if name and not name.endswith(":") and kind.strip() == kind:
                    times[kind] += event.duration_ps / 1e9
    return times


def kernel_table(times: collections.Counter, count: int) -> list[str]:
    """Returns a table in Markdown of the `count` slowest kernels, with their shares."""
    return [
        "| kernel | ms | share |",
        "|---|---|---|",
        *(
            f"| {kind} | {time:.0f} | {100 * time / times.total():.0f} % |"
            for kind, time in times.most_common(count)
        ),
        f"| total | {times.total():.0f} | |",
    ]
