"""Language of a document, by CLD2: no model to download, the same answer on every machine.

Promise: a language is an ISO 639 code, or "un" where the text is too short, too mixed or not certain enough;
the answer depends on the text and the settings alone. Cost: CLD2 reads about 30 MB a second, and no more than
`sample_bytes` of a document.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pycld2

from corpora.errors import InputError
from corpora.store.settings import check_range
from corpora.text.buffers import text_buffers

UNKNOWN = "un"
SHORTEST = 60  # bytes: below, CLD2 takes names and headings for languages they are not
# CLD2 still uses three codes that ISO 639 has withdrawn.
_CURRENT = {"iw": "he", "jw": "jv", "mo": "ro"}


def _iso(code: str) -> str:
    """CLD2's code as ISO 639: without script or region, "un" for its codes of bare scripts ("xx-Copt")."""
    language = code.partition("-")[0]
    return UNKNOWN if language in ("xx", "xxx") else _CURRENT.get(language, language)


KNOWN = frozenset(_iso(code) for _, code in pycld2.LANGUAGES) - {UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings:
    """Settings for keeping documents by language.

    keep: ISO 639 codes; empty keeps every language
    min_confidence: share of a text's bytes that must be in its first language, 0 to 1; below, it is "un"
    keep_unknown: whether documents of language "un" stay
    sample_bytes: how much of a document, from its beginning, is looked at
    """

    keep: tuple[str, ...] = ("en",)
    min_confidence: float = 0.5
    keep_unknown: bool = True
    sample_bytes: int = 65_536

    def __post_init__(self) -> None:
        for code in self.keep:
            if code not in KNOWN:
                raise InputError(
                    f'language.keep has "{code}", which is no language known here: use ISO 639 '
                    f'codes such as "en", "de", "fr", "zh", or an empty list to keep every language.'
                )
        check_range("language.min_confidence", self.min_confidence, 0, 1, ": it is a share, from 0 to 1, such as 0.5.")
        remedy = f": a language cannot be told from fewer than {SHORTEST} bytes, use that or more, such as 65536."
        check_range("language.sample_bytes", self.sample_bytes, SHORTEST, remedy=remedy)


def detect(texts: pa.Array, settings: LanguageSettings) -> list[str]:
    """The ISO 639 code of every row of a large_string column without nulls, "un" where it is not certain.

    Raises InputError for another type of column or for nulls.
    """
    data, offsets = text_buffers(texts)
    raw, limit = data.data, settings.sample_bytes
    spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    heads = (bytes(raw[start : min(end, start + limit + 1)]) for start, end in spans)
    return [_detect(_sample(head, limit), settings) for head in heads]


def _sample(text: bytes, limit: int) -> bytes:
    """At most `limit` bytes of UTF-8, cut where a character begins."""
    if len(text) <= limit:
        return text
    while text[limit] & 0xC0 == 0x80:
        limit -= 1
    return text[:limit]


def _detect(text: bytes, settings: LanguageSettings) -> str:
    """The language of one text."""
    if len(text) < SHORTEST:
        return UNKNOWN
    try:
        reliable, _, languages = pycld2.detect(text, isPlainText=True)
    except pycld2.error:  # it refuses control characters and code points without a meaning
        return UNKNOWN
    _, code, percent, _ = languages[0]
    return _iso(code) if reliable and percent >= 100 * settings.min_confidence else UNKNOWN


def language_reasons(texts: pa.Array, settings: LanguageSettings) -> tuple[pa.Array, list[str | None]]:
    """The language of every row (a string column), and why each is dropped: "language", or None to keep it.

    The detail that goes with a reason is the row's language.
    """
    languages = detect(texts, settings)
    reasons = [None if _kept(language, settings) else "language" for language in languages]
    return pa.array(languages, pa.string()), reasons


def _kept(language: str, settings: LanguageSettings) -> bool:
    """Return True if documents of a language stay."""
    if language == UNKNOWN:
        return settings.keep_unknown
    return not settings.keep or language in settings.keep


def judged_languages(codes: Sequence[object], settings: LanguageSettings) -> list[str]:
    """By whose measure rules judge documents of these languages: an unknown one counts as English or else the
    first one, if only some are kept.

    >>> judged_languages(["de", UNKNOWN], LanguageSettings()), judged_languages([UNKNOWN], LanguageSettings(keep=()))
    (['de', 'en'], ['un'])
    """
    unknown = "en" if "en" in settings.keep else (*settings.keep, UNKNOWN)[0]
    return [unknown if code == UNKNOWN else str(code) for code in codes]
