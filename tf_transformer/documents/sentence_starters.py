"""Words that begin a sentence, by language: function words with a capital.

They tell whether the period of an abbreviation such as "Inc." also ends the sentence. Before other
words it does not: a name may go on, and a cut through a sentence costs more than two sentences
together.
"""

from typing import NamedTuple


class Starters(NamedTuple):
    """The words of a language.

    Attributes:
        never_names: words that are no surnames, nor begin one as "De" does, so that they begin a
            sentence after an initial, too. "He" is missing: "K. He and X. Zhang".
        others: the other words.
    """

    never_names: str
    others: str


STARTERS = {
    "bg": Starters(
        "Той Тя Те Ние Вие Това Тези Този Тази Но Или Когато Ако Какво Къде Защо",
        "То Аз Ти И А В Във На С Със От По За Без При След Кой Как После Сега Там Тук Не Всички",
    ),
    "ca": Starters(
        "Ell Ella Ells Nosaltres Aquest Aquesta Això Però Quan També Què",
        "El La Els Les Un Una Vostè Jo Tu I O En Amb Per De Des Fins Si Com Després Abans No Sí "
        "Qui On És Són Va Tots Cada",
    ),
    "cs": Starters(
        "Ona Oni Ale Nebo Není Kde Proč Když Pokud Protože Potom Jeho Její Jejich Tento Tato Toto",
        "To Ten Ta On Já My Vy A I V Ve Na S Z Ze Do Od Po Pro Bez Při Nad Pod Před Je Jsou Byl "
        "Byla Bylo Ne Ano Co Kdo Kdy Jak Pak Každý Všichni Někteří",
    ),
    "da": Starters(
        "Det Jeg Og Men Eller Hvis Hvad Hvem Hvor Hvorfor Hvordan Ikke Hendes Deres Denne Dette "
        "Disse",
        "Den De Han Hun Vi I Du En Et På Med Af Fra Til For Om Ved Efter Før Når Da Så Nu Der Her "
        "Ja Nej Hans Alle",
    ),
    "de": Starters(
        "Er Sie Es Wir Ihr Ich Dies Diese Dieser Dieses Und Aber Oder Doch Denn Auch Dann Wenn "
        "Weil Obwohl Während Nachdem Bevor Warum Welche Nicht Trotzdem Deshalb Daher Außerdem "
        "Jedoch Danach Ihre Seine Eine",
        "Der Die Das Ein Du Man Jener Sein Unser Unsere Mein Meine Nur Nun Da Dort Hier Jetzt "
        "Heute Gestern Morgen Als Seit In Im Am An Auf Aus Bei Beim Bis Durch Für Gegen Mit Nach "
        "Ohne Um Unter Von Vom Vor Zu Zum Zur Über Zwischen Was Wer Wie Wo Kein Keine Alle Viele "
        "Einige Manche Jeder Jede So Sonst Später Ist Sind War Hat",
    ),
    "el": Starters(
        "Αυτός Αυτή Αυτό Εμείς Εσείς Και Αλλά Όταν Γιατί Μετά Δεν Είναι Ήταν",
        "Ο Η Το Οι Τα Τον Την Ένας Μια Ένα Εγώ Εσύ Ή Στο Στη Στην Στον Με Για Από Αν Τι Ποιος Πού "
        "Πώς Τώρα Εδώ Εκεί Όχι Ναι Όλοι",
    ),
    "en": Starters(
        "The She It They We This That These Those There But And However When While After If His "
        "Their Then What Who Why How Where Because Although It's",
        "A An He You I In Her Its Our My Your As At On For From With Before Since So Now Not No "
        "Yes Which Some Many Most All Each Every Both Another Other Also Though Until Once Here "
        "Let Please Nobody Nothing Is Are Was Were Do Does Did Can Could Will Would Should Has "
        "Have Had Today Yesterday Later Meanwhile Instead Moreover Furthermore Thus Therefore "
        "Still Yet Even Only Such To Of Under Over During Between Among He's She's They're We're",
    ),
    "es": Starters(
        "Él Ella Ellos Ellas Yo Nosotros Usted Ustedes Pero Cuando Aunque Mientras Después "
        "Entonces También Qué Quién Dónde Cuándo Cómo",
        "El La Los Las Un Una Unos Tú Se Su Sus Este Esta Estos Ese Esa Eso Esto Y O Sin En Con "
        "Por Para De Desde Hasta Si Como Antes Luego No Sí Es Son Fue Hay Todo Todos Cada Muchos "
        "Algunos Al Según Sobre Entre",
    ),
    "fi": Starters(
        "Hän Minä Sinä Tämä Nämä Mutta Kun Koska Vaikka Mitä Missä Miksi Sitten Hänen Heidän",
        "He Se Ne Me Te Tuo Ja Tai Jos Kuka Miten Nyt Siellä Täällä Ei On Oli Ovat Kaikki Myös",
    ),
    "fr": Starters(
        "Il Elle Ils Elles Nous Vous Cette Ces C'est Mais Donc Quand Lorsque Puis Alors Ainsi "
        "Pourquoi Comment Voici Voilà Cependant Toutefois",
        "Le La Les Un Une Des On Je Tu Ce Cet Son Sa Ses Leur Leurs Notre Votre Mon Ma Mes Et Ou "
        "Or Car Ni En Dans Sur Sous Avec Sans Pour Par Après Avant Depuis Pendant Si Comme Aussi "
        "Que Qui Où Tous Toutes Chaque Plusieurs Aucun À Au Aux De Selon Entre",
    ),
    "hr": Starters(
        "Ona Oni Ovaj Ova Ovo Nije Što Gdje Zašto Zatim Njegov Njezin",
        "To Taj Ta On Ja Mi Vi I A Ali Ili U Na S Iz Do Od Po Za Bez Pri Je Su Bio Bila Ne Da Tko "
        "Kada Kako Kad Ako Jer Sada Svi",
    ),
    "hu": Starters(
        "Egy Ezek Azok Hogy Amikor Mert Miért Hogyan Akkor Most Minden",
        "A Az Ő Ők Mi Ti Én Te Ez És De Vagy Ha Aki Hol Itt Ott Nem Igen Is",
    ),
    "it": Starters(
        "Lui Loro Noi Voi Egli Ella Essi Questo Questa Questi Quello Quella Dove Quando Perché "
        "Anche Dopo Così",
        "Il Lo La Gli Le Un Uno Una Lei Io Che Chi Come Se E Ma O Non Nel Nella Nei Con Per Da Di "
        "A Al Alla Dal Prima Poi Ora Tutti Ogni Molti Alcuni Suo Sua È Sono Era Ha I",
    ),
    "nl": Starters(
        "Hij Zij Wij Dit Deze Maar Ook Toen Want Wanneer Hoe Waarom Waar Geen Niet",
        "De Het Een Ze We Ik Je Jij U Dat Die Er En Of Als Dus In Op Met Van Voor Na Bij Uit Door "
        "Om Te Zijn Haar Hun Mijn Ons Onze Wat Wie Nu Dan Daar Hier Alle Veel Sommige Is Was",
    ),
    "no": Starters(
        "Det Jeg Og Men Eller Hvis Hva Hvem Hvor Hvorfor Hvordan Ikke Hennes Deres Denne Dette "
        "Disse",
        "Den De Han Hun Vi I Du En Et På Med Av Fra Til For Om Ved Etter Før Når Da Så Nå Der Her "
        "Ja Nei Hans Alle",
    ),
    "pl": Starters(
        "Ona Oni One Ono Ale Lecz Oraz Jest Są Był Była Było Nie Gdzie Kiedy Dlaczego Gdy Jeśli "
        "Ponieważ Potem Teraz Jego Jej Ich",
        "To Ten Ta Te On Ja Ty My Wy I A W We Na Z Ze Do Od Po Przy Za Dla Bez Nad Pod Przed Tak "
        "Co Kto Jak Czy Każdy Wszystkie Niektóre",
    ),
    "pt": Starters(
        "Ele Ela Eles Elas Eu Nós Você Essa Isso Isto Mas Quando Embora Depois Antes Então Também "
        "Quem Onde",
        "O A Os As Um Uma Este Esta Esse E Ou Em No Na Nos Nas Com Por Para De Do Da Desde Se "
        "Como Não Sim Que É São Foi Há Todos Cada Muitos Seu Sua",
    ),
    "ro": Starters(
        "Ei Ele Noi Voi Eu Acest Această Acești Aceste Dar Sau Pentru Când Dacă Unde Apoi Acum "
        "Aici",
        "El Ea Tu Un O Și În Pe La Cu Fără De Din Până Ce Cine Cum Acolo Nu Da Este Sunt Era A "
        "Toți",
    ),
    "ru": Starters(
        "Он Она Они Оно Мы Вы Это Этот Эта Эти Но Или После Когда Если Что Где Почему Потом Затем "
        "Теперь Тогда Его Её Их Некоторые Также Однако",
        "Я Ты Тот Та И А В Во На С Со К Ко Из От До По За Для Без При Над Под Перед Кто Как Там "
        "Здесь Не Нет Да Все Всё Каждый Многие Был Была Есть",
    ),
    "sk": Starters(
        "Ona Oni Ale Alebo Nie Kde Kedy Prečo Keď Pretože Potom Teraz Jeho Jej Tento Táto Toto",
        "To Ten Tá On Ja My Vy A V Vo Na S So Z Zo Do Od Po Pre Bez Pri Je Sú Bol Bola Bolo Áno "
        "Čo Kto Ako Ak Ich Každý Všetci",
    ),
    "sl": Starters(
        "Ona Oni Ampak Toda Kje Kdaj Kako Zakaj Ker Potem Zdaj Njegov Njen",
        "To Ta Ti On Jaz Mi Vi In Ali V Na S Z Do Od Po Za Brez Pri Je So Bil Bila Ni Ne Da Kaj "
        "Kdo Ko Če Vsi",
    ),
    "sv": Starters(
        "Det Och Men Eller Från Efter När Vad Vem Varför Inte Hennes Deras Denna Detta Dessa",
        "Den De Han Hon Vi Jag Du En Ett I På Med Av Till För Om Vid Före Då Var Hur Så Nu Där "
        "Här Ja Nej Hans Alla",
    ),
    "tr": Starters(
        "Onlar Bunun Onun Fakat Ancak Neden Nasıl Eğer Çünkü Sonra Şimdi Burada Orada Bunlar",
        "O Bu Şu Biz Siz Ben Bir Ve Ama Veya Ne Nerede Evet Hayır Her Bütün Bazı",
    ),
    "uk": Starters(
        "Він Вона Вони Воно Це Цей Ця Ці Але Або Після Коли Якщо Що Де Чому Потім Тепер Його Її Їх",
        "Ми Ви Я Ти Та І Й А В У На З Із До По За Для Без При Хто Як Там Тут Не Ні Так Усі Всі",
    ),
}
