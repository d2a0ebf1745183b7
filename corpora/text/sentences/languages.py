"""Languages as the sentence splitter knows them: a table of abbreviations each, and what else ends a sentence there.

Promise: a table holds what a dictionary of the language lists as abbreviations, with the words that open its sentences;
English is `corpora.text.sentences.signs`. A text of another language, or of one that is not certain, is read with
`EVERY`: English, and what cannot be taken for a word of another language. Cost: made at import, in milliseconds.
"""
# ruff: noqa: RUF001 - Cyrillic letters are meant

from collections.abc import Mapping
from dataclasses import dataclass

from corpora.text.sentences.signs import (
    ABBREVIATION,
    BEFORE_NUMBER,
    BEFORE_SMALL,
    BEFORE_STARTER,
    MONTH,
    NEVER_ENDS,
    SAYING,
    STARTER,
    WORDS,
    word_kinds,
)

# What else a language does: "3. Mai" is no end; "I." is an initial; a colon or a semicolon ends before a capital;
# what an apostrophe joins to a word is not of it, as in "l'Ing.".
ORDINAL, INITIAL_I, COLON, SEMICOLON, ELISION = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words of a language, with the sum of what each says, and the sum of what else the language does.

    code: ISO 639; "" for one that is not certain, "*" for one without a table
    words: at most eight bytes of UTF-8, ASCII letters small
    """

    code: str
    words: Mapping[bytes, int]
    manner: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReading:
    """What a document is read with: its language, and whether it has capitals."""

    words: Mapping[bytes, int]
    manner: int
    cased: bool


# The words that open sentences are not those that open surnames, such as "De", "La" and "Van".
_LISTS: dict[str, tuple[int, dict[int, str]]] = {
    "de": (
        ORDINAL | INITIAL_I,
        {
            NEVER_ENDS: "bspw bzgl bzw ca d.h d.i dipl dr evtl gem ggf hl hrsg i.a i.d.r ing inkl insb lt mind n "
            "o.g phil prof rer s.o s.u sog spez st u.u v v.a verh vgl z.b z.t z.z zw zzgl",
            BEFORE_NUMBER: "abb abs anm apr art aug az bd bde bl dez feb febr hausnr jan jg jul jun kap nov nr nrn "
            "okt randnr rdnr rn s sept str tab tel ziff ziffer",
            BEFORE_STARTER: "abt allg amtl aufl ausg bes betr chr co dt e.v ehem etc ev exkl geb gegr gesch gest gez "
            "ggü griech hbf hg intl jh jhd jhdt jhs jun kath kfm lfd med mil min mio mrd n.chr naturw "
            "o.ä orig rel sek sen std stellv stk techn teilw tsd u.a u.v.m u.ä urspr usf usw v.chr "
            "verf vertr wiss zit zool",
            BEFORE_SMALL: "biol chem phys pol",
            STARTER: "ab aber alle als also am an auch auf aus bei beim bis da dabei dafür damit danach dann "
            "das dazu dem den denn der deren des deshalb dessen die dies diese dieser dieses doch "
            "dort durch ein eine einem einen einer eines er erst es etwa für gegen hier ich ihr ihre "
            "im in ist ja jede jeder jetzt kein keine man manche mehr mein mit nach nachdem nicht "
            "noch nun nur ob obwohl oder ohne schon sein seine seit sie sind so sobald sogar somit "
            "sondern sowie trotz trotzdem um und unser unter viele vom von vor wann warum was weil "
            "weiter wenn wer werden wie wir wird wo während zu zudem zum zur zwar zwischen über",
            SAYING: "antworte bemerkte dachte entgegne erklärt erwidert flüstert fragt fragte lachte meint "
            "meinte murmelte rief ruft sagt sagte schrie sprach",
            MONTH: "april august dezember februar januar juli juni jänner mai märz november oktober septembe",
        },
    ),
    "fr": (
        INITIAL_I | SEMICOLON | ELISION,
        {
            NEVER_ENDS: "av bd cf dir dr env ex ing me mgr mlle mlles mm mme mmes p.ex pr prof réf st ste vs",
            BEFORE_NUMBER: "al art avr ch chap déc fig févr jan janv juil juin jul mar no nos nov oct p par pp sept "
            "tel tél vol éd",
            BEFORE_STARTER: "adj adm anc apr arr bull coll dép dépt inc inf j.-c jr lat rég sté suiv sup univ",
            BEFORE_SMALL: "etc hab ltd max min",
            STARTER: "afin ainsi alors après au aucun aussi autre aux avant avec c ce cela celle celui cependa "
            "ces cet cette chaque comme d dans depuis donc dont durant dès elle elles en enfin "
            "ensuite et il ils j je jusqu l lors lorsque mais malgré même n ni nos notre nous on or "
            "ou où par parce parmi pendant plus plusieu pour pourtant puis qu quand quant que quel "
            "quelle qui quoi sa sans selon ses seul si son sous sur ta tes tous tout toute toutes "
            "très tu un une vers voici voilà vos votre vous y à",
            SAYING: "demanda demande disait dit fit murmura répond répondi s'écri",
        },
    ),
    "es": (
        INITIAL_I | SEMICOLON,
        {
            NEVER_ENDS: "admón apdo arq arz av avd avda cmdte cía d dir dr dra dras dres dña exc excmo fr gral "
            "ilmo ing lcdo lic mons mt mtro n.º p.ej pbro prof profa rte sr sra sras sres srta st sta "
            "sto tte vda vs",
            BEFORE_NUMBER: "abr ago art arts cap cra dic dom ed ene feb fig jue jul jun lun mar mié n nov nro núm "
            "núms oct p pp pág págs párr sep sept set sáb tel tlf vie vol vols",
            BEFORE_STARTER: "a.c aprox d.c depto dpto ee ee.uu fdo hnos incl izq izqda prov pta uu",
            BEFORE_SMALL: "etc hab kg máx mín ptas s.a s.l ud uds vd vds",
            STARTER: "a además ahora al algunas algunos ante antes así aunque aún bajo cada como con contra "
            "cual cuando desde después donde durante e ella ellas ellos en entonce entre era es esa "
            "esas ese eso esos esta estas este esto estos está fue ha hacia hasta hay he la las lo "
            "los luego mas me mi mientras muchos muy más nada ni ningún no nos nuestra nuestro nunca "
            "o otra otras otro otros para pero por porque pues que quien qué se según ser si sin sino "
            "sobre son su sus sí también tampoco tan tanto te tiene toda todas todo todos tras tu "
            "tuvo un una unas uno unos y ya yo él",
            SAYING: "añadió contestó dice dijo exclamó gritó murmuró preguntó repuso respondi",
        },
    ),
    "it": (
        INITIAL_I | COLON | ELISION,
        {
            NEVER_ENDS: "arch avv cav cfr co.co comm cons dott dott.ri dott.ssa dr ed es gen geom ing lett mons "
            "on prof prof.ssa proff rag rev s sgg sig sig.na sig.ra sigg spett ss v vd vs",
            BEFORE_NUMBER: "ago all apr art artt cap co comma dic dom dpr fasc feb fig figg gg gio giu l lett lit "
            "lug mer n nn nov nr ott p pag pagg par pp reg sab set sett tab tav tel ven vol voll",
            BEFORE_STARTER: "agr c.a c.c c.p d.l d.lgs d.p.r distr e.g econ filos giur lgs med psicol",
            BEFORE_SMALL: "a.c d.c ecc etc max min s.p.a s.r.l",
            STARTER: "a abbiamo adesso ai al alcuni alla alle allora altri anche ancora anzi avere bisogna c "
            "che chi ci come con cosa così credo cui da dal dall dalla dopo dove dunque durante e era "
            "erano essa essi fino forse fra gli ha hanno ho i il in infatti infine insomma invece io "
            "l la le lei lo loro lui ma mai mentre mi molti nei nel nell nella nelle nessuno noi non "
            "o oggi ogni ora per perché perciò però più poi prima può qual quale quando quanto quel "
            "quella quelle quelli quello quest questa queste questi questo qui quindi se secondo "
            "sempre senza si sia siamo sono su sua sue sul sulla suo suoi sì tra tutti tutto un una "
            "uno vi voi è",
            SAYING: "aggiunse chiede chiese dice disse domandò esclamò gridò mormorò rispose",
        },
    ),
    "nl": (
        INITIAL_I,
        {
            NEVER_ENDS: "a.u.b b.v bijv blz bv ca d.w.z dhr dr dra drs e.g fa gebr ing ir jhr jkvr kon m.a.w "
            "m.b.t m.i.v mej mevr mgr mr mw n.a.v nl o.a o.l.v prof r.k resp sint st t.a.v t.g.v "
            "t.n.v t.o.v vgl wnd z.g zg zgn",
            BEFORE_NUMBER: "afb afl apr art aug bd blz dec dl febr fig hfdst jan jul jun mrt nov nr nrs okt p pag "
            "par sept tel vgl vol",
            BEFORE_STARTER: "a.d afd bijz c.s chr dept e.a e.d e.v eng excl fr ged gem i.p.v i.v.m incl jr kath lat "
            "mil n.chr n.v oorspr orig rom sr v.chr verg wetensch",
            BEFORE_SMALL: "c.q enz etc jl max min mld mln pct zn",
            STARTER: "aan al alle als althans bij bovendie daar daarna daarom dan dat de deze die dit door dus "
            "een eerst en er ergens geen had heeft het hier hij hoe hoewel hun ik in intussen is ja "
            "je maar mede men met mijn na naar nee niet niets nog nooit nu of om omdat ondanks ook op "
            "over pas sinds soms te tegen terwijl toch toen tot tussen u uit vanaf veel via volgens "
            "voor voorts waar waarom want wat we wel welke wie wij wordt zal ze zelfs zij zijn zo "
            "zoals zonder zou",
            SAYING: "antwoord dacht fluister lachte riep roept vond vraagt vroeg zegt zei",
        },
    ),
    "pt": (
        INITIAL_I | SEMICOLON,
        {
            NEVER_ENDS: "adm av cap cel cf cia d dr dra dras drs eng exa exmo gen ilmo lic maj p.ex prof profa "
            "profs rev sgt sr sra sras srs srta st sta sto ten v.exa vs",
            BEFORE_NUMBER: "abr ago art arts cap dez fev fig figs inc jan jul jun mar n nov nº núm out p pg pp pág "
            "págs r set séc tel vol vols",
            BEFORE_STARTER: "a.c al aprox apto d.c dept depto ed jr ltda obs s.a tb trad univ",
            BEFORE_SMALL: "bras etc hab kg máx mín",
            STARTER: "a agora ainda algumas alguns além ao aos apenas apesar após aqui as assim até cada com "
            "como contudo depois desde diz durante e ela elas ele eles em enquanto entre então era "
            "essa essas esse esses esta estas este estes está eu foi foram há isso isto já mais mas "
            "mesmo muitas muito muitos na nas nenhum nesse nesta neste no nos nunca não o onde os ou "
            "outra outro outros para pela pelo pois por porque porém qual quando que quem se segundo "
            "sem ser seu seus sob sobre sua suas são só também tem todas todos tudo um uma você é",
            SAYING: "acrescen disse diz exclamou gritou murmurou pergunto responde",
        },
    ),
    "pl": (
        INITIAL_I,
        {
            NEVER_ENDS: "abp al bp br bryg bł cd cyt dr dyr gen hab im in inż jw kard kier kol kpt ks lek m.in "
            "mec mgr mjr nadkom np nt o oddz os pl podkom podp por ppor ppłk prof proj przew ps płk "
            "rad red ros rz sp tj tzn tzw ul ur wg woj ww właśc zam zob śp św św.p",
            BEFORE_NUMBER: "art cz dz fig godz kwi lip lis lit maj mar nr ok par paź pkt poz rozdz rys s sie str sty "
            "sygn szt tab tel tom tys ust vol wrz zm",
            BEFORE_STARTER: "ang bałt bm chem dn fr gosp hist jęz kl kpc maks mies miń niem nn ob obj obr p paraf pol "
            "pow przyp rodz sek stow ub wew wsch wyd zach zw łac śr św",
            BEFORE_SMALL: "gm godz gr ha itd itp kg km min mld mln n.e pd pn proc r tys zł",
            STARTER: "a aby albo ale bez bo by być choć co czy dla dlatego do dopiero dziś gdy gdyby gdzie i "
            "ich ile inne iż ja jak jaki jako jednak jego jej jest jeśli jeżeli już każdy kiedy kto "
            "która które który lecz ma mimo może można my na nad nie nikt no o obok oczywiśc od on "
            "ona one oni oraz po pod podczas ponadto ponieważ potem poza przed przez przy się skąd "
            "stąd są ta tak także tam te ten teraz też to trzeba tu tutaj tylko w wciąż we według "
            "wiele więc wszystk wtedy wśród z za zatem zaś ze świat żaden że żeby",
            SAYING: "dodał mówi odparł odparła odpowied pyta rzekł rzekła spytał spytała szepnął wrzasnął zapytał",
        },
    ),
    "ro": (
        INITIAL_I,
        {
            NEVER_ENDS: "av bd cca col cpt d d-l d-na dl dlui dna dr dv dvs ec gen gral ing lt mr pr prof sf st "
            "str univ şos șos",
            BEFORE_NUMBER: "al alin ap apr art aug bl cap dec et ex feb fig ian iul iun lit mar noi nr oct p pag par "
            "pct pp reg sc sec sep sept tel vol",
            BEFORE_STARTER: "a.c adj aprox cf d.c d.hr evtl i.hr jud lat mil mld n.n nr op s.a î.hr",
            BEFORE_SMALL: "etc gr ha hr kg km max mil min ş.a ș.a ș.a.m.d",
            STARTER: "a acea aceast această acest acesta aceste acestea acolo ai alte am ar are as asta astfel "
            "atunci au avea ca care ce cei cel cele chiar ci cine cu cum când cât că dacă dar de deci "
            "despre deși din dintre doar dumneavo după e ea ei el ele era erau este eu fi fiecare "
            "fără iar la le li lui mai mult nici nimeni noi nu numai o oare or ori pe pentru poate "
            "prin până sa sau se spre sub sunt să toate tot totul totuși toți un una unde unii voi în "
            "însă între și",
            SAYING: "adăugă răspunse spuse strigă zice zise întrebă",
        },
    ),
    "sv": (
        INITIAL_I,
        {
            NEVER_ENDS: "bl.a d.v.s d.y d.ä dr dvs eg em ev f.d f.n fm forts fr.o.m frk ing inkl jfr jur kand kl "
            "lic m.a.o o.d prof resp s.k sid sk st t.ex t.o.m t.v trol vd",
            BEFORE_NUMBER: "apr art aug avd bil ca dec del feb febr fig jan juli juni kap kl nov nr okt p par s sep "
            "sept sid st tab tel vol",
            BEFORE_STARTER: "adj afd ang apr aug avs bet bild bitr bv civ co dir e.kr eng exkl f.kr g jun lat mdr mån "
            "n.b ord red sek sen stud sv tills u.å uppl urspr utg vol övers",
            BEFORE_SMALL: "etc kr m.fl m.m max milj min o.dyl o.s.v osv",
            STARTER: "alla allt att av bara både da dag de den denna deras dessa det detta dock dom där "
            "därefter därför då efter eftersom eller en endast enligt ett fler flera från för före "
            "först genom ha han hans har hon hos hur här i idag igen in ingen inte ja jag kan man med "
            "medan men mot mycket många nej ni nu när något några och också om oss på redan samma "
            "samt sedan sin sina som så till trots under upp ur utan vad var vare vem vi vid vilka "
            "vilken vilket vill vår än är även åt över",
            SAYING: "frågade log mumlade ropade sa sade skrek svarade säger tänkte undrade viskade",
        },
    ),
    "ru": (
        INITIAL_I,
        {
            NEVER_ENDS: "акад англ бул вкл г-жа г-н гл гр греч доц зав зам изд инж исп итал к корр л лат н наб "
            "напр нем оз ок пгт пер пл пос проф р рус с св см ср ст т т.е т.к т.н тов укр ул фр чл "
            "яп",
            BEFORE_NUMBER: "авг апр вып гл дек илл июл июн кв корп мар нояб окт рис род сент стр табл тел том ум фев "
            "янв №",
            BEFORE_STARTER: "г и.о им м о-в обл пп см",
            BEFORE_SMALL: "в вв гг др кг км коп мин млн млрд мм н.э пр род руб сек т.д т.п тыс ум чел шт экз эт",
            STARTER: "а без более больше был была были было в вам вас весь во вот все всего всех всё вы где да "
            "даже для до его ее если есть ещё её же за здесь и из или им их к как какой когда кроме "
            "кто куда лишь меня мне мой мы на над не нет ни но ну о об один однако он она они оно от "
            "очень по под после потом поэт при про раз с сам само свой себя сего со так такж такой "
            "там те тем тепе то тоже толь тот ты у уже хотя чем через что чтоб эта эти это этот я",
            SAYING: "воскликн крик ответил подумал прошепта сказ спро",
        },
    ),
}
_SHARED = {
    NEVER_ENDS: "dr messrs mr mrs ms prof st v vs",
    BEFORE_NUMBER: "ext fig p pp tel vol",
    BEFORE_STARTER: "bros co corp inc jr ltd sr",
}

# Abbreviations of one language that are words of another.
_COMMON = frozenset(
    b"art bil cap del dir hab mag max med mind ord par per pol red rel resp sat sin son tom ung ust".split()
)


def merged(*tables: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return the words of all tables, each with all that they say of it."""
    words: dict[bytes, int] = {}
    for table in tables:
        for word, kind in table.items():
            words[word] = words.get(word, 0) | kind
    return words


def _safe(language: Language) -> dict[bytes, int]:
    """Return the abbreviations and months of a language that are hardly words of another."""
    return {
        word: kind & (ABBREVIATION | MONTH)
        for word, kind in language.words.items()
        if kind & (ABBREVIATION | MONTH)
        and len(word) > 2
        and word not in _COMMON
        and not WORDS.get(word, 0) & ABBREVIATION
    }


LANGUAGES: dict[str, Language] = {
    "en": Language(code="en", words=WORDS),
    **{code: Language(code=code, words={}) for code in ("ja", "zh")},
    **{
        code: Language(code=code, words=merged(word_kinds(lists), word_kinds(_SHARED)), manner=manner)
        for code, (manner, lists) in _LISTS.items()
    },
}
EVERY = Language(code="", words=merged(WORDS, *map(_safe, LANGUAGES.values())))
_OTHER = Language(code="*", words=EVERY.words, manner=INITIAL_I)


def language_of(code: str | None) -> Language:
    """Return what is known of a language by its ISO 639 code; None and "un" are a language that is not certain."""
    return EVERY if code in (None, "", "un") else LANGUAGES.get(code or "", _OTHER)


def mark_of(manner: int) -> str:
    """Return the mark that ends a sentence before a capital, beside the terminators; "" for none."""
    return ":" if manner & COLON else ";" if manner & SEMICOLON else ""
