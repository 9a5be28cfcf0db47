"""What the environment variable `TF_CONFIG` says of the workers."""

import json
import re
from typing import Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.printable import printable

EXAMPLE = '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
_ADDRESS = re.compile(r".+:([1-9]\d{0,4})")


class Cluster(NamedTuple):
    """The workers, and which of them this process is.

    Attributes:
        addresses: of all workers, the chief first; empty for a process that trains alone.
        address: of this one; None where there is none.
    """

    addresses: tuple[str, ...] = ()
    address: str | None = None


def read_cluster(tf_config: str) -> Cluster:
    """Reads `TF_CONFIG` as `MultiWorkerMirroredStrategy` needs it.

    Args:
        tf_config: the variable's text; "" where it is not set.

    Raises:
        ValueError: says what is wrong with it.
    """
    try:
        return _cluster(json.loads(tf_config or "{}"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"the environment variable TF_CONFIG: {error}. Expected something like {EXAMPLE}. "
            f"Received: {printable(tf_config)}"
        ) from error


def choose_strategy(kind: str, num_devices: int | None, cluster: Cluster) -> tuple[str, int | None]:
    """Decides what "auto" stands for, and how many devices "one_device" means.

    Args:
        kind, num_devices: see `make_strategy`.
        cluster: of `read_cluster`.

    Returns:
        "mirrored", "multi_worker" or "one_device", and the number of devices; None is all.

    Raises:
        ValueError: they contradict each other.
    """
    num_workers = len(cluster.addresses)
    if kind == "auto":
        return ("multi_worker" if num_workers > 1 else "mirrored"), num_devices
    if kind == "multi_worker":
        if num_workers == 0:
            raise InputError(
                "--strategy multi_worker: expected the workers' addresses in the environment "
                f"variable TF_CONFIG, as in {EXAMPLE}"
            )
        return kind, num_devices
    if num_workers > 1:
        raise InputError(f"--strategy {kind}: TF_CONFIG names {num_workers} workers")
    if kind == "one_device":
        if num_devices not in (None, 1):
            raise InputError(f"--strategy one_device: received --devices {num_devices}")
        return kind, 1
    return kind, num_devices


def _cluster(config: Any) -> Cluster:
    _check(isinstance(config, dict), "not an object")
    jobs = config.get("cluster", {})
    _check(isinstance(jobs, dict), "the cluster is not an object")
    if not jobs:
        return Cluster()
    for job, addresses in jobs.items():
        _check(job in ("chief", "worker"), f"training has only chief and worker, not {job!r}")
        _check(isinstance(addresses, list) and addresses, f"{job!r} is not a list of addresses")
        for address in addresses:
            match = isinstance(address, str) and _ADDRESS.fullmatch(address)
            _check(match and int(match[1]) < 65536, f"{address!r} is not HOST:PORT")
    _check(len(jobs.get("chief", [])) < 2, "there is more than one chief")
    everybody = (*jobs.get("chief", []), *jobs.get("worker", []))
    _check(len(set(everybody)) == len(everybody), "an address comes twice")
    task = config.get("task")
    _check(isinstance(task, dict), "there is no task, which says who this process is")
    job, index = task.get("type"), task.get("index")
    _check(job in jobs, f"the task's type {job!r} is not in the cluster")
    is_number = isinstance(index, int) and not isinstance(index, bool)
    _check(
        is_number and 0 <= index < len(jobs[job]),
        f"the task's index {index!r} is not one of 0 to {len(jobs[job]) - 1}",
    )
    return Cluster(everybody, jobs[job][index])


def _check(is_right: Any, fault: str) -> None:
    if not is_right:
        raise InputError(fault)
