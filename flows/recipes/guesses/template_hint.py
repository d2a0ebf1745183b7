"""Picks the template of `cloze new` that fits some texts, by simple signs: a hint, which changes nothing by itself.

patents, clinical, legal, biomedical: half of the texts have some of the words of such texts
chats:   of half of the texts most lines begin with who speaks
books:   half of the texts have 20,000 words or more
tickets: half of the texts have 60 words or fewer
Texts without such a sign are general prose, for which the default rules fit.
"""

import re
from collections.abc import Sequence
from statistics import median

FEWEST = 3  # texts needed for a hint
BOOK_WORDS, TICKET_WORDS = 20_000, 60
MOST_CHARACTERS = 200_000  # of a text whose words are counted
SEARCHED = 20_000  # characters of it that are searched for the words of a template
FEWEST_TURNS, SPOKEN = 4, 0.6  # lines of a chat, and the share of them that begin with a name
LEGAL = re.compile(
    r"\b(?:whereas|hereinafter|hereof|herein|hereby|hereto|hereunder|thereof|witnesseth|notwithstanding|pursuant to"
    r"|indemnif\w+|governing law|plaintiff|defendant|appellant|respondent|severab\w+|lessee|lessor|licensee|licensor"
    r"|executed as of|in witness|force majeure|the parties|either party|confidential information|effective date)\b",
    re.IGNORECASE,
)


PATENTS = re.compile(
    r"\b(?:of claim \d+|according to claim|the present invention|prior art|preferred embodiment|embodiments?|wherein"
    r"|comprising|what is claimed|I claim|the invention|FIGS?\. \d+)\b",
    re.IGNORECASE,
)
CLINICAL = re.compile(
    r"\b(?:HPI|NKDA|PRN|B\.?I\.?D|T\.?I\.?D|[hcs]/[op]|afebrile|denies|chief complaint|year[- ]old|vital signs"
    r"|past medical history|history of present illness|physical exam(?:ination)?|discharge (?:summary|diagnosis"
    r"|medications|instructions)|allergies|BP \d+|mg (?:po|iv|daily))\b",
    re.IGNORECASE,
)
BIOMEDICAL = re.compile(
    r"\b(?:patients?|proteins?|genes?|mutations?|cells?|in vitro|in vivo|clinical|mRNA|receptors?|tumou?rs?|cancers?"
    r"|serum|plasma|mice|rats|disease|syndrome|assays?|antibod(?:y|ies)|inhibitors?|cohort|95% CI|et al|genetic|DNA"
    r"|alleles?|exons?|phenotypes?|hereditary|familial|deficiency|amino acids?|chromosomes?|therapy|diagnosis)\b",
    re.IGNORECASE,
)
# The templates of words: the sign, how many different ones half of the texts have, whose words they are.
WORDS = {
    "patents": (PATENTS, 5, "patents"),
    "clinical": (CLINICAL, 4, "clinical notes"),
    "legal": (LEGAL, 5, "contracts and courts"),
    "biomedical": (BIOMEDICAL, 5, "biomedical papers"),
}
TURN = re.compile(r"(?:\[?\d{1,2}:\d\d(?::\d\d)?[^\n:\]]{0,9}\]?\s)?<?\w[\w .'-]{0,23}[:>]\s")

# In scripts without spaces about two characters are a word: Japanese, Chinese, Thai, Lao, Tibetan, Burmese, Khmer.
WITHOUT_SPACES = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
CHARACTERS_OF_A_WORD = 2


def num_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces, CHARACTERS_OF_A_WORD characters are one."""
    return len(text.split()) + len(WITHOUT_SPACES.findall(text)) // CHARACTERS_OF_A_WORD


def fitting_template(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the template that fits some texts, and its sign in words; None where the default rules fit.

    >>> fitting_template(["The printer is broken again.", "Please call back.", "It works now, thanks."])
    ('tickets', 'half of them have 4 words or fewer')
    """
    nonempty = [text for text in texts if text.strip()]
    if len(nonempty) < FEWEST:
        return None
    words = int(median(map(num_words, nonempty)))
    for template, (sign, fewest, whose) in WORDS.items():
        terms = int(median(len(_terms(sign, text)) for text in nonempty))
        if terms >= fewest and (template == "patents" or words < BOOK_WORDS):
            return template, f"half of them have {terms} or more of the words of {whose}"
    if words >= BOOK_WORDS:
        return "books", f"half of them have {words:,} words or more"
    if median(_share_of_turns(text) for text in nonempty) >= SPOKEN:
        return "chats", "of half of them most lines begin with who speaks"
    if words <= TICKET_WORDS:
        return "tickets", f"half of them have {words} words or fewer"
    return None


def _terms(sign: "re.Pattern[str]", text: str) -> set[str]:
    return {re.sub(r"\d+", "", term.lower()) for term in sign.findall(text[:SEARCHED])}


def _share_of_turns(text: str) -> float:
    """The share of a text's lines that begin with who speaks; 0 for fewer lines than a chat has."""
    lines = [line for line in text[:MOST_CHARACTERS].splitlines() if line.strip()]
    return sum(TURN.match(line) is not None for line in lines) / len(lines) if len(lines) >= FEWEST_TURNS else 0.0
