"""Where sentences of a document end, by example, and what holds for any document."""

import re

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from tf_transformer.documents.abbreviations import LANGUAGES, find_abbreviations
from tf_transformer.documents.joining import join_sentences
from tf_transformer.documents.sentence_boundaries import split_sentences
from tf_transformer.documents.sentence_splitter import sentence_splitter, space_between

SPLIT = tf.function(split_sentences, input_signature=[tf.TensorSpec([None], tf.string)])


SPLITTER = sentence_splitter()


def sentences(document):
    """The sentences, in the graph and in Python."""
    space, text, trailing = (part[0].numpy() for part in SPLIT([document])[:3])
    whole = [b"".join(parts).decode() for parts in zip(space, text, trailing, strict=True)]
    # In the graph, control characters that stand for others become U+0006.
    own = [re.sub("[\x01-\x05]", "\x06", sentence) for sentence in SPLITTER(document)]
    assert own == whole
    return [text.decode() for text in text]


@pytest.mark.parametrize(
    "expected",
    [
        ["Mr. Smith went to Washington.", "He arrived at 3 p.m. on Monday, e.g. late!"],
        ['"Really?" he asked.', '"Yes."', "She left."],
        ["Well... and more.", "What?!", "No… it is not.", "OK"],
        ["J. R. R. Tolkien and J.K. Rowling wrote books.", "So do I.", "He is taller than I."],
        ["The U.S. Army left.", "We live in the U.S.", "He does not."],
        ["It costs 3.14 euros.", "See Fig. 3 and No. 5.", "The answer is no.", "Why?"],
        ["(He left.)", "[So did she!]", "‘Then.’", "“End.”", "Here."],
        ["Es kam Dr. Müller, z. B. um 5 Uhr.", "Er ging bzw. lief."],
        ["Sie sagte: „Gut.“", "Dann ging sie.", "»Das gilt.«", "U.a. Für Nr. 5."],
        ["M. Dupont est parti.", "Où est-il ?", "«\xa0Là.\xa0»", "Merci !"],
        ["Он приехал в 1990 г. из Москвы.", "Потом уехал."],
        ["यह एक वाक्य है।", "यह दूसरा है।"],
        ["Visit www.example.com now.", "Write to a.b@c.de, please."],
        ["He arrived at 5 p.m.", "The train was late.", "We met in Washington D.C.", "They left."],
        ["See https://a.b/c?d=e.", "Then go.", "(J. Smith) and -K. Lee came."],
        ["MR. SMITH AND DR. JONES WENT TO ST. LOUIS ON JAN. 5.", "SEE FIG. 3.", "AN OS.", "Yes."],
        ["Il dit : « Bonjour. »", "Puis il part.", "« Quoi ? » demanda-t-elle.", "»Ja.«"],
        ["Smith et al. (2010) saw Marks & Co. Ltd. at Apt. 4.", "Et al. 5.", "Approx. 3."],
        ["In der Hauptstr. 5 wohnt PROF. DR. MAIER.", "Vgl. Nr. 3.", "Das ist Max.", "Gut."],
        ["Am 3. Oktober 2020 kam er.", "Am 5. august gikk han.", "Es war der 3.", "Gut."],
    ],
)
def test_sentences_with_spaces(expected):
    assert sentences(" ".join(expected)) == expected


# Sentences of each language.
IN_LANGUAGES = {
    "cs": [
        "Ing. arch. Novák přišel.",
        "MUDr. Malá a MVDr. Král také.",
        "Viz obr. 3 a odst. 2 zde.",
        "Je to např. dům.",
        "Firma ABC s.r.o. Praha roste.",
    ],
    "da": [
        "Cand. mag. Anne Hansen kom kl. 5 i dag.",
        "Prof. dr. med. Jensen gik.",
        "Vil du være med.",
        "Ja tak.",
    ],
    "de": [
        "Frau Dr. med. Lang und Herr Dr. phil. Kunz kamen.",
        "Dr. rer. nat. Otto Hahn sprach.",
        "Dr. jur. Anna Meier schwieg.",
        "Prof. Dr. rer. nat. habil. Dr. h.c. Kurz lachte.",
        "Die Müller GmbH u. Co. KG wuchs.",
        "Die Maier GmbH & Co. KG auch.",
        "Dipl.-Ing. Weiß ging.",
        "Mag. Huber blieb.",
        "Es geschah nach Chr. Geburt.",
        "Es war 44 v. Chr.",
        "Die Römer blieben.",
        "Siehe Anm. 3 und Nr. 5 dort.",
        "Halt! rief er.",
        "Die Gebr. Grimm sammelten Märchen.",
        "Er kam z. B. am 3. Mai.",
        "Wir auch.",
    ],
    "en": [
        "She works at Yahoo! in the sales office.",
        "He went to Jeopardy! last week.",
        "Is it Ask? he said.",
        "Great!",
        "iPhone sales rose.",
        "Apple Inc. CEO Tim Cook spoke.",
        "He works at Apple Inc.",
        "She does not.",
        "Smith Bros. Ltd. and Jones Corp. Europe merged.",
        "Martin Luther King Jr. Day is in January.",
        "It was King Jr.",
        "He spoke.",
        "Lt. Col. Brown met Sen. Jones and Rep. Lee.",
        "Messrs. Green and Msgr. White left.",
        "See Chap. 3 and Eqs. 4.",
        "He left at 5 p.m.",
        "My train was late.",
        "The U.S. Air Force flew.",
        "We live in the U.S.A.",
        "They do not.",
        "Ph.D. students met Dr. J. R. Ewing.",
        "Yes!",
        "No?",
        "OK.",
    ],
    "es": [
        "La Sra. Pérez y el Excmo. Sr. García vinieron.",
        "El Tte. López y Mons. Ruiz no.",
        "Véanse las págs. 3 y 4.",
        "Trabaja en García y Cía. Sevilla es grande.",
        "Era García y Cía.",
        "Ella salió.",
        "¿Qué?",
        "¡No!",
    ],
    "fi": [
        "Fil. tri Virtanen ja dipl. ins. Laine tulivat.",
        "Katso kuva 3 nyt.",
        "Nro. 5 on hyvä.",
    ],
    "fr": [
        "Mme. Dupont et le Gén. Leclerc sont là.",
        "Mgr. Martin et Me. Petit aussi.",
        "Voir fig. 3 et tabl. 4.",
        "Dupont et Cie. Paris grandit.",
        "C'est Dupont et Cie.",
        "Elle part.",
        "Non ! dit-il.",
    ],
    "it": [
        "Il sig. Rossi e la dott.ssa Bianchi, l'Ing. Verdi e Mons. Neri vennero.",
        "Vedi pag. 3 e cap. 4.",
        "La Spett. Ditta Rossi scrive.",
        "La Rossi S.p.A. Milano cresce.",
    ],
    "nl": [
        "Jhr. mr. De Vries en prof. dr. ir. Bakker kwamen.",
        "Zie blz. 3 en afb. 4.",
        "Dr. med. Smit ging.",
    ],
    "no": [
        "Cand. mag. Kari Olsen kom kl. 5 i dag.",
        "Prof. dr. med. Berg gikk.",
        "Se kap. 3.",
    ],
    "pl": [
        "Lek. med. Nowak i ks. abp. Kowalski przyszli.",
        "Prof. dr hab. inż. Wójcik mówił.",
        "Zob. rys. 3 i tab. 4 tam.",
        "Ul. Długa jest długa.",
    ],
    "pt": [
        "O Exmo. Sr. Silva e a Profa. Dra. Costa vieram.",
        "Ver págs. 3 e 4.",
        "A Silva e Cia. Lisboa cresce.",
        "É a Silva e Cia.",
        "Ela saiu.",
    ],
    "ru": [
        "Проф. Иванов и акад. Петров пришли.",
        "Канд. мед. наук Сидоров ушёл.",
        "См. рис. 3 и табл. 4.",
        "Ген. Жуков и инж. Попов говорили.",
    ],
    "sv": [
        "Fil. dr. Anna Berg och jur. kand. Olle Lund kom.",
        "Se kap. 3 och fig. 4 där.",
        "Leg. läk. Ek gick.",
    ],
    "tr": [
        "Yrd. Doç. Dr. Ayşe Kaya ve Av. Ali Demir geldi.",
        "Bkz. Şek. 3 ve Tab. 4 orada.",
        "Kaya Tic. Şti. İstanbul büyüdü.",
    ],
}


@pytest.mark.parametrize("languages", ["one", "all"])
@pytest.mark.parametrize("code", LANGUAGES)
def test_titles_and_companies(code, languages):
    """Those of the language end no sentence, with its list and with all."""
    expected = IN_LANGUAGES[code]
    split = sentence_splitter([code] if languages == "one" else LANGUAGES)
    assert [sentence.strip() for sentence in split(" ".join(expected))] == expected
    assert languages == "one" or sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            "你好。我是学生！你呢？“好的。”他说。",
            ["你好。", "我是学生！", "你呢？", "“好的。”", "他说。"],
        ),
        ("「はい。」と彼は言った。終わり", ["「はい。」と彼は言った。", "終わり"]),
        ("「行こう!」という。『え？』って何。", ["「行こう!」という。", "『え？』って何。"]),
        ("「はい。」とても長い。「いいえ。」", ["「はい。」", "とても長い。", "「いいえ。」"]),
        ("「はい。」\nと彼は", ["「はい。」", "と彼は"]),
        (
            "「うん。」とうなずいた。『本。』を読む。",
            ["「うん。」とうなずいた。", "『本。』を読む。"],
        ),
        ("彼は「行け！」。次", ["彼は「行け！」。", "次"]),
        ("他说“走吧！”就走了。“真的？”她问。", ["他说“走吧！”就走了。", "“真的？”她问。"]),
        ("مرحبا.\u200f كيف", ["مرحبا.\u200f", "كيف"]),
        ("One.\u200b \u202eTwo.\u202c Three", ["One.\u200b", "\u202eTwo.\u202c", "Three"]),
        ("1.1. Heading\nII. Part", ["1.1. Heading", "II. Part"]),
        ("你好吗?我很好!!  B", ["你好吗?", "我很好!!", "B"]),
        ("one\ntwo\r\n\r\nthree\u2028four\u3000", ["one", "two", "three", "four"]),
        ("1. First item\n2. Second item", ["1. First item", "2. Second item"]),
        ("", []),
        (" \n\t ", [""]),
        ("\x01\x05. A\x06", ["\x06\x06.", "A\x06"]),
        ("a.b.c. D", ["a.b.c. D"]),
    ],
)
def test_other_documents(document, expected):
    assert sentences(document) == expected


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
    strategies.lists(
        strategies.text(
            strategies.one_of(
                strategies.sampled_from(' .!?…。！"“”)\n\r\t\u3000\xa0aBZ1\x01\x02\x03'),
                strategies.characters(codec="utf-8"),
            )
        ),
        max_size=4,
    )
)
def test_nothing_is_lost(documents):
    """The parts of a document make it, positions are those of Python, and rows are apart."""
    documents = [re.sub("[\x01-\x05]", "\x06", document) for document in documents]
    found = SPLIT(tf.constant(documents, tf.string, shape=[len(documents)]))
    for row, document in enumerate(documents):
        space, text, trailing, start, end = (part[row].numpy() for part in found)
        parts = b"".join(
            part for three in zip(space, text, trailing, strict=True) for part in three
        )
        assert parts.decode() == document
        assert [document[a:b] for a, b in zip(start, end, strict=True)] == [
            part.decode() for part in text
        ]
        assert all(part == part.strip(b" \t\n\r") for part in text)
        assert not any(space[1:])
        assert sentences(document) == [part.decode() for part in text]


@pytest.mark.parametrize(
    ("before", "source", "expected"),
    [("Hallo.", "", " "), ("Hallo.", "\n\n", "\n\n"), ("好。", " ", ""), ("好！」", "", ""),
     ("好。", "  ", "  "), ("", "", " ")],
)  # fmt: skip
def test_between_translations(before, source, expected):
    """In Python as in the graph."""
    assert space_between(before, source) == expected
    if before:
        found = SPLIT([f"你。{source}好"])
        texts = tf.RaggedTensor.from_row_lengths([before, "x"], [2])
        assert join_sentences(found, texts)[0].numpy().tolist() == [f"{before}{expected}x".encode()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [". ", "a. ", "...", " ", "\n", "。", ".”", "a" * 50 + " ", "A.B. "]
)
def test_large_documents(unit):
    """A copy of the document for each of its sentences would need hundreds of gigabytes."""
    document = unit * (1_000_000 // len(unit))
    space, text, trailing = (part[0].numpy() for part in SPLIT([document])[:3])
    parts = (part for three in zip(space, text, trailing, strict=True) for part in three)
    assert b"".join(parts).decode() == document


def test_abbreviations_are_those_of_the_languages():
    assert "Nr" in find_abbreviations(["de"]).before_numbers.split()
    assert not any(find_abbreviations(["zh"]))
    dates = "Am 1. 1. 2020 und 24. Dez. 2020."
    assert split_sentences(tf.constant([dates]), ["de"]).text.to_list() == [[dates.encode()]]
    texts = tf.constant(["Am 3. Oktober. Der 5. Tag. Es ist"])
    found = [split_sentences(texts, x).text.to_list()[0] for x in (["de"], LANGUAGES, ["en"])]
    assert found == [
        [b"Am 3. Oktober.", b"Der 5. Tag.", b"Es ist"],
        [b"Am 3. Oktober.", b"Der 5.", b"Tag.", b"Es ist"],
        [b"Am 3.", b"Oktober.", b"Der 5.", b"Tag.", b"Es ist"],
    ]


@pytest.mark.parametrize("code", ["", "German", "DE", 3, "d|e"])
def test_a_language_is_a_code(code):
    with pytest.raises(ValueError, match="expected the code of a document's language, such as"):
        find_abbreviations([code])
