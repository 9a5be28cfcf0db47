"""Reading the cluster of workers from the environment variable `TF_CONFIG`."""

import json
import re
from typing import Any, Literal, NamedTuple

from tf_transformer.config_checks import check_choice
from tf_transformer.errors import InputError
from tf_transformer.printable import printable

StrategyKind = Literal["auto", "one_device", "mirrored", "multi_worker"]

EXAMPLE = '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
_ADDRESS = re.compile(r".+:([1-9]\d{0,4})")


class Cluster(NamedTuple):
    """The addresses of the workers.

    Attributes:
        addresses: addresses of all workers, the chief's first; empty for a process that trains
            alone.
        address: address of this process; None if it trains alone.
    """

    addresses: tuple[str, ...] = ()
    address: str | None = None


def read_cluster(tf_config: str) -> Cluster:
    """Parses and checks `TF_CONFIG` for `MultiWorkerMirroredStrategy`.

    Args:
        tf_config: value of the variable; "" if it is not set.

    Raises:
        InputError: the value is invalid; the message gives the reason.
    """
    try:
        return _parse_cluster(json.loads(tf_config or "{}"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"the environment variable TF_CONFIG: {error}. Expected something like {EXAMPLE}. "
            f"Received: {printable(tf_config)}"
        ) from error


def choose_strategy(kind: str, num_devices: int | None, cluster: Cluster) -> tuple[str, int | None]:
    """Resolves "auto", and the number of devices of "one_device".

    Args:
        kind: see `make_strategy`.
        num_devices: see `make_strategy`.
        cluster: the result of `read_cluster`.

    Returns:
        "mirrored", "multi_worker" or "one_device", and the number of devices; None means all.

    Raises:
        InputError: `kind` is unknown, or the arguments contradict each other.
    """
    check_choice("strategy", kind, StrategyKind)
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
        raise InputError(
            f"--strategy {kind}: TF_CONFIG names {num_workers} workers; unset it, or give "
            "--strategy multi_worker"
        )
    if kind == "one_device":
        if num_devices not in (None, 1):
            raise InputError(
                f"--strategy one_device: expected no --devices, or 1. Received: {num_devices}"
            )
        return kind, 1
    return kind, num_devices


def _parse_cluster(config: Any) -> Cluster:
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
    all_addresses = (*jobs.get("chief", []), *jobs.get("worker", []))
    _check(len(set(all_addresses)) == len(all_addresses), "there is a duplicate address")
    task = config.get("task")
    _check(isinstance(task, dict), "there is no task, which identifies this process")
    job, index = task.get("type"), task.get("index")
    _check(job in jobs, f"the task's type {job!r} is not in the cluster")
    is_integer = isinstance(index, int) and not isinstance(index, bool)
    _check(
        is_integer and 0 <= index < len(jobs[job]),
        f"the task's index {index!r} is not one of 0 to {len(jobs[job]) - 1}",
    )
    return Cluster(all_addresses, jobs[job][index])


def _check(is_valid: Any, fault: str) -> None:
    if not is_valid:
        raise InputError(fault)
