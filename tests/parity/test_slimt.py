"""slimt, which runs the models of Firefox, and the same files imported here.

slimt 0.1.0 adds the sinusoid of position 0 to every token that it has produced
(`transform_embedding` in its slimt/Transformer.cc; Marian counts), and ends at 1.5 times the length
of the source. So it is compared with the imported model whose decoder has position 0 everywhere, as
learned positions, up to where it ends. Needs `pip install slimt==0.1.0`, or the Python of another
environment in the variable SLIMT_PYTHON, and pymarian, see `test_pymarian`, which trains the model.
"""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.marian_program import is_installed, run_marian
from tests.tf_transformer.formats.marian.binary_files import (
    as_binary,
    as_shortlist,
    model_items,
    plain,
    quantized,
)
from tests.tf_transformer.formats.marian.marian_files import read_npz
from tests.tf_transformer.formats.random_model import SOURCES, TARGETS
from tf_transformer import Translator, load_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.position_tables import Layout, sinusoid_table
from tf_transformer.quantization.activation_ranges import observed_inputs
from tf_transformer.storage.model_dir import (
    WEIGHTS_NAME,
    read_config,
    write_config_and_tokenizers,
)
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays, write_arrays

PYTHON = os.environ.get("SLIMT_PYTHON", sys.executable)
# The package itself asks a server for models when it is imported; its extension does not.
FIND = """
import importlib.util, pathlib, sys
spec = importlib.util.find_spec("slimt")
sys.exit(spec is None) if len(sys.argv) == 1 else None
path = next(pathlib.Path(spec.origin).parent.glob("_slimt*.so"))
spec = importlib.util.spec_from_file_location("_slimt", path)
slimt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(slimt)
"""
TRANSLATE = """
import json
layers, heads, *files = sys.argv[1:]
config = slimt.Config()
config.encoder_layers = config.decoder_layers = int(layers)
config.num_heads, config.feed_forward_depth, config.split_mode = int(heads), 2, "sentence"
model = slimt.Model(config, slimt.Package(*files))
service = slimt.Service(workers=1, cache_size=0)
for line in sys.stdin:
    (found,) = service.translate(model, [line.rstrip()], False)
    print(json.dumps(found.target.text))
"""

pytestmark = [
    pytest.mark.parity,
    pytest.mark.slow,
    pytest.mark.skipif(
        not is_installed() or subprocess.run([PYTHON, "-c", FIND], check=False).returncode != 0,
        reason="needs slimt and pymarian",
    ),
]
LINES = SOURCES[:200]
MODEL, VOCABULARY, SHORTLIST = "model.bin", "vocab.spm", "lex.bin"
TRAINING = (
    "--type transformer --dim-emb 64 --transformer-dim-ffn 128 --transformer-heads 4 --enc-depth 2 "
    "--dec-depth 2 --mini-batch 64 --after-batches 600 --learn-rate 0.005 --lr-warmup 100 --seed 1 "
    "--sync-sgd --overwrite --train-sets source target --vocabs vocab.spm vocab.spm "
    "--dim-vocabs 200 200 --tied-embeddings-all --transformer-decoder-autoreg rnn --dec-cell ssru "
    "--transformer-ffn-activation relu --label-smoothing 0.1"
)


def scales_of_inputs(model_dir):
    """What 8-bit products multiply their inputs by, by Marian's names of their matrices."""
    model, *tokenizers = load_model(model_dir)
    translator = Translator(model, *tokenizers, beam_size=1)
    with observed_inputs(model) as counts:
        translator.translate(tf.constant(LINES))
    named = {"Wemb": model.target_embedding}
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(stack.stacked_layers, start=1):
            parts = {"ffn_W1": layer.feed_forward.inner, "ffn_W2": layer.feed_forward.outer}
            if side == "encoder":
                attention = layer.self_attention
                parts |= {f"self_W{kind}": attention.query_key_value for kind in "qkv"}
                parts["self_Wo"] = attention.output_projection
            else:
                attention = layer.cross_attention
                parts |= {f"rnn_W{kind}": layer.ssru.value_gate for kind in ("", "f")}
                parts |= {f"context_W{kind}": attention.key_value for kind in "kv"}
                parts |= {"context_Wq": attention.query, "context_Wo": attention.output_projection}
            named |= {f"{side}_l{number}_{name}": part for name, part in parts.items()}
    return {name: 127 / counts[layer].percentile(100.0) for name, layer in named.items()}


def write_folder(folder, theirs, scales):
    """Writes a model as of Firefox, and a shortlist with blocks of 8 ids, of which slimt adds none.

    slimt, unlike Marian, does not add the pieces of the source.
    """
    folder.mkdir()
    arrays = read_npz(theirs / "model.npz")
    items = []
    for item in model_items(arrays, "browsermt", alphas=True):
        if item.name.endswith("_QuantMultA"):
            name = item.name.removesuffix("_QuantMultA").replace("none", "Wemb")
            write = quantized if item.name.startswith("Wemb") else plain
            item = write(item.name, np.full((1, 1), scales[name], "float32"))
        items.append(item)
    (folder / MODEL).write_bytes(as_binary(items))
    size = len(arrays["Wemb"])
    firsts = np.random.default_rng(1).choice(range(8, size, 8), (size, 2))
    rows = [sorted({first + i for first in pair for i in range(8)}) for pair in firsts]
    (folder / SHORTLIST).write_bytes(as_shortlist(rows, first=8))
    (folder / "all").write_bytes(as_shortlist([range(8, size)] * size, first=8))
    for name in (VOCABULARY, "source.spm", "target.spm"):
        (folder / name).write_bytes((theirs / VOCABULARY).read_bytes())
    (folder / "decoder.yml").write_text(
        f"models: [{MODEL}]\nvocabs: [source.spm, target.spm]\nbeam-size: 1\n"
    )


def without_positions(model_dir, output):
    """Writes a model whose decoder has position 0 everywhere."""
    config = read_config(model_dir)
    changed = dataclasses.replace(config, positions="learned", max_length=100)
    models = ((model_dir / f"{side}.spm").read_bytes() for side in ("source", "target"))
    write_config_and_tokenizers(output, changed, *models)
    table = sinusoid_table(Layout("concatenated"), 100, config.d_model)

    def arrays():
        yield from read_arrays(model_dir / WEIGHTS_NAME, weight_shapes(config))
        yield "source_positions/vectors", table
        yield "target_positions/vectors", np.repeat(table[:1], 100, axis=0)

    write_arrays(output / WEIGHTS_NAME, weight_shapes(changed), arrays())


def equal_beginnings(model_dir, shortlist, theirs):
    """How many translations begin as those of slimt, which end early."""
    translator = Translator.load(model_dir, beam_size=1, max_length_factor=2.0, shortlist=shortlist)
    ours = [text.decode() for text in translator.translate(tf.constant(LINES)).text[:, 0].numpy()]
    return sum(mine.startswith(text) for mine, text in zip(ours, theirs, strict=True))


def test_translations(tmp_path):
    """Most are equal; slimt rounds the inputs of products. Few would be so by chance."""
    trained, folder = tmp_path / "trained", tmp_path / "theirs"
    trained.mkdir()
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (trained / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run_marian(trained, "train", *TRAINING.split())
    import_model(trained, tmp_path / "floats")
    write_folder(folder, trained, scales_of_inputs(tmp_path / "floats"))
    import_model(folder, tmp_path / "ours")
    without_positions(tmp_path / "ours", tmp_path / "flat")
    for name, shortlist, share in (
        ("all", None, 0.8),
        (SHORTLIST, tmp_path / "ours" / "shortlist.tsv", 0.6),
    ):
        files = [str(folder / file) for file in (MODEL, VOCABULARY, name)]
        done = subprocess.run(
            [PYTHON, "-c", FIND + TRANSLATE, "2", "4", *files],
            input="\n".join(LINES) + "\n", capture_output=True, text=True, check=True,
        )  # fmt: skip
        theirs = [json.loads(line) for line in done.stdout.splitlines()]
        found = equal_beginnings(tmp_path / "flat", shortlist, theirs)
        assert found > share * len(LINES)
        chance = equal_beginnings(tmp_path / "flat", shortlist, theirs[::-1])
        assert chance < 0.1 * len(LINES)
