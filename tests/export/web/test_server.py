"""The command `web` as a process: addresses, signals, and connections that are not HTTP."""

import importlib.util
import json
import re
import signal
import socket
import types
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.export.web.running import ROOT, run_web, stop
from tests.export.web.translating import make_behaviour
from tests.few_packages import run_with_packages
from tests.serving_stub import serve
from tf_transformer.__main__ import main
from tf_transformer.command_line import predictor_options
from tf_transformer.predictors.client.daemon_threads import start_in_thread
from tf_transformer.predictors.signature import signature_of_task

for name in ("starlette", "uvicorn", "prometheus_client"):
    pytest.importorskip(name)


@pytest.fixture(params=["rest", "grpc"])
def protocol_name(request) -> str:
    return request.param


def fetch(address, body=None, **headers):
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(address, headers=headers)
    if body is not None:
        request.data = json.dumps(body).encode()
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.slow
def test_the_command_translates(protocol_name):
    port = free_port()
    with serve(protocol_name, make_behaviour()) as server:
        options = ("--protocol", protocol_name, "--metrics-port", str(port))
        with run_web(server, *options) as (_, address):
            assert "<title>Translator</title>" in fetch(address)
            body = {"lines": ["a b"], "num_best": 2, "alignment": True}
            (found,) = json.loads(fetch(f"{address}api/translate", body))["translations"]
            assert [best["text"] for best in found["best"]] == ["A B", "A B 2"]
            assert found["alignment"]["hard"] == [[1, 0], [0, 1]]
            metrics = fetch(f"http://127.0.0.1:{port}/metrics")
            assert 'tf_transformer_web_requests_total{outcome="translated"} 1.0' in metrics
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetch(f"{address}metrics")
            with pytest.raises(urllib.error.HTTPError, match="400"):
                fetch(address, host="evil.example")


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(signum):
    with run_web("127.0.0.1:1") as (process, _):
        status, errors = stop(process, signum)
    assert status == 128 + signum
    assert errors.startswith("tf-transformer: interrupted") and errors.count("\n") == 1


# The command, which gives requests 1 second to finish instead of several.
STOPPING_SOONER = ("-c", """
import sys
from export.web import server
from tf_transformer.__main__ import main
server._STOP_SECONDS = 1
sys.exit(main())
""")  # fmt: skip


@pytest.mark.slow
def test_a_signal_does_not_wait_for_the_deadline(no_hang):
    """Requests get some seconds to finish, and then the process ends without them."""
    behaviour = make_behaviour(slow=600.0)
    with (
        serve("rest", behaviour) as server,
        run_web(server, "--deadline", "500", program=STOPPING_SOONER) as (process, address),
    ):
        future = start_in_thread(fetch, f"{address}api/translate", {"lines": ["slow"]})
        behaviour.wait_until_at_once(1)
        status, errors = stop(process)
        assert "503" in str(future.exception(60))
    assert status == 128 + signal.SIGTERM
    assert "Traceback" not in errors


@pytest.mark.slow
def test_what_is_not_http():
    with run_web("127.0.0.1:1") as (process, address):
        location = urllib.parse.urlsplit(address)
        for sent in (b"\x16\x03\x01" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A" * 100_000):
            with socket.create_connection((location.hostname, location.port), 60) as connection:
                connection.sendall(sent)
                assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
        assert fetch(f"{address}health") == "ok\n"
        _, errors = stop(process)
    assert "Traceback" not in errors


def test_an_export_without_search_options(tmp_path, monkeypatch, capsys):
    """It is refused before the page is served, and without the options it is not."""
    (tmp_path / "saved_model.pb").touch()
    found = types.SimpleNamespace(signatures={name: signature_of_task(name) for name in ["nbest"]})
    monkeypatch.setattr(predictor_options, "load_saved_model", lambda _: found)
    monkeypatch.setattr("export.web.server.run_server", lambda *_: print("served"))
    for options, status in (([], 0), (["--length-penalty", "0"], 2), (["--beam-size", "3"], 2)):
        assert main(["web", "--saved-model", str(tmp_path), *options]) == status
        output, errors = capsys.readouterr()
        assert (output == "served\n", errors.count("\n")) == (status == 0, status // 2)
        if options:
            lack = f"the model has no signature 'translate_options', which {options[0]} needs"
            assert f"{lack}; export it with --signatures all" in errors


def test_a_port_in_use(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for option in (["--port", port], ["--port", "0", "--metrics-port", port]):
            assert main(["web", "--server", "127.0.0.1:1", *option]) == 2
            assert "address already in use" in capsys.readouterr().err.lower()


def test_a_host_that_there_is_none(capsys):
    assert main(["web", "--server", "127.0.0.1:1", "--host", "no.such.invalid", "--port", "1"]) == 2
    error = capsys.readouterr().err
    assert "error: cannot listen at --host no.such.invalid --port 1: " in error
    assert main(["web", "--server", "127.0.0.1:1", "--host", "a..b", "--port", "1"]) == 2
    assert "error: --host 'a..b': no name or address" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_the_socket_states_its_protocol(host):
    """As asyncio requires to send responses without delay."""
    from export.web.server import _listening

    with _listening(host, 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
        assert listener.getsockname()[1] > 0


def test_an_address_of_another_machine(capsys):
    words = ["web", "--server", "127.0.0.1:1", "--host", "198.51.100.1", "--port", "0"]
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_the_packages(capsys, monkeypatch):
    find_spec = importlib.util.find_spec

    def find_all_but_one(name):
        return None if name == "uvicorn" else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_all_but_one)
    assert main(["web", "--server", "127.0.0.1:1"]) == 2
    assert "web needs uvicorn: pip install 'tf-transformer[web]'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_packages_of_the_image_are_enough():
    """Those of examples/service/requirements.txt, and what these need themselves."""
    path = ROOT / "examples" / "service" / "requirements.txt"
    packages = re.findall(r"^[\w-]+", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(packages) == 10
    modules = [package.replace("-", "_") for package in packages]
    modules += [
        "_re2",
        "re2",
        "anyio",
        "click",
        "google",
        "grpc",
        "h11",
        "idna",
        "typing_extensions",
    ]
    program = (
        "import export.web.server\n"
        "from tf_transformer.__main__ import main\n"
        "sys.exit(main(['web', '--server', '127.0.0.1:1', '--port', sys.argv[1]]))"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_with_packages(modules, program, port, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "address already in use" in done.stderr.lower()
