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
        may_end: words whose period ends a sentence only before one of `starters`, such as the forms
            of companies.
        starters: words with a capital that start a sentence after `may_end` and "U.S."
        titles: words whose period ends no sentence after another abbreviation, as in "Dr. med."
    """

    anywhere: str
    before_numbers: str = ""
    ordinals: bool = False
    months: str = ""
    may_end: str = ""
    starters: str = ""
    titles: str = ""


_LISTS = {
    "cs": Abbreviations(
        "např tzv tj resp mj popř cca Ing Mgr Bc MUDr MVDr JUDr RNDr PhDr PaedDr ThDr PharmDr doc "
        "prof sv pí plk pplk npor kpt mjr nám tř",
        "čl str obr tab kap odst",
        ordinals=True,
        may_end="spol",
        titles="arch",
    ),
    "da": Abbreviations(
        "bl.a bl f.eks fx ca dvs evt hhv mht mfl pga pr prof dr hr fr adv afd tlf",
        "nr kap kl fig tab",
        ordinals=True,
        titles="cand stud mag jur med phil polit scient ing lic",
    ),
    "de": Abbreviations(
        "bzw z.B z.b d.h u.a i.d.R o.ä u.ä s.o s.u v.a z.T z.Zt ca vgl evtl ggf sog bspw insb "
        "inkl exkl zzgl Dr Prof Dipl Ing Hr Fr Frl St Hrsg geb gest ehem allg Bd Kap Mio Mrd "
        "Tsd Std Min Abt Tel Str Fa Fam Hd &_Co bes bezgl gem lt max min entspr einschl Mag Dkfm "
        "Gebr Pfr Hptm Oblt Oberst Uffz Frhr Hzg Kgl Bggm Univ apl Verf Vors Vorst Pkt",
        "Nr Nrn Art Abs Ziff Abb Tab Aufl Rn Anm Anh *str et_al Jan Feb Apr Aug Sept Okt Nov Dez",
        ordinals=True,
        months="Januar Jänner Februar März April Mai Juni Juli August September Oktober November "
        "Dezember Jan Feb Apr Aug Sept Okt Nov Dez",
        may_end="Chr jun sen",
        starters="Der Die Das Er Sie Es Wir Ich Ein Eine Dann Danach Aber Und Doch Diese Dieser "
        "Dieses Dies Auch Dabei Dort Hier Heute Seit Seitdem",
        titles="med phil jur iur rer nat habil oec pol theol vet dent paed sc agr mult techn math "
        "pharm soc psych cult mont publ disc forest hum inform Ing Co",
    ),
    "en": Abbreviations(
        "Mr Mrs Ms Messrs Mx Dr Drs Prof Profs Rev Fr St Sts Mt Ft Gen Brig Col Maj Capt Lt Lieut "
        "Sgt Cpl Pvt Pfc Adm Cmdr Cdr Gov Sen Sens Rep Reps Hon Pres Amb Atty Asst Msgr "
        "Supt Det Insp e.g i.e cf vs viz approx ca esp incl resp assoc "
        "dept est Dept Univ &_Co Assn Ave Blvd Rd Jan Feb Apr Aug Sept Oct Nov Dec",
        "No Nos no nos pp Fig Figs fig figs vol vols Vol ch Ch Chap chap sec Sec Art art Eq eq Eqs "
        "eqs Ref Refs ref refs Tab para par Mar Jun Jul Ext ext Apt apt Tel et_al",
        may_end="Inc Corp Ltd Co Bros Mfg Intl Jr Sr Esq",
        starters="The A An He She It They We You I This That These Those There But And However In "
        "His Her Its My Our Your Their Then When While If After Before On At For From So As Who "
        "What Why How Where Yes Not Now Today Yesterday Tomorrow Some Many Most All Both Each "
        "Every With Without Since Because Although Also Please Do Did Does Is Are Was Were Can "
        "Could Would Should Let Here To Mr Mrs Ms",
    ),
    "es": Abbreviations(
        "Sr Sra Srta Sres Dr Dra Prof Dña Ud Uds Vd Vds Lic Ing Arq Gral Cnel p.ej ej aprox "
        "Excmo Excma Ilmo Ilma Sto Sta Srita Mons Pbro Hno Hna Pdte Tte Cmdte Almte Rvdo Rvda Dpto "
        "Depto Prov Avda Pza",
        "núm núms pág págs art arts vol vols cap caps fig figs tab",
        may_end="Cía Cia Ltda Hnos",
        starters="El La Los Las Un Una Él Ella Ellos Pero Y Se En Yo Nosotros Este Esta Luego",
    ),
    "fi": Abbreviations(
        "esim ym mm eli ts ns noin prof tri toht vrt nk puh os dipl fil",
        "nro kpl luku kuva",
        ordinals=True,
        titles="maist lis kand tri ins oik",
    ),
    "fr": Abbreviations(
        "MM Mme Mmes Mlle Mlles Dr Drs Pr Prs Me Mes Mgr Vve Gén Cdt Cne Sgt St Ste p.ex c.-à-d cf "
        "env av apr boul bd",
        "no nos pp art vol chap fig tabl éq",
        may_end="Cie Ets",
        starters="Le La Les Il Elle Ils Elles Un Une On Ce Cette Ces Mais Et Nous Vous "
        "Je Puis Dans",
    ),
    "it": Abbreviations(
        "sig sigg sig.ra dott dott.ssa prof prof.ssa ing avv arch on geom rag Sig Dott Prof "
        "Ing Avv Arch On Rev Mons Gen Col Cap Magg Ten Cav Comm Spett Egr Gent rev mons cav spett "
        "egr gent p.es es cfr ecc.mo ca",
        "nn pp pag pagg art artt vol voll cap capp fig figg tab sez",
        may_end="F.lli Soc",
        starters="Il Lo La Gli Le Un Una Lui Lei Loro Ma E Noi Io Poi Questo Questa",
    ),
    "nl": Abbreviations(
        "bijv bv d.w.z o.a m.b.t t.o.v i.v.m n.a.v a.u.b dhr mevr mw dr drs prof ir ing mr ds "
        "ca resp incl excl jhr jkvr kol kapt drs dra bc lic secr afd tel",
        "nr nrs blz art afb hfst tab",
        starters="De Het Een Hij Zij Ze Wij We Ik Maar En Dit Dat Deze Die Toen Daarna",
        titles="jur med phil",
    ),
    "no": Abbreviations(
        "bl.a f.eks ca dvs evt hhv pga prof dr hr fr adv siv avd tlf",
        "nr kap kl fig tab",
        ordinals=True,
        titles="cand stud mag jur med phil polit ing lic",
    ),
    "pl": Abbreviations(
        "np tzn tzw m.in mgr inż dr hab prof ks św gen płk ppłk mjr kpt ppor bp abp kard red adw "
        "mec lek wet dyr im woj pow gm pt ok ul al os pl tj itp.d",
        "nr str ust art rys tab rozdz poz",
        ordinals=True,
        titles="med arch nauk",
    ),
    "pt": Abbreviations(
        "Sr Sra Srs Sras Srta Dr Dra Drs Dras Prof Profa Eng Engª Arq Exmo Exma Ilmo Ilma Revmo "
        "Mons Cel Maj Ten Alm Des Dep Ver V.Exa p.ex aprox Av",
        "nº pág págs art arts vol vols cap caps fig figs tab",
        may_end="Cia Ltda",
        starters="O A Os As Um Uma Ele Ela Eles Elas Mas E Nós Eu Depois Este Esta",
    ),
    "ru": Abbreviations(
        "т.е т.к т.н т.п т.д гг ул пр пл им проф акад доц ред см ср напр англ нем фр лат св "
        "тыс млн млрд руб канд докт чл-корр ген полк подполк кап лейт инж гр тов обл зам нач",
        "стр рис табл ст гл разд",
        titles="наук мед техн филол юрид",
    ),
    "sv": Abbreviations(
        "bl.a t.ex dvs d.v.s ca m.m s.k o.s.v prof dr hr fr leg avd tel",
        "nr kap kl fig tab sid",
        ordinals=True,
        titles="fil jur med tekn kand mag lic dr läk",
    ),
    "tr": Abbreviations(
        "Dr Prof Doç Yrd Öğr Gör Arş Uzm Müh Av Op Dt Ecz Alb Yzb Bnb Sn Hz örn vb.g Bkz bkz",
        "No Şek Tab Böl",
        ordinals=True,
        may_end="Şti Tic San",
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
        *(" ".join(words) for words in zip(*(x[3:] for x in lists), strict=True)),
    )
