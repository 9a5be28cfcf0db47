"""Imported M2M100 and NLLB models against Transformers, from the same random weights."""

import shutil

import numpy as np
import pytest

from tests.parity.hf_m2m100_model import write_folder
from tf_transformer import Translator, load_model
from tf_transformer.__main__ import main
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.text.framing import end_and_pad, prepend_begin, split_tags
from training.demo.corpus import generate_pairs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

ODD = [
    "Zoë's  naïve café\u2026 \u00bd",
    "\u4f60\u597d, world \U0001f600\U0001f601",
    "spaces   and\ttabs",  # Transformers 5 keeps spaces at both ends, unlike SentencePiece
    "x",
    "ALL CAPS 3,141.59 & <b>markup</b> e\u0301",
]
LENGTH = 24
NUM_TRANSLATED = 300
LANGUAGES = {
    "m2m100": ("en", "de"),
    "nllb": ("eng_Latn", "deu_Latn"),
    "nllb_saved": ("eng_Latn", "deu_Latn"),
}


class Both:
    """A model of Transformers, and the same imported.

    Attributes:
        module, theirs: the `M2M100ForConditionalGeneration` and its tokenizer.
        model, tokenizer: the imported model and its tokenizer, one for both sides.
        rows: their id of each of our ids.
        tags: the tags before each sentence: that of the target, that of the source.
        code: the target's id in their vocabulary.
    """

    def __init__(self, folder, lines, kind):
        self.folder = folder
        both_sides = [*lines[0], *lines[1]]
        self.module, self.theirs = write_folder(folder / "theirs", both_sides, kind)
        import_model(folder / "theirs", folder / "ours")
        self.model, self.tokenizer, _ = load_model(folder / "ours")
        source, target = LANGUAGES[kind]
        self.tags = f">>{target}<< >>{source}<< "
        codes = {f"\u2581>>{name}<<": name for name in self.theirs.get_vocab()}
        if kind == "m2m100":
            codes = {f"\u2581>>{name}<<": f"__{name}__" for name in self.theirs.lang_code_to_id}
        names = ["<pad>", "<unk>", "<s>", "</s>", *self.tokenizer.pieces[4:]]
        ids = self.theirs.get_vocab()
        found = [ids.get(codes.get(name, name)) for name in names]
        unnamed = iter(sorted(set(range(len(found))) - set(found)))  # in their order
        self.rows = np.array([next(unnamed) if row is None else row for row in found])
        self.code = self.rows[self.tokenizer.pieces.index(f"\u2581>>{target}<<")]


@pytest.fixture(scope="module")
def lines():
    pairs = generate_pairs(1000, seed=1)
    return [list(side) for side in zip(*pairs, strict=True)]


@pytest.fixture(scope="module", params=LANGUAGES)
def both(request, tmp_path_factory, lines):
    return Both(tmp_path_factory.mktemp("hf"), lines, request.param)


@pytest.mark.representatives("nllb")
def test_ids(both, lines):
    """Of 1,000 sentences and odd ones, with pieces that the vocabulary lacks and unknown ones."""
    texts = [*lines[0], *ODD]
    ours = both.tokenizer.tokenize([both.tags + text for text in texts]).to_list()
    theirs = both.theirs(texts)["input_ids"]
    unknown = 0
    for text, our_ids, their_ids in zip(texts, ours, theirs, strict=True):
        assert both.rows[our_ids[0]] == both.code
        assert [*both.rows[our_ids[1:]], 2] == their_ids, text
        unknown += our_ids.count(1)
    assert unknown > 5
    ours = both.tokenizer.tokenize(lines[1]).to_list()
    theirs = both.theirs(text_target=lines[1])["input_ids"]
    for our_ids, their_ids in zip(ours, theirs, strict=True):
        assert [both.code, *both.rows[our_ids], 2] == their_ids


@pytest.mark.representatives("m2m100", "nllb")
def test_logits(both, lines):
    tagged = both.tokenizer.tokenize([both.tags + text for text in lines[0][:16]])
    tags, source = split_tags(tagged, 1)
    source = end_and_pad(source).numpy()
    target = both.tokenizer.tokenize(lines[1][:16]).to_tensor().numpy()
    target = prepend_begin(np.concatenate([tags, target], axis=1)).numpy()
    computed = np.asarray(both.model({"source": source, "target": target}))
    their_target = both.rows[target]
    their_target[:, 0] = 2
    with torch.no_grad():
        expected = both.module(
            input_ids=torch.tensor(both.rows[source]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(their_target),
        ).logits.numpy()
    real = target != 0
    assert np.abs(expected).max() > 3
    np.testing.assert_allclose(computed[real], expected[..., both.rows][real], atol=1e-4)


def translate(both, texts, **options):
    ours = Translator(
        both.model, both.tokenizer, both.tokenizer,
        max_length_factor=0.0, max_length_constant=LENGTH, **options,
    )([both.tags + text for text in texts])  # fmt: skip
    theirs = []
    for start in range(0, len(texts), 100):
        batch = both.theirs(texts[start : start + 100], return_tensors="pt", padding=True)
        found = both.module.generate(
            **batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH + 1,
            forced_bos_token_id=int(both.code),
            suppress_tokens=[0, 1, 3],  # this project never produces them
        )  # fmt: skip
        ids = np.argsort(both.rows)[found.numpy()[:, 2:]]  # without the start and the code
        theirs += both.tokenizer.detokenize(ids.astype("int32")).numpy().tolist()
    return ours, [text.decode() for text in theirs]


@pytest.mark.representatives("nllb")
def test_greedy_translations(both, lines):
    ours, theirs = translate(both, lines[0][:NUM_TRANSLATED], beam_size=1)
    assert len(set(theirs)) > 5
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert not different, (len(different), different[:3])


@pytest.mark.parametrize("both", ["m2m100"], indirect=True)
def test_small100(both, lines, tmp_path, capsys):
    """The tag of the target is before the source, and the decoder begins without one."""
    folder = shutil.copytree(both.folder / "theirs", tmp_path / "theirs")
    (folder / "tokenization_small100.py").write_text("raise AssertionError('never run')")
    words = ["--input", str(folder), "--model-dir", str(tmp_path / "ours")]
    assert main(["import", *words]) == 0
    hint = capsys.readouterr().out.splitlines()[-1]
    model, tokenizer, _ = load_model(tmp_path / "ours")
    language = hint.partition("--target-language ")[2]
    assert f">>{language}<<" in tokenizer.languages and "--source-language" not in hint
    ours = Translator(
        model, tokenizer, tokenizer, beam_size=1, max_length_factor=0.0, max_length_constant=LENGTH
    )([">>de<< " + text for text in lines[0][:100]])
    both.theirs.src_lang = "de"  # the code before the source
    batch = both.theirs(lines[0][:100], return_tensors="pt", padding=True)
    both.theirs.src_lang = "en"
    found = both.module.generate(
        **batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH, suppress_tokens=[0, 1, 3]
    )
    ids = np.argsort(both.rows)[found.numpy()[:, 1:]]
    theirs = tokenizer.detokenize(ids.astype("int32")).numpy().tolist()
    assert len(set(theirs)) > 5
    assert ours == [text.decode() for text in theirs]


@pytest.mark.representatives("nllb")
def test_round_trip(both, tmp_path):
    """Through the format of `convert`, whose folders Transformers reads with other files."""
    convert_model(both.folder / "ours", "hf", tmp_path / "hf")
    module = transformers.M2M100ForConditionalGeneration.from_pretrained(tmp_path / "hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert isinstance(tokenizer, transformers.MarianTokenizer)
    code = tokenizer.convert_tokens_to_ids(both.tags.split()[0])
    text = "A man sleeps."
    batch = tokenizer([both.tags.split()[1] + " " + text], return_tensors="pt")
    found = module.generate(  # the code, the translation and its end
        **batch, num_beams=1, do_sample=False, max_new_tokens=LENGTH + 2, forced_bos_token_id=code
    )
    ids = found.numpy()[:, 2:].astype("int32")
    ours, _ = translate(both, [text], beam_size=1)
    assert both.tokenizer.detokenize(ids).numpy()[0].decode() == ours[0]

    import_model(tmp_path / "hf", tmp_path / "again")
    model, *_ = load_model(tmp_path / "again")
    assert model.config == both.model.config
    for ours, again in zip(both.model.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, again)
    for name in ("config.json", "source.spm", "target.spm"):
        first, second = (folder / name for folder in (both.folder / "ours", tmp_path / "again"))
        assert first.read_bytes() == second.read_bytes(), name
