"""Makes folders as T5, Flan-T5, mT5 and MADLAD-400 are published, with random weights."""

import pathlib

import sentencepiece

SIZES = dict(
    d_model=32,
    d_kv=6,  # unlike d_model / num_heads, as in mT5 and the largest T5
    d_ff=48,
    num_layers=2,
    num_heads=4,
    relative_attention_num_buckets=8,
    relative_attention_max_distance=16,
)
MODEL_NAME = "spiece.model"
# Settings, whether embeddings and logits share a matrix, and whether `spiece.model` is kept.
KINDS = {
    "t5": (dict(feed_forward_proj="relu"), True, True),
    "flan": (dict(feed_forward_proj="gated-gelu"), False, True),
    "loaded and saved": (dict(feed_forward_proj="gated-gelu"), False, True),
    "saved": (dict(feed_forward_proj="gated-silu"), True, False),
    "mt5": ({}, False, True),
    "madlad": (dict(feed_forward_proj="gated-gelu"), False, True),
}
TAGS = ("<2de>", "<2en>")


def write_folder(folder: pathlib.Path, lines: list[str], kind: str, **settings):
    """Writes a folder with random weights and gains.

    Args:
        folder: the folder to create.
        lines: text that the SentencePiece model is trained on.
        kind: one of `KINDS`.
        **settings: settings that replace `SIZES`.

    Returns:
        The model of Transformers and its tokenizer.
    """
    import torch
    import transformers

    folder.mkdir()
    own, is_tied, keeps_model = KINDS[kind]
    ids = dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    if kind == "madlad":
        ids = dict(pad_token_id=1, eos_token_id=2, decoder_start_token_id=0)
    num_pieces = _write_sentencepiece(folder / MODEL_NAME, lines, kind)
    if kind == "madlad":
        special = dict(eos_token="</s>", unk_token="<unk>", pad_token="<s>")
        tokenizer = transformers.T5Tokenizer.from_pretrained(folder, extra_ids=0, **special)
    else:
        tokenizer = transformers.T5Tokenizer.from_pretrained(folder, extra_ids=7)
        num_pieces += 7
    tokenizer.save_pretrained(folder)
    if keeps_model:
        (folder / "tokenizer.json").unlink()
    else:
        (folder / MODEL_NAME).unlink(missing_ok=True)
    family = "MT5" if kind == "mt5" else "T5"
    config = getattr(transformers, f"{family}Config")(
        **(SIZES | own | ids | settings), vocab_size=num_pieces + 5, tie_word_embeddings=is_tied
    )
    config.tie_word_embeddings = is_tied  # which Transformers 5 sets to True
    torch.manual_seed(1)
    module = getattr(transformers, f"{family}ForConditionalGeneration")(config).eval()
    module.set_input_embeddings(module.shared)  # one embedding for both sides
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "layer_norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                # Queries and keys are not scaled: large ones would amplify rounding.
                parameter.normal_(0, 0.15 if name.endswith(("q.weight", "k.weight")) else 0.4)
    module.save_pretrained(folder)
    if kind == "loaded and saved":  # with which Transformers 5 writes other settings
        module = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
        module.save_pretrained(folder)
    return module, tokenizer


def _write_sentencepiece(path: pathlib.Path, lines: list[str], kind: str) -> int:
    """Trains a SentencePiece model with the special ids of the kind, and returns its size."""
    special = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    if kind == "madlad":
        special = dict(unk_id=0, bos_id=1, eos_id=2, pad_id=-1, user_defined_symbols=list(TAGS))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        vocab_size=150,
        model_type="unigram",
        character_coverage=1.0,
        minloglevel=2,
        **special,
    )
    path.with_suffix(".vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(path)).vocab_size()
