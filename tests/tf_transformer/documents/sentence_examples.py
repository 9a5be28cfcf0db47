"""Documents by language, one a line; ` | ` stands for a space between two sentences.

`DOCUMENTS` are split so whether the language is known or not. Those of `ALONE` need it: the same
word is an abbreviation in one language and ends sentences in another.
"""

DOCUMENTS = {
    "en": """
Mr. and Mrs. Jones met Ms. Davis. | Messrs. Hill and Low wrote to Dr. Reed.
Gen. Lee, Lt. Col. Hart and Sgt. Maj. Dunn met Adm. Byrd. | Capt. Ray and Brig. Gen. Poe did not.
Rev. Martin and Hon. Judge Fry spoke to Sen. Cole, Rep. Roe and Gov. Hale. | They left.
The Rt. Hon. Ann Lee and Msgr. Bell arrived. | Pvt. Ryan, Pfc. Dow and Cpl. Ho did not.
Prof. Dr. Lang and Asst. Prof. Ito met Atty. Gen. Wu. | They talked to Pres. Ford.
St. Paul lies near Mt. Hood, not near Ft. Worth. | He lives on Fifth Ave. North.
Martin Luther King Jr. Day is a holiday. | John Doe Sr. Vice President is not. | It rained.
His son is Ed Roe Jr. | He won. | I know Ed Roe Sr. | His son lost.
She has a Ph.D. in law and an M.D. from Yale. | Jane Roe, Esq. and Tom Poe, M.D. signed.
Apple Inc. CEO Tim Cook and Ford Motor Co. chairman Bill Ford met. | They agreed.
He works at Acme Corp. | The firm is old. | It bought Hill Bros. and Marks & Co. Ltd. last year.
Acme Inc. USA grows. | Beta Corp. North America leads. | Gamma Ltd. UK does not.
AMERICAN INDUSTRY INC. SOLD SHARES. | A.B. Hammersmith & Co. bought them.
It is part of Sony Corp. | In 2010 it was sold. | It was part of Hill & Sons Ltd. | We knew.
Marks & Co. | The shop is in London. | Sotheby & Co. Ltd. London is not. | It is big.
She works at Yahoo! in the sales office. | She sang in Oklahoma! on Broadway.
Did he ask why? and if so, when? | Nobody knows. | Stop! | Now!
See Fig. 3, No. 5, pp. 10-12, Vol. IV and Ch. 2. | It is in Sec. 8 of Art. 5.
It was built ca. 1850, i.e. late, e.g. in Ohio, cf. Smith et al. (2010). | It is old.
On Jan. 5, on Sept. 3 and on Dec. 24 it rained. | It was May. | It was Wed. 7 and Thurs. 8.
It rose 3.5 percent to $1.25 a share. | It cost 1,000.50. | Version 2.0.1 is out. | See 4.
He finished No. 1 again. | Was he first? | No. | I think so. | It is item no. 7.
The museum opens at 3 a.m. | Anna paid 937 pounds. | It was 10 p.m. | “Paul!” she said. | Yes.
It starts at 9 a.m. Sunday, 8 p.m. Eastern Time or 5 p.m. May 3. | At 11p.m. | Jan came.
We meet at 5 p.m. on Monday and at 9 a.m. Tuesday. | It ends at 7 p.m. | They go at 8 P.M. | I do.
Tyson vs. Holyfield and Roe v. Wade are known. | The approx. size is 5 in. by 8 in. today.
It is 5 ft. 3 in. tall and weighs 8 lbs. 5 oz. today. | It was ten ft. | We saw it.
The poet (fl. 1870) wrote it. | See ed. Smith and eds. Jones and Poe. | It is the 2nd ed. | He knew.
See pp. 20 ff. Smith on it. | It is on p. 20 ff. | The rest is not. | It is a gem. | I saw it.
It was 5 ft. tall and weighed 20 lbs. or 9 kg. | It grew.
She sells pens, paper, etc. to schools. | He sells pens, paper, etc. | She does not.
J. R. R. Tolkien, J.K. Rowling, G.B.J. Dreyfus and H. G. Wells wrote. | We read.
Dr. Edgar F. Codd met Lester B. Pearson. | W. E. B. Du Bois and R. De Niro did not.
The U.S. Army and the U.K. Government left. | He lives in the U.S. | She does not.
They came from the U.S. | However, they stayed in Washington D.C. | We left. | I met U.S. Sen. Roe.
The A. B. Dick Company is from Niles. | It is owned by Poe, Roe & Co. in St. Louis.
This is plan B. | The other is plan A. | She takes vitamin C. | It is good. | So am I. | You?
He is taller than I. | She played Henry V. | They came. | Was it Elizabeth I. or not?
“Come in,” she said. | “Now.” | “Why?” he asked. | “Go!” they cried. | (He left.)
He said (in 1990!) that it is over. | [See below.] | It is 'done.' | Yes.
Wait... what is it? | Well . . . maybe. | She left... | He stayed. | Hm… no… | OK.
Jan paid for the horse.[1] | Laura left.[2][3] | She was late.¹ | It rained.²³ | End.
Come on. | Let's go. | Are you ok? | I'm ok. | We saw Eli. | He was ill. | See the sun.
I met Al. | He is my pal. | Turn it on. | Turn it in. | It is an art. | Give it to me.
She put it in the car. | Then she sat. | He met Phil. | Max came. | Use 9 mm. | OK. | Is it you?
Is that so?! | It is!! | No way!? | Yes. | Really?? | Really.
Visit www.example.com. | Write to a.b@example.org or see a.txt. | Node.js runs.
Send the report to J. Smith for approval. | He is J. Smith. | We know him.
Trying to get back to Com. & Adm. through the dark. | It worked.
He has Ph.D.-level training. | She has none.
Albert I. Jones left. | She is older than you and I. | Did you see? | N°. 1026 is free. | It is.
“Stop!” – he said. | Is it so? — she asked. | Yes. | No! – nobody answered.
hey! | how are you? | i am fine! | and you?
He went to Jeopardy! last week. | Is it Ask? he said. | Great! | iPhone sales rose.
Apple Inc. CEO Tim Cook spoke. | He works at Apple Inc. | She does not.
Smith Bros. Ltd. and Jones Corp. Europe merged. | Martin Luther King Jr. Day is in January.
It was King Jr. | He spoke. | Lt. Col. Brown met Sen. Jones and Rep. Lee.
Messrs. Green and Msgr. White left. | See Chap. 3 and Eqs. 4. | He left at 5 p.m.
My train was late. | The U.S. Air Force flew. | We live in the U.S.A. | They do not.
Ph.D. students met Dr. J. R. Ewing. | Yes! | No? | OK.
He owns Yum! Brands shares. | She left. | Yum! China fell. | Yum! | She ate. | Wow! | Brands fell.
She reads Yahoo! News and Yahoo! Finance at Yahoo! Inc. in Ohio. | They left Yahoo! | She stayed.
The Jeopardy! Masters began. | We saw Jeopardy! | It was fun. | The Joomla! Project grew.
We saw Mamma Mia! Here We Go Again and Oh! Calcutta! in May. | Mamma Mia! | He is here.
Panic! At The Disco and Godspeed You! Black Emperor played. | Don't panic! | At last. | It is you!
Guess? Inc. sells jeans. | Can you guess? | In time. | Yu-Gi-Oh! Duel Monsters ran. | E! News too.
It is in Saint-Louis-du-Ha! Ha! in Quebec. | Ha! | Ha! | Fun. | Boom! Studios grew. | Boom!
Dott. Rossi, Mme. Curie, Mlle. Petit, Sra. Gil, Hr. Schmidt, Jhr. Bos and Dhr. Vos met. | They ate.
Lic. Soto, Ing. Mora, Mgr. Novák, Dipl. Ing. Huber and Ir. Visser left. | Ann Roe, M.Sc. is in.
She has an M.Sc. | He has none. | Ed has a B. Sc. | However, it is old. | M. Sc. Weber, Ph. D. Lang.
Dr. rer. nat. Weber, Dr. med. Lang and lic. iur. Huber spoke. | He is a Dr. rer. nat. | She is not.
He bought some art. | Tom came. | It is his mag. | Ed left. | Anna beats the drum. | Art.
""",
    "de": """
Gem. § 5, gem. §§ 280 ff. BGB und entspr. § 7 ff. ist es so. | § 8 gilt nicht. | Siehe S. 3 ff.
Der hl. Franz, die hll. Peter und Paul und Inh. Karl Kunz kamen. | Der Hl. Geist auch. | Es war so.
Frau Dr. med. Lang und Herr Dr. phil. Kunz kamen. | Sie blieben.
Prof. Dr. rer. nat. Weber traf Dr. jur. Braun. | Dr. iur. Hahn und Dr. theol. Vogt fehlten.
Dr. med. dent. Roth, Dr. h. c. mult. Bach und Dr. med. vet. Fuchs sprachen. | Es war spät.
Prof. Dr.-Ing. Kurz, Dipl.-Ing. Lang und Dipl.-Kfm. Breit bauten. | Priv.-Doz. Dr. habil. Au sah zu.
PD Dr. phil. habil. Stern und Univ.-Prof. Dr. oec. Mond lehren. | Wir lernen.
Hr. Meier, Fr. Schulz und Frl. Wolf gingen zu St. Peter. | Bgm. Huber kam nicht.
Die Müller GmbH u. Co. KG und die Maier GmbH & Co. KG liefern. | Die Huber AG nicht.
Die Fa. Krause und die Gebr. Schmidt OHG sind alt. | Er arbeitet bei Krause & Co. | Sie nicht.
Gen. Kraft, Oblt. Starr und Hptm. Frei grüßten Maj. Lund. | Sie gingen.
Am 3. Mai kam er. | Am 5. Oktober 2020 ging er. | Im 19. Jahrhundert lebte er im 3. Stock.
Der II. Weltkrieg endete 1945. | Am 24. Dez. 2020 schneite es. | Ludwig XIV. war König.
Es kostet ca. 3,50 Euro, d. h. 7 DM. | Er kam z. B. um 5 Uhr, u. a. mit Nr. 7.
Sie kommen i. d. R. am Montag, d. h. Sie fehlen nie. | Das gilt z.B. Für uns alle.
Vgl. Abb. 3, Kap. IV, S. 12 und Bd. 2, Aufl. 3. | Siehe Art. 5 Abs. 2 und § 3 Ziff. 4.
Er wohnt in der Hauptstr. 5, Tel. 12345. | Bitte Hrn. Koch, bzw. Frau Bär, anrufen.
Der kath. Pfarrer und die evang. Kirche baten. | Er trägt die Brille von Mr. Potato Head. | Ja.
Der Vertrag mit Apple Inc. Kalifornien gilt. | Er ist von der Apple Inc. | Sie zahlt. | Gut.
Die Maschine hat max. 5 PS, min. 2 PS. | Das ist Max. | Er ist gut.
Mio. Menschen, Mrd. Euro und Tsd. Tonnen sind viel. | Er kaufte Äpfel, Birnen usw. | Sie nicht.
J. W. v. Goethe und E. T. A. Hoffmann schrieben. | Wir lasen. | Nimm Vitamin C. | Es hilft.
„Komm!“, rief sie. | „Nein.“ | »Warum?« fragte er. | Er ging … und kam. | Sie schwieg …
Das geschah am 5. | Das war gut. | Wir sind zu dritt. | Ihr auch? | Ja! | Nein.
Die Zeitschr. f. Physik Bd. 5 ist alt. | Der Hrsg. Karl Kern starb. | Der Verf. Otto Ohm lebt.
St. Gallen, Bad St. Leonhard und Sankt Pölten sind Orte. | Der Ing. Josef Berg baute sie.
Dr. rer. nat. Otto Hahn sprach. | Dr. jur. Anna Meier schwieg.
Prof. Dr. rer. nat. habil. Dr. h.c. Kurz lachte. | Die Müller GmbH u. Co. KG wuchs.
Die Maier GmbH & Co. KG auch. | Dipl.-Ing. Weiß ging. | Mag. Huber blieb.
Es geschah nach Chr. Geburt. | Es war 44 v. Chr. | Die Römer blieben. | Siehe Anm. 3 und Nr. 5 dort.
Halt! rief er. | Die Gebr. Grimm sammelten Märchen. | Er kam z. B. am 3. Mai. | Wir auch.
Dipl.-Psych. Dr. Weber kam. | Herr Dipl.-Päd. Roth und Dipl.-Wirt.-Ing. Horn gingen.
Dipl.-Phys. Schulz, Dipl.-Soz.-Päd. Klein, Dipl. Inform. Bär und dipl. ing. Hof kamen. | Gut.
Lic. iur. Huber, lic. phil. Keller, Dr. iur. et lic. oec. Moser und lic. rer. pol. Frei kamen.
Mag. art. Gruber, Mag. rer. soc. oec. Wolf, Mag. (FH) Berg und Mag. med. vet. Roth. | Sie kamen.
Dr. sc. hum. Klein, Dr. nat. techn. Kern, Dr. des. Berg, Ass. jur. Lenz und Prof. em. Dr. Kurz.
Dr. rer. biol. hum. Lang, Dr. med. dent. h. c. Hof, Dr.-Ing. E. h. Kraus und Dr. scient. med. Roth.
Stud. jur. Braun, cand. med. Schwarz, Bakk. phil. Lang, M. Eng. Kurz und M.Sc. Becker. | Alle kamen.
Dr. troph. Winter, Dr. oec. troph. Sommer und Dr. rer. physiol. Herbst kamen. | Sie blieben.
Dr. rer. cur. Vogel, Dr. sc. mus. Falke und Dr. rer. tech. Specht lehren. | Wir lernen.
Obering. Stein, Oberlt. Sand, Oberstlt. Kies und KommR. Mörtel bauten. | Sie ruhten.
Sie ist Dr. troph. | Er auch.
Er ist Dr. phil. | Sie nicht. | Sie ist Mag. rer. nat. | Wir auch. | Ich mag Art. | Gruber malt.
DR. MED. WEBER UND DIPL. ING. HUBER KAMEN. | SIE GINGEN.
""",
    "fr": """
M. Dupont et Mme Durand ont vu MM. Martin et Mlle. Petit. | Ils sont partis.
Le Dr. Roux, le Pr. Blanc et Me. Noir sont là. | Mgr. Duval arrive.
Où est-il ? | Là-bas ! | « Merci ! » dit-elle. | « Oui. » | Elle rit.
Voir p. 12, vol. 3, chap. IV, fig. 2 et art. 5. | C'est n° 7, cf. Durand et al. (2010).
Il habite env. 3 km plus loin, c.-à-d. ici, p. ex. au bd. Hugo. | C'est loin.
Peugeot S.A. et Total S.A.R.L. ont signé. | Il travaille chez Renault S.A. | La société est grande.
J.-P. Sartre et A. de Saint-Exupéry ont écrit. | Il a pris de la vitamine C. | Elle dort.
Il est né av. J.-C. à Rome. | Elle apr. J.-C. aussi. | Il vend des fruits, etc. | Elle achète.
Ils vont à St. Malo et à Ste. Anne. | Le 3 janv. 2020, il neige. | Le 5 sept. aussi.
La Sté. Bernard et les Éts. Leroy vendent. | La Cie. Morel achète.
Mme. Dupont et le Gén. Leclerc sont là. | Mgr. Martin et Me. Petit aussi. | Voir fig. 3 et tabl. 4.
Dupont et Cie. Paris grandit. | C'est Dupont et Cie. | Elle part. | Non ! dit-il.
Dr. Ing. Roux, Ing. Blanc, Fr. Paul et lic. iur. Noir sont là. | Il aime l'art. | Paul aussi.
""",
    "es": """
El Sr. García y la Sra. López vieron al Dr. Ruiz. | La Dra. Gil y la Srta. Paz no.
D. Juan y Dña. Ana fueron con el Lic. Soto y el Ing. Mora. | Uds. también. | ¿Sí?
¿Dónde está? | ¡Aquí! | ¿Quién es Ud. Señor? | «No.» | Él dijo: «¡Sí!» y se fue.
Véase núm. 5, pág. 12, págs. 3-5, vol. 2, cap. IV y fig. 3. | Art. 7 no. | N.º 8 tampoco.
Vive en la Avda. Colón, p. ej. en la C. Mayor. | EE. UU. es grande. | Está en EE. UU. | Es así.
Telefónica S.A. de C.V. y Gómez y Cía. Ltda. firmaron. | Trabaja en Repsol S.A. | La empresa crece.
El Gral. Franco, el Cnel. Paz y el Cap. Díaz llegaron. | La Profa. Sanz y el Prof. Vega no.
Su Excmo. Sr. Alcalde y el Ilmo. Sr. Juez hablaron. | Sto. Tomás y Sta. Ana también.
Era Lun. 15 de Mar. de 2014. | El corredor No. 103 y el N°. 7 ganaron. | Era Ago. 1984. | Sí.
Nació en el 44 a. C. en Roma. | Murió en el 14 d. C. | Fue rey. | Vende frutas, etc. | Ella no.
J. L. Borges y G. García Márquez escribieron. | Toma vitamina C. | Ella duerme.
La Sra. Pérez y el Excmo. Sr. García vinieron. | El Tte. López y Mons. Ruiz no.
Véanse las págs. 3 y 4. | Trabaja en García y Cía. Sevilla es grande. | Era García y Cía.
Ella salió. | ¿Qué? | ¡No!
Mtro. Díaz, Lcda. Gil, Ldo. Paz, Fr. Luis, Psic. Mora e Ing. Agr. Ruiz llegaron. | Ella no.
Tte. Cnel. Soto, Cmte. Paz, Rvdmo. Sr. Obispo y M.Sc. Gil hablaron. | Son dos. | Ana vino.
""",
    "it": """
Il Sig. Rossi e la Sig.ra Bianchi videro il Dott. Verdi. | La Dott.ssa Neri e i Sigg. Russo no.
L'Ing. Conti, l'Avv. Greco e l'Arch. Bruno lavorano. | Il Prof. Serra e la Prof.ssa Gallo no.
L'On. Ferri, il Gen. Costa, il Col. Riva e il Cap. Longo partirono. | Mons. Galli restò.
Vedi pag. 12, pagg. 3-5, vol. 2, cap. IV, fig. 3, art. 5 e n. 7. | È tutto.
Ad es. il caffè, p. es. il tè, cfr. Dante, ca. 1300. | È così.
La Fiat S.p.A. e la Rossi S.r.l. firmarono. | Lavora alla Eni S.p.A. | La ditta è grande.
Dov'è? | È qui! | «Sì.» | «No!» disse lei. | Il Rag. Monti e il Geom. Villa risero.
S. Francesco e S. Chiara vissero ad Assisi. | Era il 44 a.C. a Roma. | Vende pane, ecc. | Ella no.
Spett. ditta Rossi, Egr. Sig. Bianchi e Gent. Sig.ra Neri. | Tel. 12345. | Ciao.
Il sig. Rossi e la dott.ssa Bianchi, l'Ing. Verdi e Mons. Neri vennero. | Vedi pag. 3 e cap. 4.
La Spett. Ditta Rossi scrive. | La Rossi S.p.A. Milano cresce.
Cav. Lav. Bianchi, Gr. Uff. Rossi, per. ind. Neri, Dott. Ing. Conti e Card. Riva. | È tutto.
""",
    "nl": """
Dhr. Jansen en mevr. De Vries zagen dr. Bakker. | Prof. Smit en drs. Visser niet.
Mr. Mulder, drs. Bos en ing. Vos werken. | Ds. Post en mw. Kok niet. | Zij wel.
Zie blz. 12, nr. 5, art. 3, fig. 2 en hfst. 4. | Het is ca. 3 km, d.w.z. ver, bijv. te voet.
Philips N.V. en Jansen B.V. tekenden. | Hij werkt bij Philips N.V. | Het bedrijf groeit.
Dit gaat o.a. over m.b.t. en t.o.v. het plan. | Hij kwam i.p.v. zij. | Waar is hij? | Hier!
Lt. Kok, kol. Prins en gen. Dekker kwamen. | St. Nicolaas ook. | J. F. Kennedy niet. | Dat is zo.
Hij kocht appels, peren, enz. | Zij niet. | ‘Kom!’ riep hij. | ‘Nee.’ | Ja. | ’s Avonds kwam hij.
Jhr. mr. De Vries en prof. dr. ir. Bakker kwamen. | Zie blz. 3 en afb. 4. | Dr. med. Smit ging.
Ir. Visser en ing. Smit kwamen. | Mr. dr. De Vries, mr. drs. Vos en prof. mr. Kok niet.
Mevr. ir. Visser, de heer ir. Smit, dr. ir. P. Bakker en Prof. Ir. Kok spraken. | Dhr. ing. Bos.
Bc. Jansen, M.Sc. Bakker, LL.M. Smit en Mgr. Eijk. | Luit. Kok en serg. Vos bleven.
""",
    "pt": """
O Sr. Silva e a Sra. Costa viram o Dr. Lima. | A Dra. Reis e a Profa. Cruz não.
O Eng. Melo, o Arq. Pires e a D. Maria chegaram. | O Exmo. Sr. Juiz e V. Exa. falaram.
Veja pág. 12, págs. 3-5, vol. 2, cap. IV, fig. 3, art. 5 e n.º 7. | É tudo.
Mora na Av. Central, p. ex. na R. Nova, aprox. 3 km. | Onde está? | Aqui! | “Sim.” | “Não!” disse.
A Vale S.A. e a Silva & Cia. Ltda. assinaram. | Trabalha na Petrobras S.A. | A empresa cresce.
O Gen. Dias, o Cel. Rocha e o Cap. Nunes partiram. | O Pe. Lopes e Sto. Antônio não.
Nasceu em 44 a.C. em Roma. | Vende frutas, etc. | Ela não. | J. M. Eça escreveu. | Eu li.
O Exmo. Sr. Silva e a Profa. Dra. Costa vieram. | Ver págs. 3 e 4. | A Silva e Cia. Lisboa cresce.
É a Silva e Cia. | Ela saiu.
Téc. Lima, Enf. Costa, Sen. Cruz, Gov. Dias, Rev. Pe. Lopes e M.Sc. Silva falaram. | Eu vou.
""",
    "pl": """
Dr hab. Nowak i prof. Kowalski przyszli. | Mgr inż. Zając i ks. Wolny nie. | Szkoda.
Ul. Długa 5, al. Jana i pl. Wolności są blisko. | Mieszka przy ul. Nowej. | Daleko.
Zob. str. 12, art. 5, ust. 2, rozdz. 3, rys. 4 i nr 7. | To np. Kraków, tj. miasto, m.in. stare.
Firma ABC Sp. z o.o. i Orlen S.A. podpisały. | Pracuje w Orlen S.A. | To duża firma.
Gen. Anders, płk. Maczek, mjr. Hubal i por. Bór walczyli. | Św. Jan i bł. Jerzy nie.
W 1990 r. był mały. | Zm. 5. maja 2010. | Gdzie? | Tu! | Tak.
Kupił jabłka, gruszki itd. | Ona nie. | A. Mickiewicz pisał. | „Tak!” powiedział. | „Nie.”
Lek. med. Nowak i ks. abp. Kowalski przyszli. | Prof. dr hab. inż. Wójcik mówił.
Zob. rys. 3 i tab. 4 tam. | Ul. Długa jest długa.
Dr n. med. Nowak, dr hab. n. hum. Kos, dr inż. Zając, lek. stom. Wilk i prof. zw. Król. | Są tu.
Mgr inż. Zając, mgr farm. Kos, gen. bryg. Nowak, st. sierż. Wilk i inż. arch. Król przyszli. | Tak.
""",
    "ru": """
Проф. Иванов и акад. Петров встретили г. Сидорова. | Г-н Орлов и д-р Попов ушли.
Он приехал в 1990 г. из Москвы. | Потом в 1995 г. уехал. | А. С. Пушкин и Л. Н. Толстой писали.
См. рис. 3, табл. 2, гл. IV, стр. 12, т. 5, п. 7 и ст. 8. | Напр. Москва, т. е. столица, и т. д.
Ул. Ленина, д. 5, кв. 7, пр. Мира и пл. Победы рядом. | Им. Кирова нет.
Это стоит 5 тыс. руб. и 3 млн. долл. сразу. | Дорого! | Где? | «Да!» сказал он. | «Нет.»
Ген. Жуков, полк. Орлов, кап. Лебедев и св. Николай были там. | Гг. Смирновы нет.
Проф. Иванов и акад. Петров пришли. | Канд. мед. наук Сидоров ушёл. | См. рис. 3 и табл. 4.
Ген. Жуков и инж. Попов говорили.
Д-р техн. наук Иванов, канд. филол. наук Петрова, ст. преп. Орлов и гл. ас. Попов. | Они тут.
""",
    "cs": """
Ing. Novák, Mgr. Dvořák a MUDr. Černá přišli. | JUDr. Malý a prof. Velký ne.
Doc. Král, PhDr. Sova a RNDr. Liška učí. | Bc. Jan Nový studuje. | Pan Ph.D. Horák ne.
Firma Škoda a.s. a Novák s.r.o. podepsaly. | Viz str. 12, č. 5, čl. 3, odst. 2 a obr. 4.
Dne 3. května 2020 a 5. 6. 2021 pršelo. | Je to např. Praha, tj. město, tzv. zlaté. | Kde? | Tady!
Sv. Václav a gen. Svoboda jsou známí. | V 19. století žil. | Koupil jablka, hrušky atd. | Ona ne.
Ul. Nová, nám. Míru a tř. Svobody jsou blízko. | Narodil se r. 1990. | Byl malý.
Ing. arch. Novák přišel. | MUDr. Malá a MVDr. Král také. | Viz obr. 3 a odst. 2 zde.
Je to např. dům. | Firma ABC s.r.o. Praha roste.
Mgr. art. Malý, MgA. Černá, Ing. Mgr. Nový, dipl. um. Sova a akad. soch. Král přišli. | Tady.
Plk. gšt. Král, rtm. Novák, ppor. Malý a gen. por. Nový odešli. | Dr. rer. nat. Sova také.
""",
    "da": """
Hr. Hansen og fr. Jensen så dr. Nielsen. | Prof. Olsen ikke. | Den 3. maj kom han.
Det er bl.a. her, f.eks. nr. 5, dvs. ca. 3 km, jf. § 7, stk. 2. | Hvor? | Her!
Firmaet Novo A/S og Hansen ApS skrev. | Kl. 8 kom han. | Kaptajn Holm gik, jvf. s. 12. | Ja.
Kom med. | Vi går. | God nat. | Sov godt. | H. C. Andersen skrev. | Vi læste. | Osv. osv. | Slut.
Cand. mag. Anne Hansen kom kl. 5 i dag. | Prof. dr. med. Jensen gik. | Vil du være med. | Ja tak.
Cand.merc.aud. Holm, cand. theol. et phil. Berg, cand. polyt. Lund og exam. jur. Dahl kom. | De gik.
""",
    "no": """
Hr. Hansen og fr. Berg så dr. Lie. | Prof. Dahl ikke. | Den 3. mai kom han.
Det er bl.a. her, f.eks. nr. 5, dvs. ca. 3 km, jf. § 7. | Hvor? | Her! | Kl. 8 kom han.
Kom med. | Vi går. | Han gikk til St. Olav. | Bjørnson skrev. | Equinor ASA vokste. | Ja.
Cand. mag. Kari Olsen kom kl. 5 i dag. | Prof. dr. med. Berg gikk. | Se kap. 3.
Cand. real. Dahl, siv. øk. Lie, siv.ing. Berg og dr. polit. Moe kom. | De kom med. | Dr. Lie også.
""",
    "sv": """
Hr. Svensson och dr. Berg såg prof. Lind. | De gick. | Den 3 maj kom han.
Det är bl.a. här, t.ex. nr. 5, dvs. ca. 3 km, s.k. nära, jfr. kap. 2. | Var? | Här!
Kom med. | Vi går. | S:t Erik och Sankt Göran är kända. | Kl. 8 kom han. | Han sa ”Ja!” och gick.
Volvo AB växer. | Äpplen, päron osv. | Hon gick. | A. Strindberg skrev. | Det är bra.
Fil. dr. Anna Berg och jur. kand. Olle Lund kom. | Se kap. 3 och fig. 4 där. | Leg. läk. Ek gick.
Civ. ing. Berg, pol. mag. Ek, ekon. lic. Lund och fil. hedersdr. Holm. | Ta med. | Dr. Berg gick.
""",
    "fi": """
Prof. Virtanen ja tri. Korhonen tulivat. | Esim. tämä, ts. se, mm. nro. 5, vrt. s. 12. | Missä?
Hän tuli 3. toukokuuta 2020 ja lähti 5. kesäkuuta. | Nokia Oyj kasvaa. | Täällä!
Omenoita, päärynöitä jne. | Hän lähti. | J. Sibelius sävelsi. | ”Tule!” hän sanoi. | Niin.
Fil. tri Virtanen ja dipl. ins. Laine tulivat. | Katso kuva 3 nyt. | Nro. 5 on hyvä.
Tekn. lis. Koski, fil. yo. Mäki, valt. maist. Laine, lääket. tri. Salo ja apul. prof. Aho. | Niin.
""",
    "tr": """
Dr. Yılmaz, Prof. Kaya ve Doç. Demir geldi. | Sn. Öz ve Av. Tekin gelmedi. | Neden?
Örn. bu, vb. şeyler, bkz. s. 12 ve No. 5. | Atatürk Cad. 7, Gül Sok. 3 ve Mah. 5. | Burada!
Koç A.Ş. ve Ak Ltd. Şti. imzaladı. | Alb. Er ve Gen. Ay gitti. | Evet.
Yrd. Doç. Dr. Ayşe Kaya ve Av. Ali Demir geldi. | Bkz. Şek. 3 ve Tab. 4 orada.
Kaya Tic. Şti. İstanbul büyüdü.
Ord. Prof. Kaya, Op. Dr. Demir, Uzm. Dr. Öz, Öğr. Gör. Er ve Yük. Müh. Ay geldi. | Evet.
""",
    "hu": """
Dr. Nagy és prof. Kovács jött. | Özv. Szabó és ifj. Tóth nem. | A Magyar Kft. és az OTP Nyrt. írt.
2020. május 3. óta itt él. | Pl. ez, ill. az, kb. 3 km, ld. 5. old. | Hol? | Itt!
Dr. habil. Nagy és dr. med. Kovács jött. | Hol?
""",
    "sk": """
Ing. Novák, Mgr. Kováč a MUDr. Horváth prišli. | Firma Tatra a.s. a Nový s.r.o. podpísali.
Dňa 3. mája 2020 pršalo. | Je to napr. Bratislava, tzv. mesto, č. 5, str. 12. | Kde? | Tu!
Mgr. art. Malý, ThLic. Kováč, akad. soch. Nový, rtm. Horváth a ArtD. Malá prišli. | Tu!
""",
    "sl": """
Dr. Novak, prof. Kranjc in doc. Zupan so prišli. | Podjetje Krka d.d. in Nova d.o.o. sta podpisali.
Dne 3. maja 2020 je deževalo. | To je npr. Ljubljana, tj. mesto, št. 5, str. 12. | Kje? | Tukaj!
Mag. farm. Novak, dr. dent. med. Kranjc, univ. dipl. inž. Zupan in mr. Kos so prišli. | Kje?
""",
    "hr": """
Dr. Horvat, prof. Kovač i mr. Babić došli su. | Tvrtka Pliva d.d. i Nova d.o.o. potpisale su.
Dana 3. svibnja 2020. godine padala je kiša. | To je npr. Zagreb, tj. grad, br. 5, str. 12. | Gdje?
Dr. sc. Horvat, mr. sc. Kovač, dr. med. Babić, dipl. oec. Perić i mag. art. Jurić. | Gdje?
""",
    "ro": """
Dl. Popescu și dna. Ionescu l-au văzut pe dr. Radu. | Prof. Dinu nu. | Unde?
Firma Dacia S.A. și Nova S.R.L. au semnat. | De ex. aici, nr. 5, str. Lungă, pag. 12. | Aici!
Prof. univ. dr. Radu, conf. univ. Dinu, ing. dipl. Popa și pr. Ionescu. | Unde?
""",
    "uk": """
Проф. Шевченко і акад. Франко прийшли. | Він народився у 1990 р. в Києві. | Т. Г. Шевченко писав.
Див. рис. 3, табл. 2, стор. 12 і ст. 8, напр. тут, тобто т. зв. місто. | Вул. Нова і м. Львів. | Де?
Канд. юрид. наук Коваль, д-р іст. наук Франко і докт. філол. наук Бойко. | Де?
""",
    "bg": """
Проф. Иванов и акад. Петров дойдоха. | Роден е през 1990 г. в София. | Вж. стр. 12, напр. тук.
Ул. Нова и бул. Витоша са близо. | Г-н Димов и д-р Попов не. | Къде? | Тук!
Гл. ас. Иванов, доц. д-р инж. Петров и ст. преп. Димов. | Къде?
""",
    "el": """
Ο κ. Παπαδόπουλος και η κα. Νικολάου ήρθαν. | Ο Δρ. Γεωργίου και ο καθ. Ιωάννου όχι.
Βλ. σελ. 12, αρ. 5, π.χ. εδώ, δηλ. τώρα, κ.λπ. μαζί. | Πού είναι; | Εδώ! | Ναι.
Αναπλ. καθ. Γεωργίου και Αρχιμ. Παύλος ήρθαν. | Εδώ!
""",
    "ca": """
El Sr. Puig i la Sra. Serra van veure el Dr. Vila. | La Dra. Roca i el Prof. Mas no.
Vegeu pàg. 12, núm. 5, vol. 2 i fig. 3, p. ex. aquí. | On és? | Aquí! | Viu a l'Av. Nova. | Bé.
L'Excma. Sra. Roca i l'Il·lm. Sr. Puig. | On és?
""",
    # Without a list
    "ar": """
كيف حالك؟ | أنا بخير. | هل أنت هنا؟! | نعم!
قال د. خالد ذلك. | ثم ذهب.
""",
    "ur": """
آپ کیسے ہیں؟ | میں ٹھیک ہوں۔ | شکریہ!
""",
    "hi": """
यह एक वाक्य है। | यह दूसरा है। | क्या यह तीसरा है? | हाँ!
""",
    "ka": """
გამარჯობა! | როგორ ხარ? | კარგად ვარ.
""",
    "hy": """
Սա առաջինն է։ | Սա երկրորդն է։ | Վերջ։
""",
    "my": """
ဒါက ပထမ။ | ဒါက ဒုတိယ။
""",
    "am": """
ሰላም ነው። | እንዴት ነህ፧ | ደህና።
""",
}
ALONE = {
    "hu": """
Id. Szabó és id. Nagy jött. | Hol?
""",
    "de": """
Der 5. Tag war kalt. | Das 2. Kind kam am 1. 1. 2020.
""",
    "cs": """
V 2. kole vyhrál tým Sparta. | Byl to 5. Ročník.
""",
    "it": """
L'on. Ferri parlò con l'ing. Conti. | Bene.
""",
    "pl": """
Mieszka na os. Piastów, ok. Krakowa, pt. Dom. | Tak.
Ur. 3. maja 1980. | Mgr Nowak, red. Zając i mec. ok.
""",
    "fr": """
Il lit Hugo, éd. Gallimard. | Me. Noir dort.
""",
}
