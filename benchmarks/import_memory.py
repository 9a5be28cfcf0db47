"""Time and memory of import, translation and export of a large model with random weights.

    python -m benchmarks.import_memory [--work DIR] [--layers 12] [--d-model 1024] [--d-ff 4096]
        [--heads 16] [--vocab-size 256206] [--signatures serving_default]

The default sizes are those of NLLB-200 with 600 million weights. The model is written in Hugging
Face's format, then every command runs in a process of its own. Prints a table in
Markdown; memory is the largest resident set, relative to the bytes of the weights in float32.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
SENTENCE = "A man sleeps."


def write_vocabulary(folder: pathlib.Path, size: int) -> None:
    """Writes a SentencePiece model of one-letter pieces and of filler, and two languages."""
    from tf_transformer.text.sentencepiece_model_pb2 import ModelProto

    letters = [f"{space}{char}" for space in ("", "\u2581") for char in map(chr, range(33, 127))]
    special = ["<unk>", "<s>", "</s>"]
    # Five ids more are those of the padding, two languages, the mask, and a row without a name.
    fillers = size - len(special) - len(letters) - 5
    pieces = [*special, *letters, *(f"filler{i}" for i in range(fillers))]
    model = ModelProto()
    model.trainer_spec.model_type = 2
    model.normalizer_spec.name = "identity"
    for token_id, piece in enumerate(pieces):
        kind = {0: "UNKNOWN", 1: "CONTROL", 2: "CONTROL"}.get(token_id, "NORMAL")
        model.pieces.add(piece=piece, score=-float(token_id), type=kind)
    (folder / "sentencepiece.bpe.model").write_bytes(model.SerializeToString())
    codes = {"additional_special_tokens": ["eng_Latn", "fra_Latn"]}
    (folder / "special_tokens_map.json").write_text(json.dumps(codes))


def write_model(folder: pathlib.Path, options: argparse.Namespace) -> int:
    """Writes a folder as NLLB is published; returns the bytes of its weights."""
    from tf_transformer.config import TransformerConfig
    from tf_transformer.formats.hf.weights import NAMES, SHARED_EMBEDDING, TARGET_EMBEDDING
    from tf_transformer.formats.naming import reverted_shapes
    from tf_transformer.formats.writers.safetensors_writer import write_safetensors
    from tf_transformer.storage.weight_shapes import weight_shapes

    config = TransformerConfig(
        source_vocab_size=options.vocab_size,
        target_vocab_size=options.vocab_size,
        num_encoder_layers=options.layers,
        num_decoder_layers=options.layers,
        d_model=options.d_model,
        d_ff=options.d_ff,
        num_heads=options.heads,
        norm_position="pre",
    )
    settings = {
        "model_type": "m2m_100", "vocab_size": options.vocab_size, "d_model": options.d_model,
        "encoder_layers": options.layers, "decoder_layers": options.layers,
        "encoder_attention_heads": options.heads, "decoder_attention_heads": options.heads,
        "encoder_ffn_dim": options.d_ff, "decoder_ffn_dim": options.d_ff,
        "activation_function": "relu", "max_position_embeddings": 1024, "scale_embedding": True,
        "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    write_vocabulary(folder, options.vocab_size)
    shapes = reverted_shapes(NAMES, weight_shapes(config))
    shapes = {
        SHARED_EMBEDDING if name == TARGET_EMBEDDING else name: s for name, s in shapes.items()
    }
    random = np.random.default_rng(1)
    arrays = (
        (name, np.ones(shape, "float32"))
        if name.endswith("norm.weight")
        else (name, random.standard_normal(shape, "float32") * np.float32(0.02))
        for name, shape in shapes.items()
    )
    write_safetensors(folder / "model.safetensors", shapes, arrays)
    return 4 * sum(map(math.prod, shapes.values()))


def run(*words: str | pathlib.Path, text: str) -> tuple[float, int]:
    """Runs `tf-transformer`; returns the seconds and the largest resident set, in bytes."""
    command = [sys.executable, "-m", "tf_transformer", *map(str, words)]
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as source:
        source.write(text.encode())
        source.seek(0)
        process = subprocess.Popen(command, stdin=source, cwd=ROOT, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed")
    return time.perf_counter() - begin, 1024 * usage.ru_maxrss


def main() -> None:
    """Writes the model, runs the commands, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=pathlib.Path, help="a folder for about four copies")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--d-model", type=int, default=1024)
    parser.add_argument("--d-ff", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocab-size", type=int, default=256_206)
    parser.add_argument("--signatures", nargs="+", default=["serving_default"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as directory:
        work = pathlib.Path(directory)
        (work / "theirs").mkdir()
        size = write_model(work / "theirs", options)
        print(f"{size / 4e6:.0f} million weights, {size / 2**30:.2f} GiB\n")
        print("| command | seconds | memory, GiB | memory / weights |\n|---|---|---|---|")
        languages = ("--target-language", "fra_Latn", "--source-language", "eng_Latn")
        model, export = ("--model-dir", work / "model"), ("--output", work / "served")
        commands = (
            ("import", "--input", work / "theirs", *model),
            ("translate", *model, *languages),
            ("export", *model, *export, "--signatures", *options.signatures),
            ("convert", *model, "--to", "hf", "--output", work / "hf"),
        )
        for words in commands:
            seconds, memory = run(*words, text=SENTENCE)
            cells = f"{seconds:.0f} | {memory / 2**30:.1f} | {memory / size:.2f}"
            print(f"| {words[0]} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
