"""The files of the tokenizers of published models, with letters and filler for their pieces.

Each function writes the files of one kind of tokenizer for a matrix of a number of rows, with as
many names that are no pieces, and as many rows without a name, as are published.
"""

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from tf_transformer.text.byte_level.characters import GPT2_CHARACTERS
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto

# The codes of languages that NLLB's and mBART-50's tokenizers add, in their order.
NLLB_CODES = """
ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab
ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn
ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl
cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn
dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn
fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn
heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn
jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn
kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn
lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn
luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn mni_Beng
khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn
nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab
quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn
slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn
sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi
taq_Latn taq_Tfng tpi_Latn tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab
ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn
yue_Hant zho_Hans zho_Hant zul_Latn
"""
MBART50_CODES = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID
ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA
ur_PK xh_ZA gl_ES sl_SI
"""
INDICTRANS_CODES = """
asm_Beng awa_Deva ben_Beng bho_Deva brx_Deva doi_Deva eng_Latn gom_Deva gon_Deva guj_Gujr hin_Deva
hne_Deva kan_Knda kas_Arab kas_Deva kha_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva mni_Beng
mni_Mtei npi_Deva ory_Orya pan_Guru san_Deva sat_Olck snd_Arab snd_Deva tam_Taml tel_Telu urd_Arab
unr_Deva
"""
_NUM_M2M100_CODES, _NUM_WMT21_CODES = 100, 8
_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
_SPECIAL = ("<unk>", "<s>", "</s>")
_SPECIAL_T5 = ("<pad>", "</s>", "<unk>")
_SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
# Writes the files into a folder, for the settings of a model.
Writer = Callable[[pathlib.Path, dict[str, Any]], None]


def pieces(special: Sequence[str], size: int, tags: Sequence[str] = ()) -> list[str]:
    """Returns special pieces, tags, letters, and filler up to a number of pieces."""
    letters = [f"{space}{char}" for space in ("", "\u2581") for char in map(chr, range(33, 127))]
    names = [*special, *tags, *letters]
    return names + [f"filler{index}" for index in range(size - len(names))]


def write_sentencepiece(
    path: pathlib.Path, names: Sequence[str], special: Sequence[str], tags: Sequence[str] = ()
) -> None:
    """Writes a SentencePiece model of some pieces.

    Args:
        path: the file.
        names: all pieces, in the order of their ids.
        special: those that are special; the unknown piece is `<unk>`.
        tags: those that are never split.
    """
    Piece = ModelProto.SentencePiece
    kinds = dict.fromkeys(special, Piece.CONTROL) | dict.fromkeys(tags, Piece.USER_DEFINED)
    kinds["<unk>"] = Piece.UNKNOWN
    model = ModelProto()
    model.normalizer_spec.name = "identity"
    for token_id, name in enumerate(names):
        kind = kinds.get(name, Piece.NORMAL)
        model.pieces.add(piece=name, score=-float(token_id), type=kind)
    ids = {name: names.index(name) if name in names else -1 for name in ("<unk>", *_FAIRSEQ)}
    trainer = model.trainer_spec
    trainer.unk_id, trainer.bos_id = ids["<unk>"], ids["<s>"]
    trainer.eos_id, trainer.pad_id = ids["</s>"], ids["<pad>"]
    path.write_bytes(model.SerializeToString())


def _write_json(path: pathlib.Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_marian(folder: pathlib.Path, config: dict[str, Any], tags: Sequence[str] = ()) -> None:
    """Writes `source.spm`, `target.spm` and `vocab.json`, whose last id is that of padding."""
    end, pad = config["eos_token_id"], config["pad_token_id"]
    own = pieces(_SPECIAL, config["vocab_size"] - len(tags))
    for side in ("source", "target"):
        write_sentencepiece(folder / f"{side}.spm", own, _SPECIAL)
    names = ["<unk>", *own[3:], *tags]
    names.insert(end, "</s>")
    names.insert(pad, "<pad>")
    _write_json(folder / "vocab.json", {name: index for index, name in enumerate(names)})
    _write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})


def write_marian_with_tags(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the files of `write_marian` with tags of target languages in `vocab.json`."""
    write_marian(folder, config, [">>cmn_Hans<<", ">>cmn_Hant<<", ">>yue<<"])


def write_m2m100(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of M2M100, which knows its languages by the name of their list."""
    _write_with_list(folder, config["vocab_size"] - 8 - _NUM_M2M100_CODES, "m2m100")


def write_wmt21(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of WMT21, as that of M2M100."""
    _write_with_list(folder, config["vocab_size"] - _NUM_WMT21_CODES, "wmt21")


def _write_with_list(folder: pathlib.Path, size: int, language_codes: str) -> None:
    own = pieces(_SPECIAL, size - 1)
    write_sentencepiece(folder / "sentencepiece.bpe.model", own, _SPECIAL)
    names = [*_FAIRSEQ, *own[3:]]
    _write_json(folder / "vocab.json", {name: index for index, name in enumerate(names)})
    description = _SPECIAL_TOKENS | {"language_codes": language_codes, "src_lang": None}
    _write_json(folder / "tokenizer_config.json", description)


def write_nllb(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of NLLB: two rows have no name."""
    _write_with_codes(folder, config["vocab_size"] - 2, NLLB_CODES.split(), {})


def write_mbart50(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of mBART-50."""
    description = _SPECIAL_TOKENS | {"language_codes": "ML50", "src_lang": None}
    _write_with_codes(folder, config["vocab_size"], MBART50_CODES.split(), description)


def write_mbart(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of mBART, which knows the first 25 languages of mBART-50 itself."""
    own = pieces(_SPECIAL, config["vocab_size"] - 1 - 25 - 1)
    write_sentencepiece(folder / "sentencepiece.bpe.model", own, _SPECIAL)


def _write_with_codes(
    folder: pathlib.Path, size: int, codes: Sequence[str], description: dict[str, Any]
) -> None:
    # A piece less in the SentencePiece model than in fairseq's order; the mask follows the codes.
    own = pieces(_SPECIAL, size - 1 - len(codes) - 1)
    write_sentencepiece(folder / "sentencepiece.bpe.model", own, _SPECIAL)
    special = _SPECIAL_TOKENS | {"mask_token": "<mask>", "additional_special_tokens": codes}
    _write_json(folder / "special_tokens_map.json", special)
    if description:
        _write_json(folder / "tokenizer_config.json", description)


def write_indictrans(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of IndicTrans2; only the source's dictionary has codes of languages."""
    for side, stack, codes in (
        ("SRC", "encoder", INDICTRANS_CODES.split()),
        ("TGT", "decoder", []),
    ):
        own = pieces(_SPECIAL, config[f"{stack}_vocab_size"] - 1 - len(codes))
        write_sentencepiece(folder / f"model.{side}", own, _SPECIAL)
        names = [*_FAIRSEQ, *own[3:], *codes]
        _write_json(folder / f"dict.{side}.json", {name: i for i, name in enumerate(names)})
    added = {str(i): {"content": name, "special": True} for i, name in enumerate(_FAIRSEQ)}
    _write_json(folder / "tokenizer_config.json", {"added_tokens_decoder": added})


def write_bart(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of BART; the mask has no row if others have as many as published."""
    names = [*_FAIRSEQ, *GPT2_CHARACTERS]
    merges = [(first, second) for first in "etaoin" for second in "hrstln"]
    names += ["".join(pair) for pair in merges]
    num_others = 1 if config["vocab_size"] % 2 else 0  # 50265, and without the mask 50264
    names += [f"filler{index}" for index in range(config["vocab_size"] - len(names) - num_others)]
    ids = {name: index for index, name in enumerate([*names, "<mask>"])}
    _write_json(folder / "vocab.json", ids)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_pegasus(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of Pegasus, which has 103 ids more than pieces."""
    own = pieces(("<pad>", "</s>", "<unk>"), config["vocab_size"] - 103)
    write_sentencepiece(folder / "spiece.model", own, _SPECIAL_T5)


def write_t5(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of T5 with 100 sentinels: 28 rows have no name."""
    own = pieces(_SPECIAL_T5, config["vocab_size"] - 28 - 100)
    write_sentencepiece(folder / "spiece.model", own, _SPECIAL_T5)
    _write_json(folder / "tokenizer_config.json", {"extra_ids": 100, "model_max_length": 512})


def write_mt5(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of mT5, whose sentinels are pieces: 12 rows have no name."""
    own = pieces(_SPECIAL_T5, config["vocab_size"] - 12 - 100)
    own += [f"\u2581<extra_id_{index}>" for index in reversed(range(100))]
    write_sentencepiece(folder / "spiece.model", own, _SPECIAL_T5)
    _write_json(folder / "tokenizer_config.json", {"extra_ids": 0, "eos_token": "</s>"})


def write_madlad(folder: pathlib.Path, config: dict[str, Any]) -> None:
    """Writes the tokenizer of MADLAD-400, with two of its tags."""
    tags = ["<2de>", "<2en>"]
    own = pieces(_SPECIAL, config["vocab_size"], tags)
    write_sentencepiece(folder / "spiece.model", own, _SPECIAL, tags)
    _write_json(folder / "tokenizer_config.json", {"extra_ids": 0, "pad_token": "<s>"})
