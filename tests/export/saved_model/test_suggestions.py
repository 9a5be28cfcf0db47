"""Files beside the versions: updated as long as nobody has edited them, and never lost."""

import pathlib
import re
import stat
import subprocess

import pytest

from export.saved_model.deployment import describe_deployment, write_deployment
from export.saved_model.suggestions import MARK, describe_kept, is_unedited, write_suggestion

NAMES = ("models.config", "batching_parameters.txt", "session_config.txt", "README.md")

# What `export --signatures tokens` wrote on TensorFlow 2.21.0 before there were digests, at commit
# 1c712d8.
FORMER = {
    "models.config": """# written by tf-transformer export
model_config_list {
  config {
    name: "translator"
    base_path: "/models/translator"
    model_platform: "tensorflow"
  }
}
""",
    "batching_parameters.txt": """# written by tf-transformer export
max_batch_size { value: 32 }
batch_timeout_micros { value: 5000 }
max_enqueued_batches { value: 1000 }
num_batch_threads { value: 2 }
""",
    "README.md": """# A translator for TF Serving

Serve it (TF Serving of TensorFlow 2.21.0 or newer; its stock image has all that is needed):

    docker run --rm -p 8500:8500 -p 8501:8501 -v "DIRECTORY:/models/translator" \\
        tensorflow/serving --model_config_file=/models/translator/models.config \\
        --enable_batching --batching_parameters_file=/models/translator/batching_parameters.txt

Ask it with `export.client.Client`, over REST or gRPC, without TensorFlow.
What its signatures take: http://localhost:8501/v1/models/translator/metadata

Signatures: `tokens`.

A new export appears here under the next number, whole; the server changes over to it by itself.
What each version is: `model.json` in its folder.

<!-- written by tf-transformer export -->
""",
}

# The same file of `export --signatures serving_default`.
FORMER_TEXT_README = """# A translator for TF Serving

Serve it (TF Serving of TensorFlow 2.21.0 or newer; its stock image has all that is needed):

    docker run --rm -p 8500:8500 -p 8501:8501 -v "DIRECTORY:/models/translator" \\
        tensorflow/serving --model_config_file=/models/translator/models.config \\
        --enable_batching --batching_parameters_file=/models/translator/batching_parameters.txt

Ask it over REST:

    curl -d '{"inputs": {"text": ["A sentence to translate."]}}' \\
        http://localhost:8501/v1/models/translator:predict

or from Python, over gRPC, without TensorFlow:

    from export.client import Client

    with Client("localhost:8500", model="translator", protocol="grpc", max_batch_size=32) as client:
        print(client.predict({"text": ["A sentence to translate."]}))

or a whole file:

    tf-transformer translate --server localhost:8501 --input F --output G

Signatures: `serving_default`.

A new export appears here under the next number, whole; the server changes over to it by itself.
What each version is: `model.json` in its folder.

<!-- written by tf-transformer export -->
"""

# Each of them an operator's edit of `models.config`.
EDITS = {
    "value": lambda text: text.replace("/models/translator", "/srv/models"),
    "new model": lambda text: text.replace("list {\n", 'list {\n  config { name: "other" }\n'),
    "appended": lambda text: text + "\n",
    "line ends": lambda text: text.replace("\n", "\r\n"),
    "digest": lambda text: text.replace("digest ", "digest 0", 1),
    "mark": lambda text: text.partition("\n")[2],
    "comment": lambda text: "# ours\n" + text,
    "emptied": lambda text: "",
}


@pytest.fixture
def written(tmp_path):
    """A directory beside whose versions nothing has been edited."""
    write_deployment(tmp_path, ["serving_default"])
    return tmp_path


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_unedited_files_are_updated_silently(written):
    before = contents(written)
    write_deployment(written, ["tokens"])
    assert sorted(contents(written)) == sorted(NAMES)
    assert contents(written)["README.md"] != before["README.md"]
    assert "`tokens`" in (written / "README.md").read_text()
    assert describe_deployment(written) == [
        f"{written / 'README.md'}: how to serve the model and send it requests"
    ]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_kept_and_the_new_one_lies_beside(written, edit):
    path = written / "models.config"
    unedited = path.read_bytes()
    path.write_bytes(EDITS[edit](path.read_bytes().decode()).encode())
    edited = path.read_bytes()
    assert edited != unedited
    for _ in range(2):  # the second time, the new one is there already
        write_deployment(written, ["serving_default"])
        assert path.read_bytes() == edited
        assert (written / "models.config.new").read_bytes() == unedited
    guide, kept = describe_deployment(written)
    assert guide == f"{written / 'README.md'}: how to serve the model and send it requests"
    assert kept.startswith(f"{path} may have been edited and was kept; models.config.new is what")


def test_every_file_is_kept(written):
    for name in NAMES:
        (written / name).write_text("ours")
    write_deployment(written, ["serving_default"])
    for name in NAMES:
        assert (written / name).read_text() == "ours"
        assert is_unedited(written / f"{name}.new")
    lines = describe_deployment(written)
    assert [line.split()[0] for line in lines] == [str(written / name) for name in NAMES]


def test_a_suggestion_that_nobody_edited_is_replaced(written):
    (written / "README.md").write_text("ours")
    write_deployment(written, ["serving_default"])
    former = (written / "README.md.new").read_bytes()
    write_deployment(written, ["tokens"])
    assert (written / "README.md").read_text() == "ours"
    assert (written / "README.md.new").read_bytes() != former
    assert "`tokens`" in (written / "README.md.new").read_text()


def test_an_edited_suggestion_is_kept_too(written):
    (written / "models.config").write_text("ours")
    (written / "models.config.new").write_text("ours as well")
    before = contents(written)
    write_deployment(written, ["serving_default"])
    assert contents(written) == before
    (line,) = describe_deployment(written)[1:]
    assert line.startswith(
        f"{written / 'models.config'} and models.config.new may have been edited"
    )
    assert "rename or remove models.config.new" in line


def test_a_suggestion_that_is_taken_over_is_updated_again(written):
    path = written / "README.md"
    path.write_text("ours")
    write_deployment(written, ["serving_default"])
    (written / "README.md.new").rename(path)
    write_deployment(written, ["tokens"])
    assert "`tokens`" in path.read_text()
    assert sorted(contents(written)) == sorted(NAMES)


def former(name, directory):
    return FORMER[name].replace("DIRECTORY", str(directory.resolve()))


@pytest.mark.parametrize("name", FORMER)
def test_files_without_a_digest(tmp_path, monkeypatch, name):
    """They have the mark alone: unedited if they are what was written then, else edited."""
    monkeypatch.setattr("export.saved_model.deployment.tf.__version__", "2.21.0")
    path = tmp_path / name
    path.write_text(former(name, tmp_path))
    write_deployment(tmp_path, ["tokens"])
    assert is_unedited(path)
    assert sorted(contents(tmp_path)) == sorted(NAMES)
    edited = former(name, tmp_path).replace("translator", "other").replace("5000", "0")
    path.write_text(edited)
    write_deployment(tmp_path, ["tokens"])
    assert path.read_text() == edited
    assert is_unedited(tmp_path / f"{name}.new")


def test_a_guide_to_text_requests_without_a_digest(tmp_path, monkeypatch):
    monkeypatch.setattr("export.saved_model.deployment.tf.__version__", "2.21.0")
    path = tmp_path / "README.md"
    path.write_text(FORMER_TEXT_README.replace("DIRECTORY", str(tmp_path.resolve())))
    write_deployment(tmp_path, ["serving_default"])
    assert is_unedited(path)
    assert "Send requests over REST:" in path.read_text()


def test_a_link_is_followed_where_its_file_is_unedited(written, tmp_path_factory):
    real = tmp_path_factory.mktemp("etc") / "README.md"
    (written / "README.md").rename(real)
    (written / "README.md").symlink_to(real)
    write_deployment(written, ["tokens"])
    assert (written / "README.md").is_symlink()
    assert "`tokens`" in real.read_text()
    real.write_text("ours")
    write_deployment(written, ["tokens"])
    assert real.read_text() == "ours"
    assert not (written / "README.md.new").is_symlink()


def test_nothing_is_written_through_a_link_to_nothing(tmp_path):
    directory = tmp_path / "served"
    directory.mkdir()
    for name in ("models.config", "README.md", "README.md.new"):
        (directory / name).symlink_to(f"../victim-{name}")
    write_deployment(directory, ["tokens"])
    assert list(tmp_path.iterdir()) == [directory]
    assert (directory / "models.config").is_symlink()
    assert is_unedited(directory / "models.config.new")
    assert (directory / "README.md.new").is_symlink()
    assert len(describe_deployment(directory)) == 2


@pytest.mark.parametrize("mode", [0o444, 0o640])
def test_a_file_that_is_updated_keeps_its_mode(written, mode):
    path = written / "README.md"
    path.chmod(mode)
    write_deployment(written, ["tokens"])
    assert "`tokens`" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("name", ["served", "a b$(id)`id`\"q'\\", "line\nfeed", "$folder"])
def test_the_commands_of_the_guide_name_the_folder(tmp_path, name):
    """As a shell reads it, whatever the name contains."""
    directory = tmp_path / name
    directory.mkdir()
    write_deployment(directory, ["tokens"])
    guide = (directory / "README.md").read_text()
    words = words_of(guide, "docker run")
    assert words[words.index("-v") + 1] == f"{directory}:/models/translator"
    assert words[-2:] == [
        "--grpc_max_threads=64",
        "--tensorflow_session_config_file=/models/translator/session_config.txt",
    ]
    assert words_of(guide, "tensorflow_model_server") == [
        "--port=8500",
        "--rest_api_port=8501",
        "--model_name=translator",
        f"--model_base_path={directory}",
        "--enable_batching",
        f"--batching_parameters_file={directory}/batching_parameters.txt",
        "--grpc_max_threads=64",
        f"--tensorflow_session_config_file={directory}/session_config.txt",
    ]


def words_of(guide, program):
    """The arguments of a command of the guide, as a shell reads them."""
    command = guide[guide.index(f"    {program}") :].partition("\n\n")[0]
    shown = subprocess.run(
        ["bash", "-c", command.replace(program, "printf '%s\\0'", 1)],
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.split("\0")[:-1]


@pytest.mark.parametrize(("is_compiled", "micros"), [(False, 5000), (True, 1000)])
def test_a_compiled_search_waits_less_for_a_batch(tmp_path, is_compiled, micros):
    write_deployment(tmp_path, ["tokens"], is_compiled=is_compiled)
    settings = (tmp_path / "batching_parameters.txt").read_text()
    assert f"batch_timeout_micros {{ value: {micros} }}" in settings
    guide = (tmp_path / "README.md").read_text()
    assert f"A request waits up to {micros // 1000} ms for others" in guide
    assert ("--xla_cpu_compilation_enabled=true" in words_of(guide, "docker run")) == is_compiled
    server = words_of(guide, "tensorflow_model_server")
    assert ("--xla_cpu_compilation_enabled=true" in server) == is_compiled


def test_what_is_no_file_is_kept(written):
    (written / "models.config").unlink()
    (written / "models.config").mkdir()
    write_deployment(written, ["tokens"])
    assert (written / "models.config").is_dir()
    assert is_unedited(written / "models.config.new")


def test_a_write_that_fails_leaves_the_former_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_suggestion(path, f"# {MARK}\nold\n")
    before = contents(tmp_path)

    def fail(self, content):
        self.touch()
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(pathlib.Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left on device"):
        write_suggestion(path, f"# {MARK}\nnew\n")
    assert contents(tmp_path) == before


def test_the_lines_name_whole_paths(tmp_path):
    path = tmp_path / "a b" / "file"
    path.parent.mkdir()
    path.write_text("ours")
    write_suggestion(path, f"# {MARK}\nnew\n")
    assert describe_kept(path).startswith(f"{path} may")


def test_the_server_is_shown_to_this_machine_alone(written):
    """TF Serving asks nobody who they are, and docker publishes to every network by default."""
    (command,) = re.findall(r"docker run(?:.*\\\n)*.*", (written / "README.md").read_text())
    ports = re.findall(r" -p (\S+)", command)
    assert sorted(ports) == ["127.0.0.1:8500:8500", "127.0.0.1:8501:8501"]


def test_the_page_on_serving_names_these_settings(written):
    page = (pathlib.Path(__file__).parents[3] / "docs/serving.md").read_text(encoding="utf-8")
    settings = dict(
        re.findall(r"(\w+) \{ value: (\d+) }", (written / "batching_parameters.txt").read_text())
    )
    milliseconds = int(settings["batch_timeout_micros"]) / 1000
    assert f"a request waits up to {milliseconds:g} ms" in page
    assert f"a batch has at most {settings['max_batch_size']} rows" in page
    assert f"{settings['num_batch_threads']} batches are computed at a time" in page
    assert f"`max_enqueued_batches`, here {int(settings['max_enqueued_batches']):,}," in page
