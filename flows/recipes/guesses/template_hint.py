"""Picks the template of `cloze new` that fits some texts, by simple signs: a hint, which changes nothing by itself.

legal:   half of the texts have five of the words of contracts, statutes and judgments
books:   half of the texts have 20,000 words or more
tickets: half of the texts have 60 words or fewer
Texts without such a sign are general prose, for which the default rules fit.
"""

import re
from collections.abc import Sequence
from statistics import median

FEWEST = 3  # texts needed for a hint
LEGAL_WORDS, BOOK_WORDS, TICKET_WORDS = 5, 20_000, 60
LEGAL = re.compile(
    r"\b(?:whereas|hereinafter|hereof|herein|hereby|hereto|hereunder|thereof|witnesseth|notwithstanding|pursuant to"
    r"|indemnif\w+|governing law|plaintiff|defendant|appellant|respondent|severab\w+|lessee|lessor|licensee|licensor"
    r"|executed as of|in witness|force majeure|the parties|either party|confidential information|effective date)\b",
    re.IGNORECASE,
)


# In scripts without spaces about two characters are a word: Japanese, Chinese, Thai, Lao, Burmese, Khmer.
WITHOUT_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
CHARACTERS_OF_A_WORD = 2


def _num_words(text: str) -> int:
    return len(text.split()) + len(WITHOUT_SPACES.findall(text)) // CHARACTERS_OF_A_WORD


def fitting_template(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the template that fits some texts, and its sign in words; None where the default rules fit.

    >>> fitting_template(["The printer is broken again.", "Please call back.", "It works now, thanks."])
    ('tickets', 'half of them have 4 words or fewer')
    """
    nonempty = [text for text in texts if text.strip()]
    if len(nonempty) < FEWEST:
        return None
    words = int(median(map(_num_words, nonempty)))
    legal = int(median(len({term.lower() for term in LEGAL.findall(text)}) for text in nonempty))
    if words >= BOOK_WORDS:
        return "books", f"half of them have {words:,} words or more"
    if legal >= LEGAL_WORDS:
        return "legal", f"half of them have {legal} or more of the words of contracts and courts"
    if words <= TICKET_WORDS:
        return "tickets", f"half of them have {words} words or fewer"
    return None
