"""The same with s3fs and a server of moto, which answers as S3 does, on this machine."""

import pytest

from tests.training.backup.conftest import kept, write_checkpoint
from training.backup.backup import Backup

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")


@pytest.fixture
def s3_url(monkeypatch):
    """A bucket, and the environment variables with which a user would name the server."""
    import boto3

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield f"s3://bucket/runs/{port}"
    running.stop()


@pytest.mark.slow
def test_a_run_on_s3(s3_url, model_dir, tmp_path, run):
    (model_dir / "checkpoints" / "step-10.between").touch()  # an empty object
    backup = Backup(s3_url, model_dir)
    assert backup.restore(run) is None
    backup.claim()
    backup.start_saving()
    backup.wait()
    write_checkpoint(model_dir, 20)
    for path in (model_dir / "checkpoints").glob("step-10.*"):
        path.unlink()
    with backup.kept():
        pass
    new = tmp_path / "new"
    assert Backup(s3_url, new).restore(run) == 20
    assert kept(new) == kept(model_dir)


@pytest.mark.slow
def test_a_bucket_that_is_missing(s3_url, model_dir):
    with pytest.raises(OSError, match=r"s3://nowhere/run/manifest\.json: .*bucket does not exist"):
        Backup("s3://nowhere/run", model_dir).claim()
