"""Words before a period that ends no sentence, by language."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tf_transformer.documents.sentence_starters import STARTERS, Starters
from tf_transformer.errors import InputError
from tf_transformer.printable import shown


class Abbreviations(NamedTuple):
    """Abbreviations of a language, without their last period.

    Upper and lower case differ, but all abbreviations are also found in text in capitals, and those
    in lower case at the begin of a sentence. `*` stands for the begin of any word, `_` for a space.

    Words that end a sentence before any word with a capital, such as "etc.", are in no list. Single
    letters and letters with periods, such as "S.p.A.", need none: they are as `after_names`.

    Attributes:
        anywhere: words whose period never ends a sentence, such as titles.
        after_names: words whose period ends a sentence only before one of `STARTERS`, such as the
            forms of companies.
        before_numbers: words whose period ends no sentence if a number follows, such as "No".
        ordinals: whether a period after one or two digits is that of an ordinal number; of several
            languages together, only if it is in all of them, or if lower case follows.
        after_ordinals: words with a capital that follow an ordinal number, such as months.
        after_times: words with a capital that follow a time of day such as "9 a.m.": days, months
            and time zones.
    """

    anywhere: str = ""
    after_names: str = ""
    before_numbers: str = ""
    ordinals: bool = False
    after_ordinals: str = ""
    after_times: str = ""


# English names and times, and titles that are words of no language, stand in texts of any language.
_IN_ANY_LANGUAGE = Abbreviations(
    anywhere="Mr Mrs Ms Dr Prof Drs Dipl Ing Ir Lic Mgr Msgr Mons Mme Mmes Mlle Dott Dott.ssa Sig "
    "Sig.ra Sra Srta Dra Hr Hrn Frl Dhr Mevr Jhr Ph",
    after_names="Inc Corp Ltd Co Jr Sr St M.Sc B.Sc D.Sc M._Sc B._Sc M.Eng B.Eng M._Eng B._Eng "
    "M.Ed B.Ed Ed.D M.Phil D.Phil M.Tech B.Tech M.Arch B.Arch LL.M LL.B ff",
    before_numbers="No et_al",
    after_times="Monday Mondays Tuesday Tuesdays Wednesday Wednesdays Thursday Thursdays Friday "
    "Fridays Saturday Saturdays Sunday Sundays January February March April May June July August "
    "September October November December Eastern Central Mountain Pacific Greenwich Coordinated",
)
# In the order of `sentence_starters.STARTERS`, with the same keys.
_LISTS = {
    "bg": Abbreviations(
        anywhere="проф акад доц инж арх д-р г-н г-жа г-ца ул бул пл кв св напр вж срв чл.-кор ген "
        "полк кап",
        before_numbers="стр чл ал фиг табл гл",
    ),
    "ca": Abbreviations(
        anywhere="Sr Sra Srs Srta Dr Dra Prof Profa Mn Excm Hble p.ex p._ex aprox cf Av Avda Ctra "
        "Gral Excma Il·lm Il·lma Hnble Ing Arq",
        after_names="Cia &_Cia",
        before_numbers="núm pàg pàgs art arts vol cap fig tel",
    ),
    "cs": Abbreviations(
        anywhere="např tzv tzn tj resp mj popř příp cca Ing Mgr Bc BcA MUDr JUDr RNDr PhDr PhMr "
        "MVDr MDDr PaedDr PharmDr ThDr ThLic RSDr DrSc CSc doc prof akad sv pí gen plk pplk mjr "
        "kpt npor ul nám tř MgA ICDr ThMgr ThBc ing mgr dr Mons rtm por ppor prap arch MSc BSc",
        after_names="spol",
        before_numbers="čl str odst obr tab kap roč sv písm tel",
        ordinals=True,
    ),
    "da": Abbreviations(
        anywhere="bl.a bl f.eks fx ca dvs evt hhv mht mfl pga jf jvf pr prof dr hr fr frk adv "
        "cand lic kapt adm St Skt inkl ekskl tlf afd ing lekt",
        before_numbers="nr kl stk art kap bd afs pkt fig tab",
        ordinals=True,
    ),
    "de": Abbreviations(
        anywhere="kath evang dt engl frz österr röm griech bzw z.B z.b z._B d.h d._h u.a u._a "
        "i.d.R i._d._R o.ä u.ä s.o s.u v.a v._a z.T z._T z.Zt z._Zt ca vgl evtl ggf sog bspw insb "
        "insbes inkl exkl einschl ausschl zzgl abzgl bes bezgl bzgl betr gem lt max min mind "
        "entspr allg ehem geb gest verh verw hrsg mult habil Dr Dres Prof Dipl Ing Mag Hr Hrn Fr "
        "Frl Fam St Skt Hl Hrsg Verf Bearb Abt Univ Priv Doz Bgm Präs Vors Stellv Insp Rev Hd "
        "Gebr Fa Gen Oblt Lt Hptm Maj Obstlt Ltn Ofw Uffz Gefr Adm Kpt Kptlt Pfr Msgr RA StB Kfm "
        "Kffr Zeitschr Jb Tel apl Dkfm Frhr Hzg Kgl Vorst hl hll Inh "
        "Obering Oberlt Oberstlt StR OStR KommR",
        after_names="u._Co und_Co &_Co Co Mio Mrd Tsd Std Min Sek Stk Str *str Chr jun sen",
        before_numbers="Nr Nrn Art Abs Ziff Abb Tab Aufl Rn Rz Bd Bde Kap Vers Anm Fn Anh Bl Jg "
        "Kl Lfg Taf et_al Pos Pkt min mind max Jan Febr Feb Apr Aug Sept Okt Nov Dez",
        ordinals=True,
        after_ordinals="Januar Jänner Februar Feber März April Mai Juni Juli August September "
        "Oktober November Dezember Jan Feb Apr Aug Sept Okt Nov Dez Jahrhundert Jahrhunderts "
        "Jahrtausend Jahrtausends Jh Jhd Stock Stockwerk Etage Platz Lebensjahr Geburtstag "
        "Weltkrieg Weltkriegs Weltkrieges Spieltag Bezirk Auflage Semester Klasse Runde",
    ),
    "el": Abbreviations(
        anywhere="κα κκ κος Δρ δρ καθ π.χ δηλ βλ πρβλ Αγ Αφοί λεωφ οδ τηλ ταγμ στρ αναπλ επίκ "
        "ομότ Αρχιμ Σεβ",
        before_numbers="σελ αρ αριθ αρθ κεφ εικ πίν",
    ),
    "en": Abbreviations(
        anywhere="Mr Mrs Ms Mx Messrs Mmes Dr Drs Prof Profs Asst Assoc Rev Fr Msgr Gen Col Maj "
        "Capt Lt Sgt Cpl Pvt Pfc Adm Cmdr Cmdt Brig Ens Gov Sen Sens Rep Reps Hon Pres Supt Det "
        "Insp Atty Rt Amb Treas Secy Cllr Ald Mt Ft Com e.g i.e cf vs viz approx ca esp incl resp "
        "assoc dept est Dept Cdr Lieut Sts",
        after_names="Inc Corp Ltd Co &_Co Bros Assn Pty Univ Sr Jr Esq St Ave Blvd Rd Hwy Pkwy "
        "Jan Feb Aug Sept Sep Oct Nov Dec Intl Mfg ed eds",
        before_numbers="N° No Nos no nos pp Fig Figs fig figs vol vols Vol Vols ch Ch sec Sec "
        "Secs art Art Arts Eq Eqs eq Ref Refs ref Tab para par Mar Apr Jun Jul Ext ext Apt apt "
        "Tel Rm App Ste et_al Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun Chap chap eqs refs ft yd "
        "lb lbs oz fl",
    ),
    "es": Abbreviations(
        anywhere="admón Sr Sra Srta Sres Sras Dr Dra Dres Prof Profa Dña Lic Ing Arq Abg Gral "
        "Cnel Cap Tte Sgto Cmdte Alm Pbro Mons Excmo Excma Ilmo Ilma Rvdo Rvda p.ej p._ej ej "
        "aprox cfr Sto Sta Avda Av Pza EE adj atte dpto Almte depto Hna Hno Pdte Prov Srita Lcda "
        "Lcdo Ldo Lda Mtro Mtra Fr Psic Mg Mgtr Abog Téc Econ Rvdmo Rvdma Cte Tcol Subtte Cmte "
        "Pte Gob Dip Sen Cbo",
        after_names="Ud Uds Vd Vds UU Cía &_Cía Ltda Hnos Bco Jr a._C d._C Cia",
        before_numbers="No N° Nº Ext Cra Lun Mar Mié Jue Vie Sáb Dom Ene Feb Abr May Jun Jul Ago "
        "Sep Sept Oct Nov Dic núm pág págs art arts vol cap fig tel párr apdo et_al caps figs "
        "núms tab vols",
    ),
    "fi": Abbreviations(
        anywhere="esim ym mm ts ns prof tri toht maist vrt nk os kenr kapt puh ins dos arkkit",
        before_numbers="nro klo",
        ordinals=True,
    ),
    "fr": Abbreviations(
        anywhere="MM Mme Mmes Mlle Mlles Dr Drs Pr Me Mes Mgr Vve St Ste Sté Sts Éts Ets p.ex "
        "p._ex c.-à-d cf env boul bd chem éd édit coll trad réf Gal Cdt Cne Col Gén Lt Cap Prs "
        "Sgt Ing Arch Adj Fr Dre Dres",
        after_names="Cie &_Cie Ltée av apr janv févr juill sept oct nov déc",
        before_numbers="N° no nos n° pp vol vols chap fig figs art arts tél et_al tabl éq éqs",
    ),
    "hr": Abbreviations(
        anywhere="dr mr prof doc ing akad sv gđa gđica gosp npr tj tzv odn ul gen bojn dipl inž "
        "mag",
        after_names="god",
        before_numbers="br str čl sl tab tel",
        ordinals=True,
    ),
    "hu": Abbreviations(
        anywhere="dr prof özv ifj pl ill ld vö ún tkp szerk Szt alez ezr őrgy szds hdgy id",
        after_names="Kft Zrt Nyrt Rt Bt Kkt",
        before_numbers="kb sz évf köt fej tel",
        ordinals=True,
    ),
    "it": Abbreviations(
        anywhere="Dir sig sigg sig.ra sig.na dott dott.ssa dr prof prof.ssa proff ing avv arch on "
        "geom rag mons gen col cap ten brig amm comm cav Sig Sigg Sig.ra Sig.na Dott Dott.ssa "
        "Prof Prof.ssa Proff Ing Avv Arch On Geom Rag Mons Gen Col Cap Ten Amm Comm Cav Spett Egr "
        "Gent Gent.mo Gent.ma Ill.mo Chiar.mo Rev Rev.mo p.es p._es ad_es cfr ecc.mo ca Magg egr "
        "gent rev spett Sac Card Sen Pres Em Dott.ri D.ssa Rev.do Preg.mo Gent.le Onn",
        after_names="a._C d._C F.lli Soc",
        before_numbers="N° lun mar mer gio ven sab dom gen feb apr mag giu lug ago set sett ott "
        "nov dic nn pp pag pagg art artt vol voll cap capp fig figg tel tab et_al sez",
    ),
    "nl": Abbreviations(
        anywhere="bijv bv d.w.z o.a m.b.t t.o.v i.v.m n.a.v a.u.b i.p.v t.a.v e.d dhr mevr mw mej "
        "mr dr drs prof ir ing ds ca resp incl excl evt zgn vgl lt kol gen maj kap St afd bc dra "
        "jhr jkvr kapt lic secr mgr luit serg sgt adj weth kand zr adv wnd",
        before_numbers="nr nrs blz pag art fig hfst afb tab jrg tel et_al",
    ),
    "no": Abbreviations(
        anywhere="bl.a f.eks ca dvs evt hhv pga jf jfr prof dr hr fr frk adv kapt St inkl ekskl "
        "tlf avd ing lekt",
        before_numbers="nr kl art kap bd pkt fig tab",
        ordinals=True,
    ),
    "pl": Abbreviations(
        anywhere="np tzn tzw m.in mgr inż dr dr_hab prof ks św bł gen płk ppłk mjr kpt por ppor "
        "adm pt ok ul al os pl tj zob ur zm red oprac tłum wg doc lek abp bp kard mec adw dyr woj "
        "insp nadkom podkom sierż prez wicemin prok sędz lic",
        after_names="o.o im",
        before_numbers="nr str ust art rozdz rys tab pkt poz tel",
        ordinals=True,
    ),
    "pt": Abbreviations(
        anywhere="Sr Sra Srta Srs Sras Dr Dra Drs Prof Profa Eng Enga Arq Exmo Exma Ilmo Ilma "
        "V.Exa V._Exa Pe Gen Cel Cap Ten Maj Sgt Alm Des Min Dep p.ex p._ex aprox cf Av Rod Trav "
        "Sto Sta Dras Engª Mons Revmo Me Bel Bela Esp Sen Gov Rev Fr Card Cmte Pres Adv Téc Enf "
        "Enfa Brig Com",
        after_names="Cia &_Cia Ltda Jr a._C d._C",
        before_numbers="N° n° Nº nº pág págs art arts vol cap fig tel et_al caps figs tab vols",
    ),
    "ro": Abbreviations(
        anywhere="dl dna d-na dra d-ra dr prof ing arh av conf lect asist Sf de_ex ex cca str bd "
        "bul gen col cpt lt pr ec psih",
        before_numbers="nr pag art alin vol cap fig tel",
    ),
    "ru": Abbreviations(
        anywhere="пгт т.е т._е т.к т._к т.н т._н г-н г-жа д-р ул пр просп пл пер наб бул проф "
        "акад доц канд чл.-корр инж напр англ св преп ген полк подполк кап лейт адм тов зав ср см "
        "дер обл р-н докт зам нач филол юрид",
        after_names="гг вв им ред фр нем лат тыс млн млрд руб гр",
        before_numbers="стр рис табл ст гл пп кв корп разд",
    ),
    "sk": Abbreviations(
        anywhere="napr tzv tzn tj resp príp cca Ing Mgr Bc MUDr JUDr RNDr PhDr MVDr MDDr PaedDr "
        "PharmDr ThDr CSc DrSc doc prof akad sv gen plk pplk mjr kpt npor ul nám MgA ArtD ThLic "
        "JCLic ICLic ThMgr ThBc ing mgr dr Mons rtm por ppor prap MSc BSc",
        after_names="spol",
        before_numbers="čl str ods obr tab kap roč písm tel",
        ordinals=True,
    ),
    "sl": Abbreviations(
        anywhere="dr mag prof doc inž akad sv gdč npr tj t.i tim oz ul gen polk mr",
        before_numbers="št str čl odst sl tab tel",
        ordinals=True,
    ),
    "sv": Abbreviations(
        anywhere="bl.a t.ex dvs d.v.s ca m.m s.k o.s.v jfr jmf prof dr hr fr frk inkl exkl resp "
        "St S:t S:ta tel kapt löjtn överstelöjtn övlt ing doc",
        before_numbers="nr kl kap art bd avd fig tab et_al sid",
        ordinals=True,
    ),
    "tr": Abbreviations(
        anywhere="Dr Prof Doç Yrd Av Sn Hz Uzm Op Öğr Arş Gör Alb Yb Bnb Yzb Org Gen Müh Mim örn "
        "vb.g bkz krş çev Dt Ecz Ord Yük Ütğm Tğm Bçvş Korg Tümg Tuğg",
        after_names="Şti Ltd Blv San Tic",
        before_numbers="No Cad Sok Mah Tel Böl Şek Tab",
        ordinals=True,
    ),
    "uk": Abbreviations(
        anywhere="проф акад доц канд інж напр див порівн англ нім св вул просп пл пров бул ген "
        "полк кап т.зв т._зв ім п-н гр зам",
        after_names="ін тис млн млрд грн ред лат",
        before_numbers="стор рис табл ст гл пп буд",
    ),
}

LANGUAGES = tuple(_LISTS)
"""Languages with a list; Chinese and Japanese need none."""

# Of several languages together: abbreviations in lower case that are words of another language and
# often end its sentences, such as "on" of the Italian "onorevole", and those that rarely do.
_COMMON_WORDS = (
    "bc bes bul cap dos dra est ex gem gest id ill ir lek mag maj min mind mm ok on os red ten ur"
)
_RARE_WORDS = "al arch col comm doc gen gent Gent kap kol por pt rag sig tri"


def find_abbreviations(languages: Iterable[str]) -> tuple[Abbreviations, Starters]:
    """Returns the abbreviations of some languages together, and the words that begin a sentence.

    Args:
        languages: codes of languages, such as "de"; those without a list add nothing to what is
            known of any language.

    Raises:
        InputError: a code is not made of two or three lower-case letters.
    """
    languages = check_languages(languages)
    known = [code for code in languages if code in _LISTS]
    lists = [_LISTS[code] for code in known]
    ordinals = bool(lists) and all(x.ordinals for x in lists)
    lists.append(_IN_ANY_LANGUAGE)
    starters = [STARTERS[code] for code in {*known, "en"}]
    anywhere = _words(x.anywhere for x in lists)
    after_names = _words(x.after_names for x in lists)
    if len(set(known)) > 1:
        after_names |= anywhere & _words([_RARE_WORDS])
        anywhere -= _words([_RARE_WORDS, _COMMON_WORDS])
    return Abbreviations(
        _join(anywhere - after_names),
        _join(after_names),
        _join(_words(x.before_numbers for x in lists)),
        ordinals,
        _join(_words(x.after_ordinals for x in lists)),
        _join(_words(x.after_times for x in lists)),
    ), Starters(
        _join(_words(x.never_names for x in starters)), _join(_words(x.others for x in starters))
    )


def check_languages(languages: Iterable[str]) -> tuple[str, ...]:
    """Checks codes of languages and returns them.

    Args:
        languages: the codes; a language without a list is one, too.

    Raises:
        InputError: `languages` is no list, or a code is not made of two or three lower-case
            letters.
    """
    if isinstance(languages, str) or not isinstance(languages, Iterable):
        raise InputError(
            f"expected a list of codes of languages, such as ['de']. Received: {shown(languages)}"
        )
    codes = tuple(languages)
    for code in codes:
        if not (isinstance(code, str) and re.fullmatch("[a-z]{2,3}", code)):
            raise InputError(
                f"expected the code of a document's language, such as 'de'. Received: {code!r}"
            )
    return codes


def _words(lists: Iterable[str]) -> set[str]:
    return {word for words in lists for word in words.split()}


def _join(words: set[str]) -> str:
    """Returns words in a fixed order, the longest first: one of them may begin another."""
    return " ".join(sorted(words, key=lambda word: (-len(word), word)))
