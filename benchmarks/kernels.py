"""Time by TensorFlow's kernels, from its profiler."""

import collections
import glob
import pathlib
import tempfile
from collections.abc import Callable


def kernel_times(function: Callable[[], object]) -> collections.Counter:
    """Milliseconds by type of operation that a call of the function takes."""
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
                place, _, kind = names[event.metadata_id].rpartition(":")
                if place and not place.endswith(":") and kind.strip() == kind:  # an operation's
                    times[kind] += event.duration_ps / 1e9
    return times


def kernel_table(times: collections.Counter, count: int) -> list[str]:
    """Lines in Markdown: that many kernels, those that take most, and their share of all."""
    return [
        "| kernel | ms | share |",
        "|---|---|---|",
        *(
            f"| {kind} | {time:.0f} | {100 * time / times.total():.0f} % |"
            for kind, time in times.most_common(count)
        ),
        f"| all | {times.total():.0f} | |",
    ]
