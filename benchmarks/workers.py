"""Training with several worker processes: what `plan --measure` predicts, and what it then takes.

    python -m benchmarks.workers --prepared DIR --validation-source F --validation-target F
        [--workers 1 2 4] [--steps 200] [--set NAME=VALUE ...]

For each number of processes, a plan and then the command `train`, whose time includes its start,
one checkpoint and one validation. Dropout is off, since replicas draw masks of their own; so the
weights should be those of the first run up to rounding. The last column is the norm of their
difference, over the norm of the change that training made to them.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

_LAUNCHER = pathlib.Path(__file__).parents[1] / "examples" / "multi_worker" / "local.py"


def run_workers(command: list[str], count: int) -> float:
    """Runs a command as several workers and returns the seconds that it took."""
    spec = importlib.util.spec_from_file_location("local", _LAUNCHER)
    launcher = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launcher)
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        silent = {"stdout": subprocess.DEVNULL, "stderr": errors}
        statuses = [worker.wait() for worker in launcher.start_workers(command, count, **silent)]
        if any(statuses):
            errors.seek(0)
            sys.exit(errors.read().decode()[-2000:])
    return time.perf_counter() - start


def trained_weights(model_dir: pathlib.Path) -> np.ndarray:
    """Returns all weights of a trained model, in one vector."""
    import h5py

    found: dict[str, np.ndarray] = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()].ravel()

    with h5py.File(model_dir / "model.weights.h5") as file:
        file.visititems(keep)
    return np.concatenate([found[name] for name in sorted(found)])


def command_line(options: argparse.Namespace, name: str, steps: int) -> list[str]:
    """Returns a command with what `plan` and `train` share."""
    command = [sys.executable, "-m", "tf_transformer", name, "--prepared", options.prepared]
    command += ["--set", *options.set, "model.dropout_rate=0", "validation.translate_every=0"]
    return [*command, f"optimization.steps={steps}", f"optimization.checkpoint_every={steps}"]


def train(options: argparse.Namespace, folder: pathlib.Path, count: int, steps: int) -> float:
    """Trains a model in a folder with some worker processes, and returns the seconds."""
    command = [*command_line(options, "train", steps), "--model-dir", str(folder)]
    command += ["--validation-source", options.validation_source]
    command += ["--validation-target", options.validation_target]
    return run_workers(command, count)


def predict(options: argparse.Namespace, folder: pathlib.Path, count: int) -> tuple[float, float]:
    """Returns the seconds of a run and of a step that `plan` predicts."""
    path = folder / "plan.json"
    command = command_line(options, "plan", options.steps)
    command += ["--measure", "--devices", str(count), "--json", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    plan = json.loads(path.read_text())
    return plan["hours"] * 3600 + plan["measured"]["start_seconds"], plan["seconds_per_step"]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prepared", required=True, metavar="DIR")
    parser.add_argument("--validation-source", required=True, metavar="F")
    parser.add_argument("--validation-target", required=True, metavar="F")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    parser.add_argument("--steps", type=int, default=200, metavar="N")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    columns = ["workers", "ms per step", "predicted, s", "taken, s", "taken / predicted"]
    columns += ["steps per second over the first row's", "difference of the weights"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train(options, folder / "one step", 1, 1)
        initial = trained_weights(folder / "one step")
        first_weights = first_step = None
        for count in options.workers:
            predicted, step = predict(options, folder, count)
            taken = train(options, folder / str(count), count, options.steps)
            weights = trained_weights(folder / str(count))
            if first_weights is None:
                first_weights, first_step = weights, step
            change = np.linalg.norm(first_weights - initial)
            cells = [f"{count}", f"{step * 1000:,.0f}", f"{predicted:,.1f}", f"{taken:,.1f}"]
            cells += [f"{taken / predicted:.2f}", f"{first_step / step:.2f}"]
            cells += [f"{np.linalg.norm(weights - first_weights) / change:.1e}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
