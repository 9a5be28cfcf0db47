"""Makes folders as BART, mBART and Pegasus are published: Transformers and random weights."""

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
)
# The codes of mBART-50, in their order.
CODES = [
    "ar_AR",
    "cs_CZ",
    "de_DE",
    "en_XX",
    "es_XX",
    "et_EE",
    "fi_FI",
    "fr_XX",
    "gu_IN",
    "hi_IN",
    "it_IT",
    "ja_XX",
    "kk_KZ",
    "ko_KR",
    "lt_LT",
    "lv_LV",
    "my_MM",
    "ne_NP",
    "nl_XX",
    "ro_RO",
    "ru_RU",
    "si_LK",
    "tr_TR",
    "vi_VN",
    "zh_CN",
    "af_ZA",
    "az_AZ",
    "bn_IN",
    "fa_IR",
    "he_IL",
    "hr_HR",
    "id_ID",
    "ka_GE",
    "km_KH",
    "mk_MK",
    "ml_IN",
    "mn_MN",
    "mr_IN",
    "pl_PL",
    "ps_AF",
    "pt_XX",
    "sv_SE",
    "sw_KE",
    "ta_IN",
    "te_IN",
    "th_TH",
    "tl_XX",
    "uk_UA",
    "ur_PK",
    "xh_ZA",
    "gl_ES",
    "sl_SI",
]
BART_KINDS = ("bart", "bart_saved")
# mbart-large-cc25, whose codes are the first 25: as published, and as Transformers saves it.
CC25_KINDS = ("mbart_cc25", "mbart_cc25_saved")
KINDS = (
    *("mbart", "mbart_saved", "mbart_unscaled", *CC25_KINDS, "pegasus", "pegasus_saved"),
    *BART_KINDS,
)


def write_folder(folder: pathlib.Path, lines: list[str], kind: str):
    """Writes a folder with random weights, biases and gains too.

    Args:
        folder: the folder to create.
        lines: text that the vocabulary is made from.
        kind: one of `KINDS`.

    Returns:
        The model of Transformers and its tokenizer.
    """
    import torch
    import transformers

    folder.mkdir()
    if kind.startswith("mbart"):
        name, family = "sentencepiece.bpe.model", "MBart"
        _write_sentencepiece(folder / name, lines)
        name_of_class = "MBartTokenizer" if kind in CC25_KINDS else "MBart50Tokenizer"
        tokenizer = getattr(transformers, name_of_class).from_pretrained(
            folder, src_lang="en_XX", tgt_lang="de_DE"
        )
        start = tokenizer.convert_tokens_to_ids("de_DE") if kind in CC25_KINDS else 2
        ids = dict(decoder_start_token_id=start, scale_embedding=kind != "mbart_unscaled")
    elif kind in BART_KINDS:
        name, family = "vocab.json", "Bart"
        _write_byte_level(folder, lines)
        tokenizer = transformers.BartTokenizer.from_pretrained(folder)
        ids = dict(scale_embedding=False, forced_bos_token_id=0)
    else:
        name, family = "spiece.model", "Pegasus"
        _write_sentencepiece(folder / name, lines, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
        tokenizer = transformers.PegasusTokenizer.from_pretrained(folder)
        ids = dict(scale_embedding=True, activation_function="relu")
    tokenizer.save_pretrained(folder)
    if kind.endswith("saved"):
        for written in (name, "merges.txt"):
            (folder / written).unlink(missing_ok=True)
    elif kind in CC25_KINDS:  # no file names the codes
        for written in ("tokenizer.json", "tokenizer_config.json"):
            (folder / written).unlink()
    else:
        (folder / "tokenizer.json").unlink()
        codes = {"additional_special_tokens": CODES} if family == "MBart" else {}
        (folder / "special_tokens_map.json").write_text(json.dumps(codes))
    config = getattr(transformers, f"{family}Config")(**SIZES, **ids, vocab_size=len(tokenizer) + 2)
    torch.manual_seed(1)
    module = getattr(transformers, f"{family}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in module.named_parameters():
            is_gain = "norm" in parameter_name and parameter_name.endswith("weight")
            if is_gain:
                parameter.uniform_(0.5, 1.5)
            elif "embed_positions" not in parameter_name or family != "Pegasus":
                parameter.normal_(0, 0.3)
        module.final_logits_bias.normal_(0, 0.3)
    module.save_pretrained(folder)
    return module, tokenizer


def _write_byte_level(folder: pathlib.Path, lines: list[str]) -> None:
    """Writes `vocab.json` and `merges.txt`."""
    import tokenizers

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(lines, 500, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(folder))


def _write_sentencepiece(path: pathlib.Path, lines: list[str], **special) -> None:
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
