"""Makes folders as OPUS-MT publishes them, with Transformers and random weights."""

import json
import pathlib

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
    activation_function="swish",
    scale_embedding=True,
    eos_token_id=0,
    forced_eos_token_id=0,
)
TAGS = (">>deu<<", ">>fra<<")


def write_sentencepiece(path: pathlib.Path, lines: list[str], size: int, kind: str) -> list[str]:
    """Trains a SentencePiece model with Marian's ids, and returns its pieces from id 2 on."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        model_type=kind,
        character_coverage=1.0,
        hard_vocab_limit=False,
        eos_id=0,
        unk_id=1,
        bos_id=-1,
        minloglevel=2,
    )
    path.with_suffix(".model").rename(path)
    path.with_suffix(".vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(token_id) for token_id in range(2, processor.vocab_size())]


def write_folder(
    folder: pathlib.Path,
    source_lines: list[str],
    target_lines: list[str],
    *,
    separate: bool = False,
    safe: bool = True,
    tags: tuple[str, ...] = TAGS,
    missing: int = 5,
    **settings,
):
    """Writes a folder with random weights, biases and gains too.

    Args:
        folder: the folder to create.
        source_lines: text that the source's SentencePiece model is trained on.
        target_lines: text that the target's SentencePiece model is trained on.
        separate: whether each side has a vocabulary and an embedding of its own.
        safe: whether the weights are in `model.safetensors`, else in `pytorch_model.bin`.
        tags: language tags in the vocabulary.
        missing: number of pieces of the source that the vocabulary lacks.
        **settings: settings that replace `SIZES`.

    Returns:
        The `MarianMTModel`.
    """
    import torch
    import transformers

    folder.mkdir()
    source = write_sentencepiece(folder / "source.spm", source_lines, 90, "unigram")
    target = write_sentencepiece(folder / "target.spm", target_lines, 80, "unigram")
    sides = [source[missing:]], [target]
    if not separate:
        sides = [[*source[missing:], *target]], [[]]
    vocabularies = []
    for pieces in (*sides[0], *sides[1]):
        names = dict.fromkeys(["</s>", "<unk>", *pieces, *tags, "<pad>"])
        vocabularies.append({name: token_id for token_id, name in enumerate(names)})
    sizes = [len(vocabulary) for vocabulary in vocabularies]
    if separate:  # Transformers wants one pad id for both sides
        while sizes[1] != sizes[0]:
            shorter = vocabularies[0 if sizes[0] < sizes[1] else 1]
            pad = shorter.pop("<pad>")
            shorter[f"<filler{pad}>"] = pad
            shorter["<pad>"] = pad + 1
            sizes = [len(vocabulary) for vocabulary in vocabularies]
    config = transformers.MarianConfig(
        **(SIZES | settings),
        vocab_size=sizes[0],
        decoder_vocab_size=sizes[1] if separate else sizes[0],
        share_encoder_decoder_embeddings=not separate,
        pad_token_id=sizes[0] - 1,
        decoder_start_token_id=sizes[0] - 1,
        bad_words_ids=[[sizes[0] - 1]],
    )
    torch.manual_seed(1)
    module = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "embed_positions" in name:
                continue
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.3)
            if "embed_tokens" in name or "shared" in name:
                parameter[-1] = 0  # the pad row
        module.final_logits_bias.normal_(0, 1)
        module.final_logits_bias[:, -1] = 0
    if safe:
        module.save_pretrained(folder)
    else:
        config.save_pretrained(folder)
        torch.save(module.state_dict(), folder / "pytorch_model.bin")
    for name, vocabulary in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (folder / name).write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    tokenizer = {"separate_vocabs": separate, "unk_token": "<unk>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return module
