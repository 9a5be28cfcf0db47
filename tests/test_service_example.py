"""examples/service: its files belong together, and to the command, the metrics and an export."""

import ast
import json
import pathlib
import re
import runpy
import shlex

import pytest
import yaml

from tf_transformer import __version__
from tf_transformer.__main__ import make_parser

ROOT = pathlib.Path(__file__).parents[1]
SERVICE = ROOT / "examples" / "service"
BOARD = SERVICE / "grafana" / "dashboards" / "translator.json"
METRIC = re.compile(r"(?:tf_transformer_web_\w+|:tensorflow:serving:[\w:]+|process_\w+|\bup\b)")


def read(name):
    return yaml.safe_load((SERVICE / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services() -> dict[str, dict]:
    return read("compose.yaml")["services"]


@pytest.fixture(scope="module")
def board() -> dict:
    return json.loads(BOARD.read_text(encoding="utf-8"))


def resolved(text):
    """A value with the defaults of its variables."""
    return re.sub(r"\$\{\w+(?::[-?]([^}]*))?\}", lambda match: match[1] or "", text)


def queries(board):
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


def test_the_services_are_hardened(services):
    assert set(services) == {"serving", "web", "prometheus", "grafana"}
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(resolved(service["user"]).partition(":")[0]) > 0, name
        assert resolved(service["mem_limit"]).endswith(("m", "g")), name
        assert service["pids_limit"] and service["healthcheck"]["test"], name
        assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", service["image"]), name
        assert not {"privileged", "network_mode", "pid", "devices"} & set(service), name


def test_ports_are_published_to_this_machine_only(services):
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert set(published) == {"web", "grafana"}
    for ports in published.values():
        assert all(resolved(port).startswith("127.0.0.1:") for port in ports)
    networks = read("compose.yaml")["networks"]
    assert {name for name, settings in networks.items() if settings} == {"models", "monitoring"}
    assert all(networks[name] == {"internal": True} for name in ("models", "monitoring"))
    for name, service in services.items():
        assert ("published" in service["networks"]) == (name in published)


def test_mounted_files_exist(services):
    named = set(read("compose.yaml")["volumes"])
    for service in services.values():
        for volume in service.get("volumes", ()):
            if isinstance(volume, dict):  # the export, whose folder Docker must not create
                assert volume["read_only"] is True
                assert volume["bind"] == {"create_host_path": False}
                assert "tf-transformer export" in resolved(volume["source"])
                continue
            source, _, target = volume.partition(":")
            if source.startswith("./"):
                assert (SERVICE / source).exists(), volume
                assert target.endswith(":ro")
            else:
                assert source in named, volume


@pytest.mark.slow
def test_the_flags_are_those_of_an_export(services, tmp_path):
    """TF Serving starts as the README of an export says."""
    from export.saved_model.deployment import write_deployment

    write_deployment(tmp_path, ["serving_default"], is_compiled=True)
    (command,) = re.findall(
        r"^    (docker run(?:.*\\\n)+.*)$", (tmp_path / "README.md").read_text(), re.MULTILINE
    )
    flags = {word for word in shlex.split(command) if word.startswith("--")} - {"--rm"}
    assert len(flags) == 6
    given = {flag.replace("${XLA:-false}", "true") for flag in services["serving"]["command"]}
    assert flags <= given
    assert given - flags == {
        "--monitoring_config_file=/etc/serving/monitoring.config",
        "--enable_profiler=false",
    }


def test_metrics_of_tf_serving_are_on(services):
    (flag,) = (f for f in services["serving"]["command"] if f.startswith("--monitoring_config"))
    path = flag.partition("=")[2]
    assert f"./serving/monitoring.config:{path}:ro" in services["serving"]["volumes"]
    jobs = {job["job_name"]: job for job in read("prometheus/prometheus.yml")["scrape_configs"]}
    settings = (SERVICE / "serving" / "monitoring.config").read_text(encoding="utf-8")
    assert re.findall(r'path: "(.+)"', settings) == [jobs["serving"]["metrics_path"]]


def test_the_web_application_starts_as_composed(services):
    options = make_parser().parse_args(["web", *services["web"]["command"]])
    assert (options.server, options.protocol) == ("serving:8500", "grpc")
    assert options.allowed_hosts == ["localhost", "127.0.0.1"]
    assert services["web"]["ports"][0].endswith(f":{options.port}")
    assert f":{options.port}/health" in services["web"]["healthcheck"]["test"][-1]
    jobs = read("prometheus/prometheus.yml")["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets == {"serving": ["serving:8501"], "web": [f"web:{options.metrics_port}"]}
    assert services["web"]["image"] == f"tf-transformer-web:{__version__}"


def test_services_that_talk_to_each_other_share_a_network(services):
    for one, other in (
        *(("web", "serving"), ("prometheus", "serving"), ("prometheus", "web")),
        ("grafana", "prometheus"),
    ):
        shared = set(services[one]["networks"]) & set(services[other]["networks"])
        assert shared & {"models", "monitoring"}, (one, other)
    assert "models" not in services["grafana"]["networks"]


def test_requirements(monkeypatch):
    """Those of the client, as docs/serving.md has them, and the extra `web`."""
    given = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **arguments: given.update(arguments))
    runpy.run_path(str(ROOT / "setup.py"))
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (names,) = re.findall(r"--no-deps tf-transformer && pip install (.+)", page)
    client = [
        requirement
        for requirement in given["install_requires"]
        if re.match(r"[\w-]+", requirement)[0] in names.split()
    ]
    lines = (SERVICE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    requirements = [line for line in lines if not line.startswith("#")]
    assert sorted(requirements) == sorted([*client, *given["extras_require"]["web"]])
    assert len(client) == len(names.split())


def test_the_image_is_built_from_what_the_wheel_needs():
    text = (SERVICE / "Dockerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    assert all((ROOT / name).exists() for name in copied)
    ignored = (SERVICE / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    # What the test of the wheel copies, too.
    (sources,) = (
        node.value
        for node in ast.parse((ROOT / "tests" / "test_wheel.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "SOURCES"
    )
    literals = {name.value for name in sources.elts if isinstance(name, ast.Constant)}
    assert literals < copied


@pytest.fixture(scope="module")
def exposed() -> set[str]:
    """The metrics of the web application."""
    pytest.importorskip("prometheus_client")
    from export.web.metrics import WebMetrics

    text = WebMetrics(1).text().decode()
    return set(re.findall(r"^(\w+)[ {]", text, re.MULTILINE))


def documented():
    """TF Serving's metrics in docs/service.md, with the names of a histogram's series."""
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    names = re.findall(r"`(:tensorflow:serving:[\w:]+)", page)
    return {f"{name}{suffix}" for name in names for suffix in ("", "_bucket", "_sum", "_count")}


def test_the_board_and_the_alerts_use_metrics_that_exist(board, exposed):
    (group,) = read("prometheus/alerts.yml")["groups"]
    expressions = queries(board) + [rule["expr"] for rule in group["rules"]]
    used = {name for expression in expressions for name in METRIC.findall(expression)}
    assert len(used) > 10
    assert used - exposed - documented() == {"up"}
    for rule in group["rules"]:
        assert rule["for"] and rule["annotations"]["summary"], rule["alert"]


def test_the_metrics_are_documented(exposed):
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    for name in exposed:
        base = re.sub("_(bucket|sum|count|created)$", "", name)
        assert base.startswith("process_") or base in page, name


def test_outcomes_of_the_board_and_the_alerts_exist(board):
    pytest.importorskip("prometheus_client")
    from export.web.metrics import OUTCOMES

    texts = [*queries(board), (SERVICE / "prometheus" / "alerts.yml").read_text(encoding="utf-8")]
    used = {
        outcome
        for text in texts
        for outcomes in re.findall(r'outcome(?:=~|!=|=)"([^"]+)"', text)
        for outcome in outcomes.split("|")
    }
    assert used and used <= set(OUTCOMES)


def test_the_board_uses_the_provisioned_source(board):
    (source,) = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    uids = set(re.findall(r'"uid": "(.+)"', BOARD.read_text(encoding="utf-8")))
    assert uids == {board["uid"], source["uid"]}
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read("grafana/provisioning/dashboards/translator.yaml")["providers"]
    (home,) = (
        value
        for name, value in read("compose.yaml")["services"]["grafana"]["environment"].items()
        if name == "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"
    )
    assert home == f"{provider['options']['path']}/{BOARD.name}"


def test_the_panels_do_not_overlap(board):
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not cells & taken and max(column for column, _ in cells) < 24, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
