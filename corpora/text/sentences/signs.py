"""Signs that the sentence splitter uses: the words that precede or follow a full stop, marks, and lengths.

Promise: plain facts, read by the definition and by its kernels alike. The words are English, with the commonest
abbreviations of other languages' dictionaries; those of other languages are in `corpora.text.sentences.languages`.
"""
# ruff: noqa: RUF001 - typographic marks are the subject here

from collections.abc import Mapping

SHORT_LINE = 50  # bytes: books are wrapped at 60 to 80, so a shorter open line is a heading or a verse
LONG_LINE = 120
SHORT_TIME = 12  # bytes before "a.m.": no sentence is so short and ends so ("At 5 a.m. Mr. Grey came.")
LONG_WORD = 4  # letters: a small word as long as this is seldom an abbreviation that no list has
LONG_ASIDE = 80  # bytes within brackets that can be a sentence
LONG_QUOTE = 100  # characters: within wide quotes or brackets that open and close so near, nothing ends
LONG_CITATION = 20  # bytes within the square brackets of a citation
INLINE_BULLETS = "•‣▪●◦⁃"  # those that part items on one line; a dash or an asterisk has other work there
QUOTING, JOINING = "とっ", "のをがに、，"  # they go on with what is quoted; these do after a closing mark
FIRST_QUOTES = '"«“„'  # those that may come before the capital after a colon
WIDE_OPENERS, WIDE_CLOSERS = "「『（【《〈“", "」』）】》〉”"
LINKS = ("http://", "https://", "www.")
RULED = "*=_~#-"  # what lines are drawn with
LONG_BLANK = 40  # shorter lines of underscores are blanks to fill in
RULE, SHORT_RULE = 8, 3  # so many of one of them part sentences; so many, after a mark that ends one

# What a word of at most eight ASCII bytes says about the full stop after it, or the one before it.
NEVER_ENDS, BEFORE_NUMBER, BEFORE_STARTER, STARTER = 1, 2, 4, 8
BEFORE_SMALL, PRONOUN, TITLE, TIME, DAY, SAYING, CRY, MONTH = 16, 32, 64, 128, 256, 512, 1024, 2048
ABBREVIATION = NEVER_ENDS | BEFORE_NUMBER | BEFORE_STARTER | BEFORE_SMALL | TIME
_WORD_LISTS = {
    NEVER_ENDS: "adm al approx asst capt cf cmdr col cpl dr drs e.g eg esp gen gov hon i.e ie incl lt "
    "maj messrs mlle mme mr mrs ms p.s pres prof ps pvt rep rev sen sgt supt viz vs",
    BEFORE_NUMBER: "apr art aug ca ch chap dec eq ext feb fig figs jan jul jun mar no nos nov oct op p "
    "pop pp ref refs rs sec sep sept tel vol vols",
    BEFORE_STARTER: "ala ariz ave blvd bros calif co colo conn corp dept fla ft inc jr kan ltd mich minn mont mt "
    "okla rd sr st tenn tex univ wis wyo",
    # Before a small letter the full stop belongs to these; before a capital it may end a sentence.
    BEFORE_SMALL: "abbr abr acad alt anat anon assn assoc avg bef betw bibl biol bldg bzw cent chem cit "
    "coll colloq conf cont contd contr corr def deg dem dept diff dist div doc ed eds econ edn educ "
    "elem encl eng engl equiv estd etc etym evtl exc exch excl exec exp ext fam fasc fem fl fol freq fut fwd "
    "geb gen geog geol geom germ gest ggf govt grad gram hist hrs hwy ibid id illus incl ind inf inkl inst "
    "intl intro introd irreg ital jour lang lat legis lib loc lv mag manuf masc max med mem mfg mgr mil min "
    "mins misc mos mss mus myth nat naut neg neut nom nr obj obit obs occ opt orch org orig "
    "oz pag par para perf perh pers pharm philos phys pkg pl plur poss prec pref prep pres prev prin "
    "prob proc prod prof pron prov pseud publ qty quot ref refl reg rel repl repr req resp rom ser "
    "soc sect sp spec specif spp sq stat subj subsp suff sup suppl surg syn synon syst tech temp theol trad trans "
    "transl treas ult univ unkn usu usw var vb viz vol yds yrs zool",
    STARTER: "a after all although an and as at both but by during each every everyone few for from he her "
    "here his how however i if in is it its many more most my no nobody not now on one or our "
    "people she since so some still such that the their then there these they this those "
    "though thus to today two under until we what when where which while who why with yes "
    "yet you your",
    # They open a sentence though small, or with no space before them ("Come in.They wait.").
    PRONOUN: "but he her his however i im it its my our she that the their then there these they this those today "
    "we what when why you your",
    TITLE: "dr mr mrs ms",
    TIME: "a.m p.m",
    CRY: "ah aha alas ay eh fie ha hey ho hurrah lo nay no o oh pooh pshaw tut well why",
    # Known by their first eight letters, as all words that lie ahead are.
    SAYING: "added answered asked called continue cried demanded exclaime inquired murmured muttered repeated replied "
    "returned said say says screamed shouted sighed thought whispere wondered yelled",
    DAY: "cdt central cest cet cst eastern edt est friday gmt ist monday mountain mst pacific pdt pst saturday sunday "
    "thursday tuesday utc wednesda",
}


def word_kinds(lists: Mapping[int, str]) -> dict[bytes, int]:
    """Return each listed word with the sum of what it says; one that begins with no ASCII letter as a capital too.

    Words that lie ahead of a full stop are known by the letters in their first eight bytes.
    """
    kinds: dict[bytes, int] = {}
    for kind, words in lists.items():
        for word in words.split():
            for form in {word, word if word[0].isascii() else word[0].upper() + word[1:]}:
                key = form.encode() if kind & ABBREVIATION else form.encode()[:8].decode(errors="ignore").encode()
                kinds[key] = kinds.get(key, 0) | kind
    return kinds


WORDS = word_kinds(_WORD_LISTS)
