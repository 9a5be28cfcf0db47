"""The settings of a run: defaults, the YAML file, single overrides, and one-line faults."""

import dataclasses
import itertools
import json
import os
import pathlib
import re

import pytest
import yaml

from tf_transformer import TransformerConfig
from tf_transformer.__main__ import main
from training.config import DataConfig, OptimizationConfig, TrainingConfig, VocabularyConfig
from training.settings import config_to_dict, make_config, read_settings

ALL_SETTINGS = """
preset: base
model: {d_model: 64, num_heads: 4, norm_position: pre}
vocabulary:
  size: 500
  kind: unigram
  joint: false
  byte_fallback: false
  split_digits: true
  character_coverage: 0.99
  normalization: identity
data: {batch_tokens: 100, max_length: 50, shuffle_buffer: 7}
optimization:
  steps: 30
  warmup_steps: 20
  learning_rate_factor: 0.5
  label_smoothing: 0
  checkpoint_every: 10
  keep_checkpoints: 2
  dtype: mixed_bfloat16
  seed: 0
"""


def load_config(path: pathlib.Path | None, overrides: dict[str, object]) -> TrainingConfig:
    return make_config(read_settings(path, overrides))


@pytest.fixture
def load(tmp_path):
    """A function that loads the text of a YAML file."""

    def load_text(text: str | bytes, **overrides) -> TrainingConfig:
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, overrides)

    return load_text


# ---- What is read ----


def test_norwegian_is_a_word(load):
    config = load("vocabulary:\n  languages: [de, no, on]\n  joint: false\n  split_digits: True\n")
    assert config.vocabulary.languages == ["de", "no", "on"]
    assert config.vocabulary.joint is False and config.vocabulary.split_digits is True


@pytest.mark.parametrize("section", ["model", "vocabulary", "data", "optimization", "validation"])
@pytest.mark.parametrize("value", [5, [3], "fast"])
def test_sections_hold_names_and_values(load, section, value):
    message = f"setting '{section}': expected names and values. Received: {value!r}"
    assert_refused(message, load_config, None, {section: value})
    assert_refused(message, load, yaml.safe_dump({section: value}))


def test_defaults():
    assert load_config(None, {}) == TrainingConfig(
        preset="tiny",
        model={},
        vocabulary=VocabularyConfig(
            size=8000,
            kind="bpe",
            joint=True,
            byte_fallback=True,
            split_digits=False,
            character_coverage=0.9999,
            normalization="nmt_nfkc",
        ),
        data=DataConfig(batch_tokens=4096, max_length=128, shuffle_buffer=200_000),
        optimization=OptimizationConfig(
            steps=10_000,
            warmup_steps=2000,
            learning_rate_factor=2.0,
            label_smoothing=0.1,
            checkpoint_every=500,
            keep_checkpoints=10,
            dtype="float32",
            seed=1,
        ),
    )


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "model: {}\n", "data: {}"])
def test_a_file_that_sets_nothing(load, text):
    assert load(text) == load_config(None, {})


def test_a_file_that_sets_everything(load):
    assert load(ALL_SETTINGS) == TrainingConfig(
        preset="base",
        model={"d_model": 64, "num_heads": 4, "norm_position": "pre"},
        vocabulary=VocabularyConfig(
            size=500,
            kind="unigram",
            joint=False,
            byte_fallback=False,
            split_digits=True,
            character_coverage=0.99,
            normalization="identity",
        ),
        data=DataConfig(batch_tokens=100, max_length=50, shuffle_buffer=7),
        optimization=OptimizationConfig(
            steps=30,
            warmup_steps=20,
            learning_rate_factor=0.5,
            label_smoothing=0.0,
            checkpoint_every=10,
            keep_checkpoints=2,
            dtype="mixed_bfloat16",
            seed=0,
        ),
    )


def test_single_values_of_a_file(load):
    assert load("optimization:\n  steps: 7\n") == load_config(None, {"optimization.steps": 7})


def test_overrides_win(load):
    overrides = {
        "preset": "big",
        "optimization.steps": 5,
        "model.d_ff": 99,
        "vocabulary.kind": "char",
    }
    config = load(ALL_SETTINGS, **overrides)
    expected = config_to_dict(load(ALL_SETTINGS))
    expected["preset"] = "big"
    expected["optimization"]["steps"] = 5
    expected["model"]["d_ff"] = 99
    expected["vocabulary"]["kind"] = "char"
    assert config_to_dict(config) == expected


def test_overrides_without_a_file():
    config = load_config(None, {"data.max_length": 9, "model.dropout_rate": 0.5})
    expected = TrainingConfig(model={"dropout_rate": 0.5}, data=DataConfig(max_length=9))
    assert config == expected


def test_nothing_of_an_override_stays_behind():
    load_config(None, {"model.d_ff": 99, "data.max_length": 9})
    assert load_config(None, {}) == TrainingConfig()


@pytest.mark.parametrize("text", ["", ALL_SETTINGS])
def test_dumped_settings_load_again(load, text):
    config = load(text)
    dumped = config_to_dict(config)
    assert make_config(dumped) == config
    assert load(yaml.safe_dump(dumped)) == config
    assert json.loads(json.dumps(dumped)) == dumped


# ---- What the model gets ----


def test_preset_and_model_settings_reach_the_model():
    overrides = {"preset": "base", "model.d_ff": 99, "model.num_heads": 4, "model.dropout_rate": 0}
    found = load_config(None, overrides).transformer_config(70, 70)
    expected = TransformerConfig.preset("base", source_vocab_size=70, target_vocab_size=70)
    assert found == dataclasses.replace(
        expected,
        d_ff=99,
        num_heads=4,
        dropout_rate=0,
        tied_embeddings="all",
    )


@pytest.mark.parametrize(
    ("overrides", "sizes", "tied"),
    [
        ({}, (70, 70), "all"),
        ({"vocabulary.joint": False}, (70, 80), "target"),
        # Two vocabularies of one size are still two.
        ({"vocabulary.joint": False}, (70, 70), "target"),
        ({"model.tied_embeddings": "none"}, (70, 70), "none"),
        ({"model.tied_embeddings": "target"}, (70, 70), "target"),
    ],
)
def test_embeddings_are_tied_as_vocabularies_are_joined(overrides, sizes, tied):
    config = load_config(None, overrides).transformer_config(*sizes)
    assert config.tied_embeddings == tied
    assert (config.source_vocab_size, config.target_vocab_size) == sizes


# ---- What is refused ----


def assert_refused(message: str, load, *arguments, **overrides):
    """Exactly this message; `{path}` stands for a file's name, `...` for some words."""
    with pytest.raises(ValueError) as raised:
        load(*arguments, **overrides)
    found = re.sub(r"\S*config\.yaml", "{path}", str(raised.value))
    assert re.fullmatch(re.escape(message).replace(re.escape("..."), ".+"), found), found


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("presett", "preset"),
        ("vocab", "vocabulary"),
        ("optimisation", "optimization"),
        ("models", "model"),
        ("vocabulary.sise", "vocabulary.size"),
        ("vocabulary.byte_fall_back", "vocabulary.byte_fallback"),
        ("data.batch_token", "data.batch_tokens"),
        ("data.maxlength", "data.max_length"),
        ("optimization.warm_up_steps", "optimization.warmup_steps"),
        ("optimization.lerning_rate_factor", "optimization.learning_rate_factor"),
        ("steps", "optimization.steps"),
        ("dropout_rate", "model.dropout_rate"),
        ("warmup", "optimization.warmup_steps"),
        ("d_model", "model.d_model"),
        ("xyzzy", None),
    ],
)
def test_unknown_settings(load, name, nearest):
    suggestion = f"; did you mean '{nearest}'?" if nearest else ""
    message = f"unknown setting '{name}'{suggestion}"
    assert_refused(message, load_config, None, {name: 3})
    outer, _, inner = name.partition(".")
    assert_refused(message, load, f"{outer}: {{{inner}: 3}}" if inner else f"{outer}: 3")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        (
            "optimization.steps",
            "; settings are nested: did you mean {'optimization': {'steps': ...}}?",
        ),
        ("model.d_model", "; settings are nested: did you mean {'model': {'d_model': ...}}?"),
        ("optimization.stepz", "; did you mean 'optimization.steps'?"),
        ("model.source_vectors", "; did you mean 'vocabulary.source_vectors'?"),
    ],
)
def test_dotted_names_are_for_the_command_line(load, name, suggestion):
    assert_refused(f"unknown setting '{name}'{suggestion}", make_config, {name: 5})
    assert_refused(f"unknown setting '{name}'{suggestion}", load, f"{name}: 5")


@pytest.mark.parametrize("name", ["vocabulary", "data", "optimization"])
def test_unknown_settings_far_from_all_others(load, name):
    with pytest.raises(ValueError, match=rf"^unknown setting '{name}\.q'"):
        load(f"{name}: {{q: 3}}")


def test_unknown_settings_of_the_model(load):
    message = "Unknown setting of the model: 'num_head'; did you mean 'num_heads'?"
    assert_refused(message, load, "model: {num_head: 4}")
    assert_refused(message, load_config, None, {"model.num_head": 4})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocabulary.size", 0),
        ("vocabulary.size", "many"),
        ("vocabulary.size", None),
        ("vocabulary.kind", "word"),
        ("vocabulary.joint", 2),
        ("vocabulary.byte_fallback", "perhaps"),
        ("vocabulary.character_coverage", 0),
        ("vocabulary.character_coverage", 1.1),
        ("vocabulary.normalization", "none"),
        ("data.batch_tokens", -5),
        ("data.max_length", 1.5),
        ("data.shuffle_buffer", [3]),
        ("optimization.steps", 0),
        ("optimization.warmup_steps", 0),
        ("optimization.learning_rate_factor", 0),
        ("optimization.learning_rate_factor", float("nan")),
        ("optimization.label_smoothing", 1),
        ("optimization.label_smoothing", -0.1),
        ("optimization.checkpoint_every", {"steps": 3}),
        ("optimization.keep_checkpoints", 0),
        ("optimization.dtype", "float16"),
        ("optimization.seed", -1),
    ],
)
def test_wrong_values(load, name, value):
    message = f"setting '{name}': input should .... Received: {value!r}"
    assert_refused(message, load_config, None, {name: value})
    outer, _, inner = name.partition(".")
    assert_refused(message, load, yaml.safe_dump({outer: {inner: value} if inner else value}))


def test_messages_say_what_is_expected():
    message = "setting 'optimization.steps': input should be greater than 0. Received: 0"
    assert_refused(message, load_config, None, {"optimization.steps": 0})
    kinds = "'bpe', 'unigram' or 'char'"
    message = f"setting 'vocabulary.kind': input should be {kinds}. Received: 'word'"
    assert_refused(message, load_config, None, {"vocabulary.kind": "word"})


def test_unknown_preset(load):
    message = "setting 'preset': input should be 'tiny', 'base', 'big', .... Received: "
    assert_refused(message + "'bas'; did you mean 'base'?", load, "preset: bas")
    assert_refused(message + "7", load, "preset: 7")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model.num_heads": 3},
            "`num_heads` must divide `d_model`. Received: num_heads=3, d_model=128",
        ),
        (
            {"model.d_model": "8"},
            "`d_model` must be a valid integer. Received: d_model='8'",
        ),
        (
            {"model.dropout_rate": 1},
            "`dropout_rate` must be less than 1. Received: dropout_rate=1",
        ),
        (
            {"model.norm_position": "mid"},
            "`norm_position` must be 'post' or 'pre'. Received: norm_position='mid'",
        ),
    ],
)
def test_settings_of_the_model_are_checked_at_once(settings, message):
    assert_refused(message, load_config, None, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"model.source_vocab_size": 7},
        {"model.target_vocab_size": 7},
        {"model.layer_norm_epsilon": "small"},
    ],
)
def test_more_settings_of_the_model_are_checked_at_once(settings):
    (name,) = (name.removeprefix("model.") for name in settings)
    with pytest.raises(ValueError, match=name):
        load_config(None, settings)


def test_one_matrix_for_two_vocabularies_is_refused():
    with pytest.raises(ValueError, match="tied_embeddings"):
        load_config(None, {"vocabulary.joint": False, "model.tied_embeddings": "all"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocabulary.character_coverage", 0.5),  # SentencePiece: at least 0.98
        ("optimization.seed", 2**32),  # NumPy, by keras.utils.set_random_seed
        ("optimization.learning_rate_factor", float("inf")),
    ],
)
def test_values_out_of_the_range_of_libraries_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        load_config(None, {name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "{path}: not YAML (...)"),
        ("\ta: 1", "{path}: not YAML (...)"),
        ("a: b: c", "{path}: not YAML (...)"),
        ("? [a]\n: b", "{path}: not YAML (...)"),
        ("!!python/object/apply:os.getcwd []", "{path}: not YAML (...)"),
        (b"\xff\xfd", "{path}: not UTF-8 (invalid start byte)"),
        ("a: \0", "{path}: not YAML (...)"),
        ("tiny", "{path}: expected `name: value` lines, got 'tiny'"),
        ("- preset", "{path}: expected `name: value` lines, got ['preset']"),
        ("7", "{path}: expected `name: value` lines, got 7"),
        ("1: 2", "setting '1': .... Received: 1"),
    ],
)
def test_files_that_are_not_settings(load, text, message):
    assert_refused(message, load, text)


@pytest.mark.parametrize("text", ["[]", "0", "false", "''"])
def test_more_files_that_are_not_settings(load, text):
    with pytest.raises(ValueError, match="expected `name: value` lines"):
        load(text)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "sparse"])
def test_files_that_are_no_files_of_settings(no_hang, tmp_path, kind):
    path = tmp_path / "config.yaml"
    message = f"expected a regular file, got a {kind}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        message = "expected at most 1,048,576 bytes, got 1,099,511,627,776"
        with open(path, "wb") as file:
            file.truncate(2**40)
    assert_refused(f"{{path}}: {message}", load_config, path, {})


def test_a_text_is_not_shown_whole(load):
    with pytest.raises(ValueError, match=r"config.yaml: expected `name: value` lines, got 'a dog "):
        load("a dog runs\n" * 1000)
    with pytest.raises(ValueError) as raised:
        load("a dog runs\n" * 1000)
    assert len(str(raised.value)) < 500


NESTED = [[[[[[1]]]]]]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("optimization.steps", NESTED, "[[[[...]]]]"),
        ("optimization.steps", 10**5000, "a value of type int that cannot be shown"),
        ("model.d_model", NESTED, "d_model=[[[[...]]]]"),
        ("model.num_heads", -(10**5000), "num_heads=a value of type int that cannot be shown"),
        ("model.d_ff", 10**5000, "d_ff=a value of type int that cannot be shown"),
        ("model.dropout_rate", ["x"] * 1000, "dropout_rate=['x', ..., ...]"),
        ("model.norm_position", "x" * 10_000, "norm_position='xx...xx'"),
        ("model.encoder", "x" * 10_000, "encoder='xx...xx'"),
        ("preset", "x" * 10_000, "'xx...xx'"),
        ("data", "x" * 10_000, "'xx...xx'"),
    ],
    ids=itertools.count(),  # some values have no other
)
def test_what_came_is_shortened(name, value, shown):
    assert_refused(f"...Received: {shown}", load_config, None, {name: value})
    with pytest.raises(ValueError) as raised:
        load_config(None, {name: value})
    assert len(str(raised.value)) < 500


def test_names_cannot_control_the_terminal(tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text('"\\e]0;owned\\a": 1\n')
    name = r"\x1b]0;owned\x07"
    assert_refused(f"unknown setting '{name}'", load_config, path, {})
    files = ("--target", str(path), "--validation-target", str(path), "--model-dir", "\x1b[2J")
    assert main(["train", *files, "--config", str(path)]) == 2
    assert main(["train", *files, "--set", "model.\x1b[2J=1"]) == 2
    assert main(["average", "--last", "1", *files[-2:]]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines), lines


def test_no_such_file(tmp_path):
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/nowhere: no such file$"):
        load_config(tmp_path / "nowhere", {})


def test_overrides_of_values_that_hold_no_others(load):
    message = "'preset' is a single value and has no setting 'size'"
    assert_refused(message, load, "preset: tiny", **{"preset.size": 3})
    message = "'data' is a single value and has no setting 'max_length'"
    assert_refused(message, load, "data: 3", **{"data.max_length": 3})


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("preset", "bas", "base"),
        ("optimization.steps", "abc", 5),
        ("optimization.seed", -1, 5),
        ("optimization.checkpoint_every", 0, 5),
        ("vocabulary.size", 2.5, 500),
        ("optimization", {"steps": "abc"}, {"steps": 5}),
        ("optimization.stesp", 5, 6),
    ],
)
def test_a_wrong_value_is_not_hidden_by_one_that_replaces_it(load, name, wrong, right):
    with pytest.raises(ValueError, match=re.escape(name)) as expected:
        load_config(None, {name: wrong})
    message = re.escape(str(expected.value))
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_settings(None, {name: wrong}, {name: right})
    section, _, inner = name.partition(".")
    text = yaml.safe_dump({section: {inner: wrong} if inner else wrong})
    with pytest.raises(ValueError, match=f"^{message}$"):
        load(text, **{name: right})


@pytest.mark.parametrize("option", ["--config", "--set"])
@pytest.mark.parametrize(
    ("name", "wrong", "options"),
    [
        ("optimization.steps", "abc", ["--steps", "5"]),
        ("optimization.seed", "abc", ["--seed", "5"]),
        ("optimization.checkpoint_every", "abc", ["--checkpoint-every", "5"]),
        ("vocabulary.size", "abc", ["--vocab-size", "500"]),
        ("preset", "abc", ["--preset", "base"]),
        ("optimization.steps", "abc", ["--set", "optimization.steps=5"]),
    ],
)
def test_a_wrong_value_is_not_hidden_by_an_option(tmp_path, capsys, option, name, wrong, options):
    section, _, inner = name.partition(".")
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({section: {inner: wrong} if inner else wrong}))
    given = [option, str(path) if option == "--config" else f"{name}={wrong}", *options]
    commands = [["train", "--validation-target", "v", "--model-dir", str(tmp_path / "m")]]
    if "--vocab-size" in options or "--set" in options:
        commands.append(["prepare", "--output", str(tmp_path / "o")])
    for command in commands:
        assert main([*command, "--target", str(path), *given]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"tf-transformer: error: setting '{name}': input should be")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "wrong", "right", "message"),
    [
        ("model.d_model", "abc", 8, "valid integer. Received: model.d_model='abc'"),
        ("model.norm_position", "middle", "pre", "'post' or 'pre'. Received: model.norm_position"),
        ("model.encoder.d_ff", 0, 8, "greater than or equal to 1. Received: model.encoder.d_ff=0"),
    ],
)
def test_a_wrong_setting_of_the_model_is_not_hidden(name, wrong, right, message):
    with pytest.raises(ValueError, match=f"^`{name}` must be .*{message}"):
        read_settings(None, {name: wrong}, {name: right})
    section, inner = name.rsplit(".", 1)
    assert inner in str(read_settings(None, {name: right}, {name: right}))
    with pytest.raises(ValueError, match=f"^unknown setting '{section}.unknown'"):
        read_settings(None, {f"{section}.unknown": 1}, {f"{section}.unknown": 2})


def test_a_right_value_is_replaced(load):
    assert load("optimization: {steps: 7}", **{"optimization.steps": 5}).optimization.steps == 5
    settings = read_settings(None, {"preset": "base"}, {"preset": "big", "data.max_length": 9})
    assert settings == {"preset": "big", "data": {"max_length": 9}}


@pytest.mark.parametrize("name", ["", ".", "data.", ".data", "data..max_length"])
def test_overrides_without_a_name(name):
    with pytest.raises(ValueError, match=r"^unknown setting '"):
        load_config(None, {name: 3})


def test_sections_of_comments_alone(load):
    assert load("optimization:  # nothing yet\nvocabulary:") == load("{}")
    nested = "data:\n  noise:  # nothing yet"
    name = "data.noise.typos"
    assert load(nested, **{name: 0.1}).data.noise.typos == 0.1


def test_numbers_in_scientific_notation(load):
    config = load("model: {layer_norm_epsilon: 1e-5}\noptimization: {learning_rate_factor: 5E-1}")
    assert config.model["layer_norm_epsilon"] == 1e-5
    assert config.optimization.learning_rate_factor == 0.5


@pytest.mark.parametrize("name", ["optimization.steps", "data.max_length", "optimization.seed"])
def test_true_is_no_number(name):
    with pytest.raises(ValueError, match=f"setting '{name}': input should be a valid integer"):
        load_config(None, {name: True})


def test_learned_positions_must_reach():
    settings = {"model.positions": "learned", "model.max_length": 64}
    message = (
        "'data.max_length: 128' exceeds the number of learned positions, 'model.max_length: 64'"
    )
    with pytest.raises(ValueError, match=message):
        load_config(None, settings)
    assert load_config(None, settings | {"data.max_length": 64})
