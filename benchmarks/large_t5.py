"""Time and memory of the import of a large T5 in bfloat16, and of a translation with it.

    python -m benchmarks.large_t5 [--work DIR] [--layers 32] [--d-model 1024] [--d-kv 128]
        [--d-ff 8192] [--heads 16] [--vocab-size 256000]

The default sizes are those of MADLAD-400 with 3 billion weights, here random. Prints a table in
Markdown; memory is the largest resident set, relative to the bytes of the file of weights.
"""

import argparse
import json
import math
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks.import_memory import SENTENCE, run


def write_vocabulary(path: pathlib.Path, size: int) -> None:
    """Writes a SentencePiece model of one-letter pieces, two tags and filler."""
    from tf_transformer.text.sentencepiece_model_pb2 import ModelProto

    letters = [f"{space}{char}" for space in ("", "\u2581") for char in map(chr, range(33, 127))]
    pieces = ["<unk>", "<s>", "</s>", "<2de>", "<2en>", "\u2581", *letters]
    pieces += [f"filler{i}" for i in range(size - len(pieces))]
    kinds = {0: "UNKNOWN", 1: "CONTROL", 2: "CONTROL", 3: "USER_DEFINED", 4: "USER_DEFINED"}
    model = ModelProto()
    model.normalizer_spec.name = "identity"
    for index, piece in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(index), type=kinds.get(index, "NORMAL"))
    path.write_bytes(model.SerializeToString())


def write_model(folder: pathlib.Path, options: argparse.Namespace) -> int:
    """Writes a folder as MADLAD-400 is published; returns the bytes of its weights."""
    from tf_transformer.config import TransformerConfig
    from tf_transformer.formats.hf.t5_weights import published_name, t5_names
    from tf_transformer.formats.naming import reverted_shapes
    from tf_transformer.formats.writers.safetensors_writer import write_safetensors
    from tf_transformer.storage.weight_shapes import weight_shapes

    settings = {
        "model_type": "t5", "vocab_size": options.vocab_size, "d_model": options.d_model,
        "d_kv": options.d_kv, "d_ff": options.d_ff, "num_layers": options.layers,
        "num_heads": options.heads, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False, "pad_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 0,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0}))
    write_vocabulary(folder / "spiece.model", options.vocab_size)
    config = TransformerConfig(
        source_vocab_size=options.vocab_size, target_vocab_size=options.vocab_size,
        num_encoder_layers=options.layers, num_decoder_layers=options.layers,
        d_model=options.d_model, d_ff=options.d_ff, num_heads=options.heads,
        head_dim=options.d_kv, norm_position="pre", norm_type="rms", dense_bias=False,
        activation="geglu_tanh", positions="none", relative_positions="buckets",
        relative_buckets=32, max_relative_distance=128, tied_embeddings="inputs",
        logits_bias=False,
    )  # fmt: skip
    names = t5_names(is_gated=True)
    shapes = {
        published_name(name): shape
        for name, shape in reverted_shapes(names, weight_shapes(config)).items()
    }

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        random = np.random.default_rng(1)
        for name, shape in shapes.items():
            values = np.ones(shape, "float32")
            if not name.endswith("layer_norm.weight"):
                values = random.standard_normal(shape, "float32") * np.float32(0.02)
            yield name, (values.view("uint32") >> 16).astype("uint16")

    dtypes = dict.fromkeys(shapes, "bfloat16")
    write_safetensors(folder / "model.safetensors", shapes, arrays(), dtypes)
    return 2 * sum(map(math.prod, shapes.values()))


def main() -> None:
    """Writes the model, runs the commands, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=pathlib.Path, help="a folder for about four copies")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--d-model", type=int, default=1024)
    parser.add_argument("--d-kv", type=int, default=128)
    parser.add_argument("--d-ff", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocab-size", type=int, default=256_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as directory:
        work = pathlib.Path(directory)
        (work / "theirs").mkdir()
        size = write_model(work / "theirs", options)
        print(f"{size / 2e6:.0f} million weights, {size / 2**30:.2f} GiB\n")
        print("| command | seconds | memory, GiB | memory / file |\n|---|---|---|---|")
        model = ("--model-dir", work / "model")
        translate = ("translate", *model, "--target-language", "de", "--max-length", "20")
        for words in (
            ("import", "--input", work / "theirs", *model),
            (*translate, "--beam-size", "1", "--dtype", "bfloat16"),
        ):
            seconds, memory = run(*words, text=SENTENCE)
            cells = f"{seconds:.0f} | {memory / 2**30:.1f} | {memory / size:.2f}"
            print(f"| {words[0]} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
