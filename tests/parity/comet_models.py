"""Writes small COMET models of random weights, as a program of the Python that has unbabel-comet.

It is given a folder, and writes `regression`, which compares with a reference, and `referenceless`.
"""

import pathlib
import sys

import torch
import yaml
from comet.models import ReferencelessRegression, RegressionMetric
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def write_encoder(folder):
    """Writes the settings and the tokenizer, whose pieces are characters, of a tiny XLM-R."""
    letters = [chr(code) for code in range(97, 123)]
    pieces = [*SPECIAL, "\u2581", *"0123456789.,!?", *letters]
    unigram = models.Unigram([(piece, -float(row)) for row, piece in enumerate(pieces)], unk_id=3)
    tokenizer = Tokenizer(unigram)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    special = dict(zip(names, SPECIAL))  # noqa: B905 (another Python)
    XLMRobertaTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    XLMRobertaConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=514,
        type_vocab_size=1,
        pad_token_id=1,
    ).save_pretrained(folder)


def write_model(kind, name, encoder, folder):
    torch.manual_seed(3)
    model = kind(
        pretrained_model=str(encoder), hidden_sizes=[24, 12], load_pretrained_weights=False
    )
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(std=0.3)
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text(yaml.dump({"class_identifier": name}))
    checkpoint = {
        "state_dict": model.state_dict(),
        "hyper_parameters": dict(model.hparams),
        "pytorch-lightning_version": "2.0.0",
    }
    torch.save(checkpoint, folder / "checkpoints" / "model.ckpt")


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    write_encoder(root / "encoder")
    for kind, name, folder in (
        (RegressionMetric, "regression_metric", "regression"),
        (ReferencelessRegression, "referenceless_regression_metric", "referenceless"),
    ):
        write_model(kind, name, root / "encoder", root / folder)
