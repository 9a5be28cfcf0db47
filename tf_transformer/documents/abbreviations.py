"""Words before a period that ends no sentence, by language."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tf_transformer.errors import InputError


class Abbreviations(NamedTuple):
    """Abbreviations of a language, without their last period.

    Upper and lower case differ, but all abbreviations are also found in text in capitals, and those
    in lower case at the begin of a sentence. `*` stands for the begin of any word, `_` for a space.

    Words that often end a sentence, such as "etc.", are in no list, and single letters need none:
    all are taken for initials.

    Attributes:
        anywhere: words whose period never ends a sentence, such as titles.
        before_numbers: words whose period ends no sentence if a digit follows, such as "No".
        ordinals: whether a period after one or two digits is that of an ordinal number; of several
            languages together, only if it is in all of them, or if lower case follows.
        months: names of months, with a capital, that follow an ordinal number.
    """

    anywhere: str
    before_numbers: str = ""
    ordinals: bool = False
    months: str = ""


_LISTS = {
    "cs": Abbreviations(
        "např tzv tj resp mj popř cca Ing Mgr Bc MUDr JUDr RNDr PhDr doc prof sv pí",
        "čl str",
        ordinals=True,
    ),
    "da": Abbreviations(
        "bl.a bl f.eks fx ca dvs evt hhv mht mfl pga pr prof dr hr fr",
        "nr",
        ordinals=True,
    ),
    "de": Abbreviations(
        "bzw z.B z.b d.h u.a i.d.R o.ä u.ä s.o s.u v.a z.T z.Zt ca vgl evtl ggf sog bspw insb "
        "inkl exkl zzgl Dr Prof Dipl Ing Hr Fr Frl St Hrsg geb gest ehem allg Bd Kap Mio Mrd "
        "Tsd Std Min Abt Tel Str Fa Fam Hd &_Co bes bezgl gem lt max min entspr einschl",
        "Nr Art Abs Ziff Abb Tab Aufl Rn *str et_al Jan Feb Apr Aug Sept Okt Nov Dez",
        ordinals=True,
        months="Januar Jänner Februar März April Mai Juni Juli August September Oktober November "
        "Dezember Jan Feb Apr Aug Sept Okt Nov Dez",
    ),
    "en": Abbreviations(
        "Mr Mrs Ms Messrs Dr Prof Rev Fr Sr Jr St Mt Ft Gen Col Maj Capt Lt Sgt Cpl Adm Cmdr "
        "Gov Sen Rep Hon Pres Supt Det Insp e.g i.e cf vs viz approx ca esp incl resp assoc "
        "dept est Dept Univ &_Co Assn Bros Ave Blvd Rd Jan Feb Apr Aug Sept Oct Nov Dec",
        "No Nos no nos pp Fig Figs fig figs vol vols Vol ch Ch sec Sec Art art Eq eq Ref "
        "ref Tab para par Mar Jun Jul Ext ext Apt apt Tel et_al",
    ),
    "es": Abbreviations(
        "Sr Sra Srta Sres Dr Dra Prof Dña Ud Uds Vd Vds Lic Ing Arq Gral Cnel p.ej ej aprox "
        "Excmo Ilmo Sto Sta Avda Pza",
        "núm pág págs art arts vol cap fig",
    ),
    "fi": Abbreviations(
        "esim ym mm eli ts ns noin prof tri toht vrt nk",
        "nro",
        ordinals=True,
    ),
    "fr": Abbreviations(
        "MM Mme Mmes Mlle Mlles Dr Pr Me Mgr St Ste p.ex c.-à-d cf env av apr boul bd",
        "no pp art vol chap fig",
    ),
    "it": Abbreviations(
        "sig sigg sig.ra dott dott.ssa prof prof.ssa ing avv arch on geom rag Sig Dott Prof "
        "Ing Avv Arch On p.es es cfr ecc.mo ca",
        "nn pp pag pagg art artt vol cap fig",
    ),
    "nl": Abbreviations(
        "bijv bv d.w.z o.a m.b.t t.o.v i.v.m n.a.v a.u.b dhr mevr mw dr drs prof ir ing mr ds "
        "ca resp incl excl",
        "nr blz art",
    ),
    "no": Abbreviations(
        "bl.a f.eks ca dvs evt hhv pga prof dr hr fr",
        "nr",
        ordinals=True,
    ),
    "pl": Abbreviations(
        "np tzn tzw m.in mgr inż dr hab prof ks św gen płk pt ok ul al os pl tj itp.d",
        "nr str ust art",
        ordinals=True,
    ),
    "pt": Abbreviations(
        "Sr Sra Srs Sras Dr Dra Prof Profa Eng Exmo Exma V.Exa p.ex aprox Av",
        "nº pág págs art vol cap fig",
    ),
    "ru": Abbreviations(
        "т.е т.к т.н т.п т.д гг ул пр пл им проф акад доц ред см ср напр англ нем фр лат св "
        "тыс млн млрд руб",
        "стр рис табл ст гл",
    ),
    "sv": Abbreviations(
        "bl.a t.ex dvs d.v.s ca m.m s.k o.s.v prof dr hr fr",
        "nr",
        ordinals=True,
    ),
    "tr": Abbreviations(
        "Dr Prof Doç Av Sn Hz örn vb.g Bkz bkz",
        "No",
        ordinals=True,
    ),
}

LANGUAGES = tuple(_LISTS)
"""Languages with a list; Chinese and Japanese need none."""


def find_abbreviations(languages: Iterable[str]) -> Abbreviations:
    """Returns the abbreviations of some languages together.

    Args:
        languages: codes of languages, such as "de"; those without a list add nothing.

    Raises:
        InputError: a code is not made of two or three lower-case letters.
    """
    languages = list(languages)
    for code in languages:
        if not (isinstance(code, str) and re.fullmatch("[a-z]{2,3}", code)):
            raise InputError(
                f"expected the code of a document's language, such as 'de'. Received: {code!r}"
            )
    lists = [_LISTS[code] for code in languages if code in _LISTS]
    return Abbreviations(
        " ".join(x.anywhere for x in lists),
        " ".join(x.before_numbers for x in lists),
        bool(lists) and all(x.ordinals for x in lists),
        " ".join(x.months for x in lists),
    )
