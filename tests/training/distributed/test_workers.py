"""Several workers: the whole command, signals, and what the manifests start."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.conftest import SMALL_SETTINGS
from tf_transformer.__main__ import main, make_parser
from training.checkpointing.checkpoint_files import checkpoint_paths

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "multi_worker"

TWO_WORKERS = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'


def load_local():
    spec = importlib.util.spec_from_file_location("local", EXAMPLES / "local.py")
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    return local


def start_workers(command, count=2, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return load_local().start_workers(command, count, **pipes, **options)


def train_command(corpus, model_dir, texts=None, **changes):
    settings = SMALL_SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    return [
        *(sys.executable, "-m", "tf_transformer", "train", *(texts or corpus.options)),
        *("--model-dir", str(model_dir), "--deterministic"),
        *("--set", *(f"{name}={value}" for name, value in settings.items())),
    ]


def variables(model_dir):
    """Every variable of the newest checkpoint."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(checkpoint_paths(model_dir / "checkpoints")[-1])
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    }


@pytest.mark.representatives("2")
@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_workers_train_like_one_process(corpus, tmp_path, count):
    """Without dropout; the same batches, so the same losses; the updates: test_distribution.py.

    Two train the smallest model, a language model.
    """
    changes = {"model__dropout_rate": 0.0, "optimization__steps": 4}
    changes |= {"optimization__checkpoint_every": 4}
    changes |= {"model__decoder_only": count == 2}
    texts = corpus.target_options if count == 2 else corpus.options
    alone, together = tmp_path / "alone", tmp_path / "together"
    arguments = train_command(corpus, alone, texts, **changes)
    arguments.remove("--deterministic")  # which would stay so in this process
    assert main(arguments[3:]) == 0
    local = [sys.executable, str(EXAMPLES / "local.py"), str(count)]
    command = [*local, *train_command(corpus, together, texts, **changes)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout.count("Trained for 4 steps") == 1  # the chief alone
    losses = [validation_loss(model_dir) for model_dir in (alone, together)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert variables(alone).keys() == variables(together).keys()
    assert {path.name for path in alone.iterdir()} == {path.name for path in together.iterdir()}


def validation_loss(model_dir):
    return json.loads((model_dir / "validation_scores.json").read_text())["scores"][-1]["loss"]


def wait_for_checkpoint(workers, model_dir, step, timeout=180):
    deadline = time.monotonic() + timeout
    while not (model_dir / "checkpoints" / f"step-{step}.index").exists():
        for worker in workers:
            assert worker.poll() is None, worker.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_signal_to_one_worker_stops_all_in_order(corpus, tmp_path):
    changes = {"optimization__steps": 100_000, "optimization__checkpoint_every": 20}
    workers = start_workers(train_command(corpus, tmp_path, **changes))
    wait_for_checkpoint(workers, tmp_path, 20)
    workers[1].send_signal(signal.SIGTERM)
    answers = [worker.communicate(timeout=120) for worker in workers]
    statuses = [worker.returncode for worker in workers]
    assert statuses == [128 + signal.SIGTERM] * 2, answers
    assert "Stopped and saved at step" in answers[0][0]


def run_script(script, tmp_path, status=0, **environment):
    """What a shell script prints, with a command `tf-transformer` of ours that prints TF_CONFIG.

    `status` is that of the command, and of the script.
    """
    for name, content in {
        "tf-transformer": f'echo "$TF_CONFIG"; exit {status}',
        "scontrol": '[ "$1" = show ] && printf "a\\nb\\n" || echo "$@"',
        "srun": 'shift; SLURM_PROCID=1 exec "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{content}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = ["/bin/sh", "-c", script]
    done = subprocess.run(command, env=environment | {"PATH": path}, text=True, capture_output=True)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_what_the_kubernetes_job_starts(tmp_path):
    service, job = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    pods = job["spec"]["template"]["spec"]
    (container,) = pods["containers"]
    output = run_script(container["args"][0], tmp_path, WORKERS="2", JOB_COMPLETION_INDEX="1")
    config = json.loads(output)
    names = [f"{job['metadata']['name']}-{index}.{pods['subdomain']}:2222" for index in (0, 1)]
    assert config == {"cluster": {"worker": names}, "task": {"type": "worker", "index": 1}}
    assert service["metadata"]["name"] == pods["subdomain"]
    assert container["env"] == [{"name": "WORKERS", "value": str(job["spec"]["completions"])}]
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    assert pods["restartPolicy"] == "Never"  # which the failure policy needs


def test_what_the_slurm_script_starts(tmp_path):
    output = run_script((EXAMPLES / "slurm.sh").read_text(), tmp_path, SLURM_JOB_NODELIST="n[1-2]")
    assert json.loads(output) == {
        "cluster": {"worker": ["a:2222", "b:2222"]},
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(("status", "last"), [(143, "requeue 7"), (2, "}}"), (0, "}}")])
def test_a_slurm_job_goes_on_after_its_time_limit(tmp_path, status, last):
    """SIGTERM comes before the limit; other errors would only come again."""
    script = (EXAMPLES / "slurm.sh").read_text()
    variables = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7"}
    assert run_script(script, tmp_path, status, **variables).rstrip().endswith(last)


def test_the_pools_of_the_managed_job():
    """One chief, and as many workers as wanted, which all run the same command."""
    job = yaml.safe_load((EXAMPLES / "vertex.yaml").read_text())
    chief, workers = job["workerPoolSpecs"]
    assert chief["replicaCount"] == 1
    assert chief["containerSpec"] == workers["containerSpec"]
    parser = make_parser()
    assert parser.parse_args(chief["containerSpec"]["args"]).backup == "gs://BUCKET/model"


@pytest.mark.slow
def test_ctrl_c_ends_a_worker_that_waits_for_others(corpus, tmp_path):
    """Within TensorFlow's own waiting, where Python's handlers do not run."""
    description = json.loads(TWO_WORKERS)
    ports = load_local().free_ports(2)
    description["cluster"]["worker"] = [f"localhost:{port}" for port in ports]
    environment = os.environ | {"TF_CONFIG": json.dumps(description)}
    command = train_command(corpus, tmp_path / "model")
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    line = next(line for line in worker.stderr if "waiting for all of localhost:" in line)
    assert (
        line
        == f"This is localhost:{ports[0]}; waiting for all of "
        + ", ".join(f"localhost:{port}" for port in ports)
        + "\n"
    )
    time.sleep(1)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(timeout=20) == -signal.SIGINT
    assert not (tmp_path / "model").exists()


def test_the_launcher_says_how_it_is_called_and_ends_its_workers(tmp_path):
    local = [sys.executable, str(EXAMPLES / "local.py")]
    for arguments in ([], ["two", "sleep"], ["0", "sleep"], ["2"]):
        finished = subprocess.run([*local, *arguments], capture_output=True, text=True)
        assert finished.returncode == 2
        assert finished.stderr == "usage: local.py NUMBER_OF_WORKERS COMMAND ...\n"
    script = f"echo $$ >> {tmp_path}/pids; exec sleep 60"
    launcher = subprocess.Popen([*local, "2", "sh", "-c", script])
    deadline = time.monotonic() + 20
    pids = []
    while len(pids) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        if (tmp_path / "pids").exists():
            pids = (tmp_path / "pids").read_text().split()
    launcher.terminate()
    assert launcher.wait(timeout=20) == 256 - signal.SIGTERM
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.parametrize(
    ("options", "tf_config", "message"),
    [
        (["--strategy", "multi_worker"], "", "expected the workers' addresses"),
        (["--strategy", "one_device", "--devices", "2"], "", "expected no --devices, or 1"),
        (["--strategy", "mirrored"], TWO_WORKERS, "names 2 workers"),
    ],
)
def test_contradictions_are_refused(corpus, tmp_path, options, tf_config, message, monkeypatch):
    from training.distributed.strategy import make_strategy

    monkeypatch.setenv("TF_CONFIG", tf_config)
    arguments = dict(zip(options[::2], options[1::2], strict=True))
    with pytest.raises(ValueError, match=message):
        make_strategy(
            arguments.get("--strategy", "auto"), int(arguments.get("--devices", 0)) or None
        )
