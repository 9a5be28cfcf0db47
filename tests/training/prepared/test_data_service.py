"""Who can connect to a tf.data service, which executes the graphs of its clients."""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

from tf_transformer.__main__ import main
from training.prepared.data_service import start_service
from training.prepared.loopback import loopback_only


def ports(service):
    """Of the dispatcher and of the worker."""
    return [int(name.rpartition(":")[2]) for name in (service.target, service.worker._address)]


def can_connect(host, port):
    try:
        socket.create_connection((host, port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture(scope="module")
def own_address():
    """By which other machines would find this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing
        except OSError:
            pytest.skip("no interface but the loopback")
        return probe.getsockname()[0]


def test_only_this_machine_reaches_a_service(own_address):
    service = start_service(0)
    for port in ports(service):
        assert can_connect("127.0.0.1", port) and not can_connect(own_address, port)


def test_every_machine_reaches_one_that_trusts_the_network(own_address):
    service = start_service(0, own_address, trusts_network=True)
    for port in ports(service):
        assert can_connect("127.0.0.1", port) and can_connect(own_address, port)


@contextlib.contextmanager
def another_machine():
    """A network namespace: the command that runs something in it, and our address seen from it."""
    name, ours = f"test{os.getpid()}", f"veth{os.getpid()}"
    inside = ["ip", "netns", "exec", name]
    try:
        for command in (
            ["ip", "netns", "add", name],
            ["ip", "link", "add", ours, "type", "veth", "peer", "name", "veth0", "netns", name],
            ["ip", "address", "add", "198.18.0.1/30", "dev", ours],
            ["ip", "link", "set", ours, "up"],
            [*inside, "ip", "address", "add", "198.18.0.2/30", "dev", "veth0"],
            [*inside, "ip", "link", "set", "veth0", "up"],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network namespace: {done.stderr}")
        yield inside, "198.18.0.1"
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip")
def test_another_machine_is_refused():
    code = (
        "import socket, sys\n"
        "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)\n"
        "except ConnectionRefusedError: print('refused')\n"
        "else: print('connected')"
    )
    with another_machine() as (inside, address):
        for trusts_network, expected in ((False, "refused"), (True, "connected")):
            service = start_service(0, trusts_network=trusts_network)
            for port in ports(service):
                command = [*inside, sys.executable, "-c", code, address, str(port)]
                assert subprocess.check_output(command, text=True).strip() == expected


def listen(port):
    """As gRPC does."""
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", port))
    server.listen()
    server.settimeout(10)
    return server


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nobody_is_let_in_before_the_server_is_kept_to_this_machine(host):
    """A connection from another machine would last."""
    with loopback_only(0) as port, contextlib.closing(listen(port)) as server:
        early = socket.create_connection((host, port), timeout=10)
        server = socket.socket(fileno=os.dup(server.fileno()))  # it still listens
    with early, pytest.raises(ConnectionResetError):
        early.recv(1)
    with server, socket.create_connection((host, port), timeout=10) as late:
        accepted, address = server.accept()
        with accepted:
            assert address[1] == late.getsockname()[1]


def test_a_server_that_cannot_be_kept_to_this_machine_gets_no_connection(monkeypatch):
    monkeypatch.setattr(socket, "SO_BINDTODEVICE", -1)
    message = r"^port \d+: cannot restrict it to connections"
    with pytest.raises(OSError, match=message) as raised, loopback_only(0) as port:
        server = listen(port)
    with server, socket.create_connection(("127.0.0.1", port), timeout=10):
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    del raised  # its frames hold the sockets that took the connection


def test_a_port_that_nothing_listens_on():
    with pytest.raises(OSError, match="no socket of this process listens"), loopback_only(0):
        pass


@pytest.mark.parametrize("host", ["192.0.2.7", "0.0.0.0", "no-such-host.invalid"])
def test_a_name_for_other_machines_needs_a_network_that_is_trusted(capsys, host):
    assert main(["data-service", "--port", "0", "--host", host]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"tf-transformer: error: host {host}: expected a name of the loopback")
    assert "--trust-network" in error and error.count("\n") == 1


def test_help_and_docs_say_who_is_let_in(capsys):
    with pytest.raises(SystemExit):
        main(["data-service", "--help"])
    printed = " ".join(capsys.readouterr().out.replace("data-\n", "data-").split())
    assert "Every client can read and write files, and so run code, as the user" in printed
    assert "only this machine can connect unless --trust-network is given" in printed
    for page in ("SECURITY.md", "docs/corpora.md"):
        text = " ".join((pathlib.Path(__file__).parents[3] / page).read_text("utf-8").split())
        assert re.search("can connect( to a tf.data service)? can run code", text), page
