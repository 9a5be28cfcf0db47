"""Unknown names of the Python API: the nearest known one is suggested, or all are listed."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pydoc
import re

import pytest

import training
from tf_transformer import Completer, SideConfig, TransformerConfig, Translator
from tf_transformer.confidence.confident_translator import ConfidentTranslator
from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.errors import InputError
from tf_transformer.hub import TransformerBackbone
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.known_names import check_names, keywords, nearest, suggest_arguments


def test_nearest():
    assert nearest("bass", ["tiny", "base"]) == "; did you mean 'base'?"
    assert nearest("xyzzy", ["tiny", "base"]) == ""
    assert nearest("num_beams", ["num_best", "beam_size"]) == "; did you mean 'beam_size'?"
    assert nearest("num_beams", ["num_best", "width"]) == "; did you mean 'num_best'?"


def test_all_are_listed_if_none_is_near():
    check_names(["a"], ["a", "b"])
    with pytest.raises(InputError, match=r"^Unknown letter: 'xyzzy'\. Known are a, b$"):
        check_names(["a", "xyzzy"], ["a", "b"], "letter")
    with pytest.raises(InputError, match=r"^Unknown option: 7\. Known are a$"):
        check_names([7], ["a"])


def test_a_decorated_function_is_the_same():
    @suggest_arguments
    def add(first, *, second=1):
        """Adds."""
        return first + second

    assert (add(1), add(1, second=2), add.__doc__) == (2, 3, "Adds.")
    assert keywords(add) == ["second"]
    with pytest.raises(InputError, match="Unknown argument: 'secnd'; did you mean 'second'"):
        add(1, secnd=2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'first'"):
        add(second=2)


VOCABULARIES = dict(source_vocab_size=9, target_vocab_size=9)
# What is called, and what the message says at its end.
CALLS = {
    "Translator.load": (
        lambda: Translator.load("nowhere", beamsize=4),
        "option: 'beamsize'; did you mean 'beam_size'?",
    ),
    "none near": (
        lambda: Translator.load("nowhere", xyzzy=4),
        "option: 'xyzzy'. Known are num_best, chunk_size, end_pieces, beam_size, length_penalty, "
        "max_length_factor, max_length_constant, compiled_shapes, shortlist, ensemble_weights, "
        "adapter, dtype",
    ),
    "of the load": (
        lambda: Translator.load("nowhere", adaptor=4), "option: 'adaptor'; did you mean 'adapter'?"
    ),
    "Translator": (
        lambda: Translator(None, None, None, lengthpenalty=4),
        "option: 'lengthpenalty'; did you mean 'length_penalty'?",
    ),
    "end ids": (  # the search's, which `end_pieces` sets
        lambda: Translator(None, None, None, end_ids=4),
        "option: 'end_ids'; did you mean 'end_pieces'?",
    ),
    "Completer.load": (
        lambda: Completer.load("nowhere", max_tokens=4),
        "option: 'max_tokens'; did you mean 'max_new_tokens'?",
    ),
    "Completer": (
        lambda: Completer(None, None, beamsize=4), "argument: 'beamsize'; did you mean 'beam_size'?"
    ),
    "TransformerConfig": (
        lambda: TransformerConfig(**VOCABULARIES, num_head=4),
        "setting of the model: 'num_head'; did you mean 'num_heads'?",
    ),
    "replace": (
        lambda: dataclasses.replace(TransformerConfig(**VOCABULARIES), dmodel=4),
        "setting of the model: 'dmodel'; did you mean 'd_model'?",
    ),
    "preset": (
        lambda: TransformerConfig.preset("tiny", **VOCABULARIES, num_head=4),
        "setting of the model: 'num_head'; did you mean 'num_heads'?",
    ),
    "SideConfig": (
        lambda: SideConfig(d_fff=4), "setting of one side: 'd_fff'; did you mean 'd_ff'?"
    ),
    "side": (
        lambda: TransformerConfig(**VOCABULARIES, encoder={"heads": 4}),
        "setting of the model: 'encoder.heads'; did you mean 'encoder.num_heads'?",
    ),
    "TransformerBackbone": (
        lambda: TransformerBackbone(**VOCABULARIES, d_mode=4),
        "setting of the model: 'd_mode'; did you mean 'd_model'?",
    ),
    "OptimizationConfig": (
        lambda: training.OptimizationConfig(step=4), "setting: 'step'; did you mean 'steps'?"
    ),
    "TrainingConfig": (
        lambda: training.TrainingConfig(pre_set="tiny"),
        "setting: 'pre_set'; did you mean 'preset'?",
    ),
    "train": (
        lambda: training.train(None, corpos="a"), "argument: 'corpos'; did you mean 'corpus'?"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_unknown_names(name):
    """In one line, and before any file is read."""
    call, message = CALLS[name]
    with pytest.raises(InputError, match=f"(?i)unknown {re.escape(message)}$"):
        call()


@pytest.mark.parametrize(
    ("owner", "method", "name", "option", "arguments"),
    [
        (Translator, "__call__", "beam_size", "beam_size", "sentences"),
        (Translator, "n_best", "num_beams", "beam_size", "sentences"),
        (Translator, "n_best", "shortlist", "shortlist", "sentences"),
        (Completer, "__call__", "max_new_tokens", "max_new_tokens", "texts"),
        (Completer, "complete", "num_beams", "beam_size", "text"),
    ],
)
def test_options_of_the_search_in_a_call(owner, method, name, option, arguments):
    """They belong to `load`; before anything is computed."""
    load = f"{owner.__name__}.load"
    with pytest.raises(InputError) as caught:
        getattr(owner, method)(owner.__new__(owner), ["a"], **{name: 3})
    assert str(caught.value) == (
        f"{option!r} is an option of `{load}`, for all calls: {load}(model_dir, {option}=...). "
        f"The arguments of a call are {arguments}; the options of `{load}` are "
        f"{', '.join(owner.load_options())}"
    )
    with pytest.raises(InputError, match=f"^Unknown argument: 'xyzzy'. Known are {arguments}$"):
        getattr(owner, method)(owner.__new__(owner), ["a"], xyzzy=3)


@pytest.mark.parametrize("method", [TermTranslator, ConfidentTranslator, DocumentTranslator])
def test_options_of_the_translator_within(method):
    translator = method.__new__(method)
    translator.translator = Translator.__new__(Translator)
    with pytest.raises(InputError, match=r"^'beam_size' is an option of `Translator\.load`"):
        translator(["a"], beam_size=3)


@pytest.mark.parametrize(
    ("package", "name", "meant"),
    [
        ("tf_transformer", "Translater", "Translator"),
        ("tf_transformer", "translator", "Translator"),
        ("tf_transformer", "paddingmask", "padding_mask"),
        ("tf_transformer.hub", "TransformerBackBone", "TransformerBackbone"),
        ("training", "make_confg", "make_config"),
        ("export", "export_translater", "export_translator"),
    ],
)
def test_unknown_attributes(package, name, meant):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; did you mean '{meant}'\?"):
        getattr(importlib.import_module(package), name)


@pytest.mark.parametrize("package", ["tf_transformer", "tf_transformer.hub", "training", "export"])
def test_modules_list_their_public_names(package):
    """And none of what they import or have imported."""
    module = importlib.import_module(package)
    found = dir(module)
    assert {name for name in found if not name.startswith("__")} == set(module.__all__)
    assert {"__all__", "__name__", "__doc__"} <= set(found)
    assert not hasattr(module, "__wrapped__") and hasattr(module, module.__all__[-1])


CONFIGS = [TransformerConfig, SideConfig, training.OptimizationConfig, training.DataConfig]


@pytest.mark.parametrize("config_class", CONFIGS)
def test_help_shows_plain_types(config_class):
    """The signature, which help begins with, has no ranges of pydantic's."""
    text = pydoc.plain(pydoc.render_doc(config_class))
    beginning = text[: text.index("Args:")]
    assert "FieldInfo" not in beginning and "Annotated" not in beginning
    assert " = " in beginning
    parameters = inspect.signature(config_class).parameters
    assert list(parameters) == [field.name for field in dataclasses.fields(config_class)]


def test_help_of_the_settings_of_a_model():
    signature = str(inspect.signature(TransformerConfig))
    assert "source_vocab_size: int | None = None" in signature.replace(
        "Optional[int]", "int | None"
    )
    assert "target_vocab_size: int," in signature
    assert "norm_position: Literal['post', 'pre'] = 'post'" in signature


def test_settings_are_ordinary_dataclasses():
    config = TransformerConfig(**VOCABULARIES, d_model=64)
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
    assert dataclasses.replace(config, d_model=128).d_model == 128
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 8
    with pytest.raises(TypeError, match="target_vocab_size"):
        TransformerConfig(source_vocab_size=9)
