"""Settings that a folder lacks have the values of Transformers' classes."""

import json

import pytest

from tf_transformer.formats.hf import generation
from tf_transformer.formats.hf.folder import (
    ALIASES,
    DEFAULTS,
    Seq2SeqSettings,
    check_settings,
    read_files,
)

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.parity

CLASSES = {
    "marian": "MarianConfig",
    "m2m_100": "M2M100Config",
    "mbart": "MBartConfig",
    "bart": "BartConfig",
    "pegasus": "PegasusConfig",
}
# Not settings of the class.
_ONE_VOCABULARY = {"decoder_vocab_size", "share_encoder_decoder_embeddings"}
OWN = {name: set() if name == "marian" else _ONE_VOCABULARY for name in CLASSES}
# A setting that a folder must have.
NEEDED = {"mbart": {"decoder_start_token_id": 2}}


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_defaults(model_type, tmp_path):
    """Every setting that `import` reads, from a file without any."""
    config = getattr(transformers, CLASSES[model_type])()
    read = set(Seq2SeqSettings.model_fields) - {"model_type", "language_tags"}
    assert set(DEFAULTS[model_type]) == read
    needed = NEEDED.get(model_type, {})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type} | needed))
    settings, _ = check_settings(read_files(tmp_path), {"model_type": model_type})
    assert all(not hasattr(config, name) for name in OWN[model_type])
    for name in read - OWN[model_type] - set(needed):
        value = getattr(settings, name)
        if name == "decoder_vocab_size":
            value = value or settings.vocab_size
        assert value == getattr(config, name, None), name
    assert all(getattr(config, name) is None for name in needed)
    assert config.attribute_map == ALIASES


def test_names_of_generation():
    """That no setting is looked for in vain."""
    known = vars(transformers.GenerationConfig())
    names = {generation.FORCED_BEGIN, generation._BANNED, generation._BANNED_SEQUENCES}
    names |= {*generation._OPTIONS, *generation._REFUSED}
    assert names - set(known) <= {"forced_decoder_ids"}  # of older versions
    for name, neutral in generation._OPTIONS.items():
        if name != "num_beams":  # a default of this project
            assert known.get(name) is None or known[name] in neutral, name


@pytest.mark.parametrize("model_type", DEFAULTS)
@pytest.mark.parametrize("setting", ["forced_bos_token_id", "eos_token_id"])
def test_generation_config_wins(model_type, setting, tmp_path):
    """As in `from_pretrained`."""
    config = {"model_type": model_type} | NEEDED.get(model_type, {}) | {setting: 7}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text(json.dumps({setting: 8}))
    theirs = transformers.GenerationConfig.from_pretrained(tmp_path)
    assert getattr(theirs, setting) == 8
    if setting == "eos_token_id":
        settings, _ = check_settings(read_files(tmp_path), {"model_type": model_type})
        assert settings.eos_token_id == 8
    else:
        assert generation.Generation(read_files(tmp_path)).forced_begin() == 8
