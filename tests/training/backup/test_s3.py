"""The same with s3fs and a server of moto, which answers as S3 does, on this machine.

It needs `pip install s3fs 'aiobotocore[boto3]' 'moto[s3]' flask flask-cors`.
"""

import pytest

from tests.training.backup.conftest import kept, write_checkpoint
from training.backup.backup import Backup

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def bucket():
    """A bucket, and the environment variables with which a user would name the server."""
    boto3 = pytest.importorskip("boto3")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="bucket")
        yield "s3://bucket"
    running.stop()


@pytest.mark.slow
def test_a_run_on_s3(bucket, model_dir, tmp_path, run):
    url = f"{bucket}/runs/1"
    (model_dir / "checkpoints" / "step-10.between").touch()  # an empty object
    backup = Backup(url, model_dir)
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
    assert Backup(url, new).restore(run) == 20
    assert kept(new) == kept(model_dir)


@pytest.mark.slow
def test_a_bucket_that_is_missing(bucket, model_dir):
    with pytest.raises(OSError, match=r"s3://nowhere/run/manifest\.json: .*bucket does not exist"):
        Backup("s3://nowhere/run", model_dir).claim()
