"""Degrees and ranks of several parts, such as "Dr. rer. nat.", "cand. mag." and "gen. bryg.".

They stand before names in texts of any language. The parts alone are words that end sentences, as
"med" does in Danish and "art" in English, so that they are in no list of abbreviations.
"""

FIRST_PARTS = (
    "dr dres mag lic bakk dipl ass cand stud prof em ao univ hon priv ing arch akad mgr civ siv "
    "exam bitr fil tekn teol med ekon jur odont farm agr pol leg vet filos apul lääk lääket oik "
    "valt kauppat kasv yht hall maat metsät psyk hum lek inż hab n st mł asp gen plk mjr mr struč "
    "conf lect asist gr cav dott per tte ten drs jhr mevr mw dhr ds канд докт д-р доц гл ст"
)
"""What begins a degree, without its period. Words in lower case may begin with a capital."""

FIRST_WORDS = "dr prof mgr lek inż heer mevrouw"
"""What may begin one without a period."""

NEXT_PARTS = (
    # Subjects
    "med dent vet univ phil nat rer pol oec soc medic publ jur iur utr theol sc hum techn scient "
    "agr mont paed pæd päd psych pharm ing disc math inform biol cult forest hort silv art arch "
    "real polyt merc aud it comm agric odont san sociol ed oecon polit philol philos øk ek farm "
    "psyk stom wet ind civ mech troph physiol biomed cur mus tech "
    "мед техн физ мат физ.-мат экон ист пед психол биол хим юрид филол "
    "филос геогр геол архит полит социол екон іст біол хім філол філос "
    # Degrees and ranks
    "h.c habil des em mag dr kand lic stud hedersdr läk sjuksk psykoterap tandläk lekt tri lis "
    "maist yo ins n hab zw nadzw inż inž bryg dyw szt sierż asp mjr por gšt mal soch um spec dipl "
    "cnel col lav uff ir mr drs ds ас преп "
    # With a capital: "Dipl.-Psych."
    "Ing Psych Päd Inform Inf Phys Chem Math Vw Volksw Betriebsw Kfm Kffr Wirt Wirtsch Wi Ök Oec "
    "Geol Geogr Biol Soz Sozpäd Hdl Jur Met Des Pol Theol Stat Agr Forstw Arch Dolm Übers Bibl "
    "Verw Med Min Hist Prof Doz Univ Civ Mec Ind Mag Lav Uff Cnel Col"
)
"""What follows, each with a period of its own. Upper and lower case differ."""
