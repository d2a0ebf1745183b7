"""Language of a document, by CLD2: no model to download, the same answer on every machine.

Promise: a language is an ISO 639 code, or "un" if the text is too short, too mixed or not certain enough; the answer
depends only on the text and the settings. Eight pieces of a text, spread evenly over it, are read first. CLD2 reads the
text (at most `sample_bytes` of it) only if it is not sure that all pieces are in one language. Cost: CLD2 reads about
25 MB a second; with the pieces, novels and documentation in documents of 3.7 KB come to 106.

Read so and read whole, 11 of 13,336 texts differ (2026-11-27): 9 that are "un" as a whole have a language by
their pieces (Russian with foreign names, a sign that CLD2 refuses), one of Croatian is so only by its pieces, 1 of
2,500 made of two languages has the other one of Spanish and Portuguese; none of 3,357 documents of the benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pycld2

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.store.settings import check_range
from corpora.text.buffers import to_text_buffers

UNKNOWN = "un"
NUM_PIECES, PIECE_BYTES = 8, 64  # of a text of more than twice as many bytes
SURE_PERCENT = 99  # per cent of the pieces' bytes in one language
MIN_BYTES = 60  # bytes: below, CLD2 takes names and headings for languages they are not
# CLD2 still uses three codes that ISO 639 has withdrawn.
_CURRENT_CODES = {"iw": "he", "jw": "jv", "mo": "ro"}


def _to_iso(code: str) -> str:
    """Convert a CLD2 language code to ISO 639, without script or region.

    Codes for bare scripts ("xx-Copt") become "un".
    """
    language = code.partition("-")[0]
    return UNKNOWN if language in ("xx", "xxx") else _CURRENT_CODES.get(language, language)


KNOWN_LANGUAGES = frozenset(_to_iso(code) for _, code in pycld2.LANGUAGES) - {UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings:
    """Settings for keeping documents by language.

    keep: ISO 639 codes of the languages to keep; empty: all
    min_confidence: minimum share of a text's bytes, 0 to 1, that must be in its main language; below it, the language
        is "un" (unknown)
    keep_unknown: whether documents with the language "un" are kept
    sample_bytes: maximum number of bytes, from the beginning of a document, used to detect its language. Of a long
        document, a few pieces are tried first
    """

    keep: tuple[str, ...] = ("en",)
    min_confidence: float = 0.5
    keep_unknown: bool = True
    sample_bytes: int = 65_536

    def __post_init__(self) -> None:
        for code in self.keep:
            if code not in KNOWN_LANGUAGES:
                raise InputError(
                    f'language.keep has "{code}", which is no language known here: use ISO 639 '
                    f'codes such as "en", "de", "fr", "zh", or an empty list to keep every language.'
                )
        check_range("language.min_confidence", self.min_confidence, 0, 1, ": it is a share, from 0 to 1, such as 0.5.")
        remedy = f": a language cannot be told from fewer than {MIN_BYTES} bytes, use that or more, such as 65536."
        check_range("language.sample_bytes", self.sample_bytes, MIN_BYTES, remedy=remedy)


def detect_languages(texts: pa.Array, settings: LanguageSettings) -> list[str]:
    """Detect the language of each row of a large_string column without nulls.

    Args:
        texts: The documents, one in each row.
        settings: The settings with `sample_bytes` and `min_confidence`.

    Returns:
        An ISO 639 code for each row, or "un" if its text is too short or its language is less certain than
        `min_confidence`.

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    heads, pieces, bounds = sample_rows(data, offsets, settings.sample_bytes)
    min_percent, codes = max(SURE_PERCENT, 100 * settings.min_confidence), []
    for row, (start, head) in enumerate(zip(offsets.tolist(), heads.tolist(), strict=False)):
        language, percent = UNKNOWN, 0
        if bounds[row] < bounds[row + 1]:
            language, percent = _detect_one(pieces[bounds[row] : bounds[row + 1]])
        if language == UNKNOWN or percent < min_percent:
            language, percent = _detect_one(bytes(data.data[start : start + head]))
        codes.append(language if percent >= 100 * settings.min_confidence else UNKNOWN)
    return codes


def sample_rows(data: Bytes, offsets: Int64s, max_bytes: int) -> tuple[Int64s, bytes, list[int]]:
    """Sample the part of each row that is used first for language detection.

    A sample is NUM_PIECES pieces of PIECE_BYTES bytes, spread evenly over the beginning of the row.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 `(n + 1,)`, the first byte of each row in `data`.
        max_bytes: Maximum number of bytes read from the beginning of each row.

    Returns:
        The number of bytes that may be read of each row (int64 `(n,)`), the concatenated samples of all rows, and the n
        + 1 offsets at which the samples begin and the last one ends. The sample of a short row is empty.
    """
    heads, bounds = np.zeros(len(offsets) - 1, np.int64), np.zeros(len(offsets), np.int64)
    out = np.empty((len(offsets) - 1) * NUM_PIECES * (PIECE_BYTES + 4), np.uint8)
    write_pieces(data, offsets, max_bytes, heads, out, bounds)
    return heads, out[: bounds[-1]].tobytes(), bounds.tolist()


@kernel
def find_boundary(data: Bytes, start: int, stop: int, at: int) -> int:
    """Return the start of the character in data[start:stop] that contains byte `at`, or `stop` if `at` is not before
    it.
    """
    at = min(at, stop)
    while start < at < stop and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


@kernel
def write_pieces(data: Bytes, offsets: Int64s, max_bytes: int, heads: Int64s, out: Bytes, bounds: Int64s) -> None:
    """Write the sample of each row to `out`. The samples are the same as those of `sample_pieces`.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        max_bytes: Maximum number of bytes read from the beginning of each row.
        heads: Filled with the number of bytes of each row that may be read; int64 [n].
        out: Filled with the concatenated samples of all rows.
        bounds: Filled with the end of each row's sample in `out`, from index 1 on; int64 [n + 1], initially 0.
    """
    size = 0
    for row in range(len(heads)):
        start, stop = offsets[row], offsets[row + 1]
        heads[row] = find_boundary(data, start, stop, start + max_bytes) - start
        for number in range(NUM_PIECES if heads[row] > 2 * NUM_PIECES * PIECE_BYTES else 0):
            at = start + number * (heads[row] - PIECE_BYTES) // (NUM_PIECES - 1)
            for place in range(
                find_boundary(data, start, stop, at), find_boundary(data, start, stop, at + PIECE_BYTES)
            ):
                out[size] = data[place]
                size += 1
            out[size] = 32
            size += 1
        bounds[row + 1] = size


def sample_pieces(text: str, max_bytes: int) -> tuple[int, str]:
    """Sample one text for language detection. This is the reference implementation of `sample_rows`, for tests.

    Args:
        text: The text.
        max_bytes: Maximum number of bytes read from its beginning.

    Returns:
        The number of bytes that may be read, and the sampled pieces, cut between characters and each followed by a
        space, or "" for a short text.
    """
    data = text.encode()
    head = len(data[:max_bytes].decode(errors="ignore").encode())
    if head <= 2 * NUM_PIECES * PIECE_BYTES:
        return head, ""
    starts = [number * (head - PIECE_BYTES) // (NUM_PIECES - 1) for number in range(NUM_PIECES)]
    cuts = [[len(data[:at].decode(errors="ignore")) for at in (start, start + PIECE_BYTES)] for start in starts]
    return head, "".join(f"{text[first:last]} " for first, last in cuts)


def _detect_one(text: bytes) -> tuple[str, int]:
    """Return a text's main language (ISO 639) and the percentage of its bytes in it.

    The result is ("un", 0) if the text is too short or cannot be read; an unreliable answer is "un" with its
    percentage.
    """
    if len(text) < MIN_BYTES:
        return UNKNOWN, 0
    try:
        reliable, _, languages = pycld2.detect(text, isPlainText=True)
    except pycld2.error:  # it refuses control characters and code points without a meaning
        return UNKNOWN, 0
    _, code, percent, _ = languages[0]
    return _to_iso(code) if reliable else UNKNOWN, percent


def judge_languages(texts: pa.Array, settings: LanguageSettings) -> tuple[pa.Array, list[str | None]]:
    """Detect the languages of a column's rows, and decide which rows to drop.

    Returns:
        A string column of ISO 639 codes, and a list with "language" for each row to drop and None for the others.

    Raises:
        InputError: If the column has another type or nulls.
    """
    languages = detect_languages(texts, settings)
    reasons = [None if _is_kept(language, settings) else "language" for language in languages]
    return pa.array(languages, pa.string()), reasons


def _is_kept(language: str, settings: LanguageSettings) -> bool:
    """Return True if the settings keep documents in a language, given by its ISO 639 code or "un"."""
    if language == UNKNOWN:
        return settings.keep_unknown
    return not settings.keep or language in settings.keep


def choose_rule_languages(codes: Sequence[object], settings: LanguageSettings) -> list[str]:
    """Choose the language whose rules are applied to each document.

    "un" is replaced by "en" if English is kept, otherwise by the first language in `keep`, if there is one.

    Args:
        codes: The detected language of each document.
        settings: The settings with `keep`, the languages to keep.

    >>> choose_rule_languages(["de", UNKNOWN], LanguageSettings())
    ['de', 'en']
    >>> choose_rule_languages([UNKNOWN], LanguageSettings(keep=()))
    ['un']
    """
    unknown = "en" if "en" in settings.keep else (*settings.keep, UNKNOWN)[0]
    return [unknown if code == UNKNOWN else str(code) for code in codes]
