"""What the sentence splitter goes by: the words that precede or follow a full stop, and the lengths of lines.

Promise: plain facts, read by the definition and by its kernels alike. The words are English; a word of another
language that looks like one of them is judged as it.
"""

SHORT_LINE = 50  # bytes: books are wrapped at 60 to 80, so a shorter open line is a heading or a verse
LONG_LINE = 120

# What a word of at most eight ASCII bytes says about the full stop behind it, or the one before it.
NEVER_ENDS, BEFORE_NUMBER, BEFORE_STARTER, STARTER = 1, 2, 4, 8
_WORD_LISTS = {
    NEVER_ENDS: "adm al approx asst capt cf cmdr col cpl dr drs e.g eg esp gen gov hon i.e ie incl lt "
    "maj messrs mlle mme mr mrs ms pres prof pvt rep rev sen sgt supt viz vs",
    BEFORE_NUMBER: "apr art aug ca ch chap dec eq ext feb fig figs jan jul jun mar no nos nov oct op p "
    "pp ref refs sec sep sept tel vol vols",
    BEFORE_STARTER: "ave blvd bros co corp dept ft inc jr ltd mt rd sr st univ",
    STARTER: "a after all although an and as at both but by during each every few for from he her "
    "here his how however i if in is it its many more most my no not now on one or our "
    "people she since so some still such that the their then there these they this those "
    "though thus to today two under until we what when where which while who why with yes "
    "yet you your",
}


def _word_kinds() -> dict[bytes, int]:
    """Each listed word with the sum of what it says."""
    kinds: dict[bytes, int] = {}
    for kind, words in _WORD_LISTS.items():
        for word in words.encode().split():
            kinds[word] = kinds.get(word, 0) | kind
    return kinds


WORDS = _word_kinds()
