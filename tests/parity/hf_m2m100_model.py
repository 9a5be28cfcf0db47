"""Makes folders as M2M100 and NLLB are published, with Transformers and random weights."""

import json
import pathlib
import random

import sentencepiece

SIZES = dict(
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
NLLB_CODES = ("eng_Latn", "deu_Latn", "zho_Hans")
MODEL_NAME = "sentencepiece.bpe.model"


def write_folder(folder: pathlib.Path, lines: list[str], kind: str, **settings):
    """Writes a folder with random weights, biases and gains too.

    Args:
        folder: the folder to create.
        lines: text that the SentencePiece model is trained on.
        kind: "m2m100", with a `vocab.json`; "nllb", with the ids of the SentencePiece model; or
            "nllb_saved", as Transformers 5 saves it, without this model.
        **settings: settings that replace `SIZES`.

    Returns:
        The `M2M100ForConditionalGeneration` and its tokenizer.
    """
    import torch
    import transformers

    folder.mkdir()
    pieces = _write_sentencepiece(folder / MODEL_NAME, lines)
    if kind == "m2m100":
        random.Random(1).shuffle(pieces)
        names = [*SPECIAL, *pieces[:-3], "words of", "other models"]  # some lack, some are more
        (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
        tokenizer = transformers.M2M100Tokenizer(
            str(folder / "vocab.json"), str(folder / MODEL_NAME), src_lang="en", tgt_lang="de"
        )
        tokenizer.save_pretrained(folder)
        num_rows = len(names) + 100 + 8
    else:
        codes = {"additional_special_tokens": list(NLLB_CODES), "mask_token": "<mask>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(codes))
        tokenizer = transformers.NllbTokenizer.from_pretrained(
            folder, src_lang="eng_Latn", tgt_lang="deu_Latn"
        )
        tokenizer.save_pretrained(folder)
        if kind == "nllb_saved":
            (folder / MODEL_NAME).unlink()
        num_rows = 1 + 3 + len(pieces) + len(NLLB_CODES) + 1 + 2
    config = transformers.M2M100Config(**(SIZES | settings), vocab_size=num_rows)
    torch.manual_seed(1)
    module = transformers.M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.3)
    module.save_pretrained(folder)
    return module, tokenizer


def _write_sentencepiece(path: pathlib.Path, lines: list[str]) -> list[str]:
    """Trains a SentencePiece model with default ids, and returns its pieces from id 3 on."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        vocab_size=150,
        model_type="bpe",
        character_coverage=1.0,
        minloglevel=2,
    )
    path.with_suffix(".vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(token_id) for token_id in range(3, processor.vocab_size())]
