"""The command `plan`: how long a training run takes, and what it costs."""

import argparse
import dataclasses
import math
import sys

from tf_transformer.command_line.command_options import file_path, folder
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable, replacing
from tf_transformer.storage.output_files import check_output_file

# Bytes per second between two devices: PCI Express 3 with 16 lanes, as it is reached in practice.
_BANDWIDTH = 10e9
_LENGTHS = (30, 30)
_LIMITS = {"pairs": 10**12, "devices": 10**6, "measured_steps": 10**6}


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `plan`."""
    parser = commands.add_parser(
        "plan",
        help="estimate the time and the cost of a training run",
        description="Estimates how long a training run takes, what it costs, and how much memory "
        "its weights take. The speed of a device is a published one, a given one, or measured on "
        "this machine by a short run (docs/training.md).",
    )
    corpus = parser.add_mutually_exclusive_group(required=True)
    corpus.add_argument(
        "--prepared", type=folder, metavar="DIR", help="the corpus: a prepared folder"
    )
    corpus.add_argument("--pairs", type=int, metavar="N", help="the corpus: a number of pairs")
    parser.add_argument(
        "--lengths", type=float, nargs=2, metavar=("S", "T"),
        help=f"with --pairs: mean tokens of a source and of a target (default: {_LENGTHS[0]} "
        f"{_LENGTHS[1]})",
    )  # fmt: skip
    parser.add_argument("--config", type=file_path, metavar="F", help="YAML file of settings")
    parser.add_argument("--preset", metavar="NAME", help="a preset, such as base")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="single settings, as of `train`",
    )  # fmt: skip
    speed = parser.add_mutually_exclusive_group(required=True)
    speed.add_argument(
        "--machine", metavar="NAME", help="a device with a published speed: p100, v100, a100"
    )
    speed.add_argument(
        "--tokens-per-second", type=float, metavar="X",
        help="target tokens per second of one device, with this model",
    )  # fmt: skip
    speed.add_argument(
        "--measure", action="store_true",
        help="train for some steps on this machine, with --devices processes; needs --prepared",
    )  # fmt: skip
    parser.add_argument(
        "--measured-steps", type=int, default=60, metavar="N",
        help="with --measure: number of steps (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--devices", type=int, default=1, metavar="N",
        help="devices that train together (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--bandwidth", type=float, default=_BANDWIDTH / 1e9, metavar="X",
        help="gigabytes per second between two devices (default: %(default)g; 1.2 for a network "
        "of 10 Gbit/s)",
    )  # fmt: skip
    parser.add_argument("--price", type=float, metavar="X", help="price of a device for an hour")
    parser.add_argument("--json", type=file_path, metavar="F", help="also write the plan as JSON")
    parser.set_defaults(run=_run_plan)


def _run_plan(options):
    _check(options)
    if options.json:
        check_writable(options.json)
        read = list(options.prepared.rglob("*")) if options.prepared else []
        check_output_file("--json", options.json, inputs=[*read, *filter(None, [options.config])])
    from training.planning.machines import MACHINES
    from training.planning.plan import batches_of, make_plan, operations_per_batch
    from training.settings import make_config, parse_setting, read_settings
    from training.trained_weights import all_shapes, check_trained, trained_shapes

    preset = {} if options.preset is None else {"preset": options.preset}
    settings = read_settings(options.config, preset, *map(parse_setting, options.set))
    corpus, vocab_sizes = _corpus(options, settings)
    config = make_config(settings)
    model = config.transformer_config(*vocab_sizes)
    check_trained(config, model)
    if options.measure and config.lora.rank is not None:
        raise InputError(
            "--measure trains a new model, which LoRA (lora.rank) cannot adapt; expected --machine "
            "or --tokens-per-second"
        )
    batches = batches_of(corpus, config.data)
    num_passes = 2 if config.optimization.r_drop else 1
    per_batch = operations_per_batch(model, batches, num_passes)
    measured = None
    if options.measure:
        from training.planning.measurement import measure

        print(f"measuring {options.measured_steps} steps on this machine", file=sys.stderr)
        measured = measure(settings, options.prepared, options.devices, options.measured_steps)
        speed = per_batch / measured.seconds_per_step / options.devices
    elif options.machine:
        speed = MACHINES[options.machine].operations_per_second(model)
    else:
        speed = per_batch / batches.target_tokens * options.tokens_per_second
    plan = make_plan(
        model,
        batches,
        config.optimization.steps,
        num_weights=_size(all_shapes(config, model)),
        num_trained=_size(trained_shapes(config, model)),
        num_devices=options.devices,
        operations_per_second=speed,
        # A measured step includes the reduction of the gradients.
        bandwidth=float("inf") if measured else options.bandwidth * 1e9,
        num_passes=num_passes,
        price=options.price,
    )
    if not all(math.isfinite(value or 0) for value in dataclasses.astuple(plan)):
        raise InputError("the estimate is infinite; expected numbers that are not so extreme")
    print(_report(options, config, corpus, batches, plan, measured))
    if options.json:
        from tf_transformer.storage.json_files import write_json

        content = dataclasses.asdict(plan) | {"batches": dataclasses.asdict(batches)}
        content["measured"] = measured and measured._asdict()
        with replacing(options.json) as path:
            write_json(path, content, indent=1)


def _check(options):
    from training.planning.machines import MACHINES

    if options.machine is not None and options.machine not in MACHINES:
        raise InputError(f"--machine {options.machine}: expected {', '.join(MACHINES)}")
    if options.measure and not options.prepared:
        raise InputError("--measure needs --prepared, a corpus to train on")
    for name in ("pairs", "devices", "measured_steps", "tokens_per_second", "bandwidth", "price"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"--{name.replace('_', '-')} {value:g}: expected more than 0")
        if value is not None and value > _LIMITS.get(name, value):
            limit = _LIMITS[name]
            raise InputError(f"--{name.replace('_', '-')} {value:g}: expected at most {limit:,}")
    if options.prepared and options.lengths:
        raise InputError("--lengths is valid only with --pairs; a prepared folder has its own")
    if not all(1 <= length < 1e6 for length in options.lengths or ()):
        raise InputError("--lengths: expected two numbers of at least 1")


def _corpus(options, settings):
    """Returns the corpus and the sizes of its vocabularies; the settings get its vocabulary's."""
    from training.config import VocabularyConfig
    from training.planning.plan import Corpus
    from training.settings import make_config

    if options.prepared is None:
        config = make_config(settings)
        size = config.vocabulary.size
        return Corpus.of_mean_lengths(options.pairs, *(options.lengths or _LENGTHS)), (size, size)
    from tf_transformer.text.vocabulary import Vocabulary
    from training.prepared.prepared_folder import (
        read_description,
        read_models,
        vocabulary_settings,
    )

    description = read_description(options.prepared)
    found: VocabularyConfig = vocabulary_settings(options.prepared, description)
    settings["vocabulary"] = settings.get("vocabulary", {}) | {"joint": found.joint}
    sizes = [model and Vocabulary(model).vocab_size for model in read_models(options.prepared)]
    lengths: list[int] = []
    for shard in description["shards"]:
        lengths += [0] * (len(shard["lengths"]) - len(lengths))
        for length, count in enumerate(shard["lengths"]):
            lengths[length] += count
    statistics = description["statistics"]
    tokens = (statistics["source_tokens"], statistics["target_tokens"])
    return Corpus(lengths, *tokens), sizes


def _size(shapes) -> int:
    """Returns the number of weights of some shapes, by name."""
    return sum(map(math.prod, shapes.values()))


def _report(options, config, corpus, batches, plan, measured) -> str:
    from training.planning.machines import MACHINES

    devices = "this machine" if options.measure else options.machine or "device"
    several = "" if options.devices == 1 else f"{options.devices} x "
    if options.machine:
        machine = MACHINES[options.machine]
        devices += f", {machine.dtype} ({machine.source})"
    weights = f"{plan.num_weights / 1e6:,.1f} million weights"
    if plan.num_trained != plan.num_weights:
        weights += f", {plan.num_trained / 1e6:,.1f} of them trained"
    rows = [
        ("model", f"{config.preset}, {weights}"),
        ("corpus", f"{corpus.num_pairs:,} pairs, {corpus.target_tokens:,} target tokens"),
        (
            "batch",
            f"{batches.rows:,.0f} pairs of {batches.positions:,.0f} positions a side, "
            f"{batches.target_tokens:,.0f} target tokens",
        ),
        ("steps", f"{config.optimization.steps:,}, {plan.epochs:,.1f} epochs"),
        ("devices", f"{several}{devices}"),
        ("a step", _step(plan)),
        ("training", _duration(plan.hours * 3600) + ", without validation"),
        ("memory", f"{plan.state_bytes / 1e9:,.2f} GB per device for weights and optimizer"),
    ]
    if measured:
        rows.insert(-1, ("start", f"{measured.start_seconds:,.0f} s, once"))
    if plan.cost is not None:
        rows.append(("cost", f"{plan.cost:,.2f}"))
    return "\n".join(f"{name:<10}{value}" for name, value in rows)


def _step(plan) -> str:
    text = f"{plan.seconds_per_step * 1000:,.0f} ms"
    if plan.reduction_seconds:
        text += f", {plan.reduction_seconds * 1000:,.0f} ms of them to add up gradients"
    return text


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:,.0f} minutes"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:,.1f} hours"
    return f"{seconds / 86400:,.1f} days"
