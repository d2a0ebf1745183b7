r"""Texts of UTF-16 and UTF-32, found by their mark, by the places of their zeros, or by their characters.

Promise: a text of UTF-8 is never taken for a wide one, and one of ASCII with some bytes that are not is neither.

Texts that are not UTF-8: which older encoding they are in, by the characters that it would make of them.

    Japanese  Shift_JIS, EUC-JP            Cyrillic  windows-1251, KOI8-R, IBM 866
    Chinese   GB18030, Big5                Western   windows-1252
    Korean    EUC-KR

A text is in an encoding if hardly a byte is invalid and nearly all of the characters beyond ASCII are those of the
language: kana and Chinese characters, frequent hangul, among Chinese characters the 180 most frequent, small letters of
Cyrillic with its vowels, the accents and quotes of Western languages between letters of ASCII. If two fit equally,
the text is in neither.

Promises: a text of UTF-8 is not looked at. What fits none is named, not guessed. Measured by
`tests/corpora/sources/test_encodings.py`, on texts of each. Cost: 2 ms for `SAMPLE_BYTES` bytes.
"""

import codecs
import re
import string
from collections import Counter
from collections.abc import Callable

HEAD_BYTES = 4096
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MIN_BYTES = 8  # bytes, of which something can be said without a mark
MIN_SIGN_SHARE = 0.03  # of characters
SIGNS = re.compile("[ -~\\t\\r\\n\u3000-\u30ff\uff01-\uff5e]")  # of ASCII, and of Japanese and Chinese
OTHER_LETTERS = re.compile(
    "[\u00a0-\u06ff\u0900-\u0fff\u10a0-\u11ff\u1e00-\u206f\u20a0-\u20bf\u4e00-\u9fff\uac00-\ud7a3]"
)
PRINTABLE_BYTE = re.compile(rb"[ -~\t\r\n]")
MAX_ASCII_SHARE = 0.9  # of bytes; of hiragana in UTF-16, whose bytes look most like it, 0.85 do
MIN_UPPER_ZEROS = 0.3  # share of zeros among the bytes that hold the upper half of characters
MAX_LOWER_ZEROS = 0.02  # and among those of the lower half


def find_marked_encoding(head: bytes) -> str:
    """Return the UTF-16 or UTF-32 codec that a text's byte order mark indicates, such as "utf-16-le"; "" if none."""
    return next((codec for mark, codec in MARKS if head.startswith(mark)), "")


def guess_wide_encoding(head: bytes) -> str:
    r"""Guess a text's wide encoding (UTF-16 or UTF-32) from its first bytes. Return "" if it is not wide.

    The guess is based on a byte order mark, zero bytes, or the characters.

    >>> [guess_wide_encoding("The ferry".encode(codec)) for codec in ("utf-16", "utf-16-be", "utf-32-le", "utf-8")]
    ['utf-16-le', 'utf-16-be', 'utf-32-le', '']
    >>> guess_wide_encoding("渡し舟は霧のために遅れた。".encode("utf-16-be"))
    'utf-16-be'
    """
    if codec := find_marked_encoding(head):
        return codec
    head = head[: len(head) // 4 * 4][:HEAD_BYTES]
    if len(head) < MIN_BYTES:
        return ""
    return (_guess_by_zeros(head) if 0 in head else "") or _guess_utf16_by_letters(head)


def _guess_by_zeros(head: bytes) -> str:
    """Guess UTF-16 or UTF-32 by which bytes of each character are zero. Return a codec such as "utf-16-le", or ""."""
    zeros = [head[at::4].count(0) / (len(head) / 4) for at in range(4)]
    for codec, upper, lower in (
        ("utf-32-le", (2, 3), (0,)),
        ("utf-32-be", (0, 1), (3,)),
        ("utf-16-le", (1, 3), (0, 2)),
        ("utf-16-be", (0, 2), (1, 3)),
    ):
        most = 1.0 - MAX_LOWER_ZEROS if codec.startswith("utf-32") else MIN_UPPER_ZEROS
        if all(zeros[at] >= most for at in upper) and all(zeros[at] <= MAX_LOWER_ZEROS for at in lower):
            return codec
    return ""


def _guess_utf16_by_letters(head: bytes) -> str:
    """Guess by its characters whether a text is UTF-16. Return "utf-16-le", "utf-16-be", or "" if it is unclear.

    Text in the correct encoding has letters of few scripts, with spaces, line endings, kana or the like in between.
    """
    if _is_utf_8(head) or len(PRINTABLE_BYTE.findall(head)) >= MAX_ASCII_SHARE * len(head):
        return ""
    shares = {codec: _compute_sign_share(head, codec) for codec in ("utf-16-le", "utf-16-be")}
    best, other = sorted(shares, key=shares.__getitem__, reverse=True)
    return best if shares[best] >= MIN_SIGN_SHARE and shares[best] > 2 * shares[other] else ""


def _is_utf_8(head: bytes) -> bool:
    """Return True if bytes are the beginning of a UTF-8 text without zero bytes.

    The last character may be incomplete.
    """
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _compute_sign_share(head: bytes, codec: str) -> float:
    """Decode bytes with `codec`, and compute the share of characters that indicate that the codec is correct.

    These characters are printable ASCII, kana and East Asian punctuation. The share is 0 if the bytes cannot be
    decoded, or if over 2% of the characters are neither these nor common letters.
    """
    try:
        text = codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return 0.0
    signs = len(SIGNS.findall(text))
    strange = len(text) - signs - len(OTHER_LETTERS.findall(text))
    return signs / len(text) if text and strange <= MAX_LOWER_ZEROS * len(text) else 0.0


SAMPLE_BYTES = 1 << 16  # bytes, from the first that is not ASCII
UNKNOWN = "unknown"
WESTERN = "cp1252"
HOW_TO_SAY = (
    "its encoding cannot be told. Set the source's `encoding`, as with --set source.encoding=cp1250, or convert the "
    "file to UTF-8, for instance with `iconv`."
)
BYTES_BEFORE = 200  # bytes of ASCII before them that are looked at, too
UTF_8 = "utf-8"
ASCII = bytes(range(0x80))
LETTERS = string.ascii_letters
MIN_VALID_TO_BAD = 4  # times as many characters beyond ASCII are valid as are not
MAX_BAD_SHARE = 0.02  # of the characters beyond ASCII
MIN_SHARE_BEYOND_ASCII = 0.01  # share of letters that are beyond ASCII
MIN_SCORE, MIN_LEAD = 0.85, 0.1
MIN_FREQUENT_SHARE = 0.2  # of the characters are among the most frequent; of other text 0.03
WESTERN_SIGNS = frozenset(
    "\u00a0¡¢£§©«®°±·»¼½¾¿€‚„…‘’“”•–—™‹›ŒœŸ"  # noqa: RUF001 - the marks themselves
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿ×"  # noqa: RUF001 - not what others have for š, ž, ý
)
SIMPLIFIED = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方"
    "多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情"
    "明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给"
)
TRADITIONAL = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作里用道行所然家種事成方"
    "多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情"
    "明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給"
)
PUNCTUATION = frozenset("、。・「」『』（），！？：；—…〈〉《》【】〜～－％　“”‘’·")  # noqa: RUF001
CYRILLIC_SIGNS = frozenset("«»„“”’–—…№\u00a0·")  # noqa: RUF001
VOWELS = frozenset("оеаиі")
LAST_LETTERS = frozenset("ыьэюяіїєђјћ")
SYLLABLES = frozenset("이다는의에을를가고하지사기인한로은어서리도자들아나시해대일정부그과수있")


def guess_encoding(data: bytes, whole: bool = True) -> str:
    r"""Guess the encoding of a text that is not UTF-16 or UTF-32.

    Args:
        data: The text, or its beginning.
        whole: False if `data` is only the beginning of the text.

    Returns:
        A codec in `SCORES` such as "cp1251"; "utf-8" even if a few bytes are invalid; UNKNOWN if the guess fails.

    >>> guess_encoding("渡し舟は霧のために遅れた。".encode("shift_jis")), guess_encoding(b"caf\xe9")
    ('cp932', 'cp1252')
    """
    if data.isascii():
        return UTF_8
    start = len(data) - len(data.lstrip(ASCII))
    sample = data[max(0, start - BYTES_BEFORE) : start + SAMPLE_BYTES]
    cut = not whole or start + SAMPLE_BYTES < len(data)
    text = codecs.getincrementaldecoder(UTF_8)("replace").decode(sample, final=not cut)
    num_bad = text.count("\ufffd")
    if sum(character >= "\x80" for character in text) > MIN_VALID_TO_BAD * num_bad:
        return UTF_8
    return _guess_by_letters(sample, cut)


def _guess_by_letters(sample: bytes, cut: bool) -> str:
    """Return the encoding whose decoded characters fit its languages; UNKNOWN if none fits, or more than one.

    Args:
        sample: Bytes of the text.
        cut: True if the sample may end within a character.
    """
    scores: dict[str, float] = {}
    beyond = 0.0
    for codec in SCORES:
        text = codecs.getincrementaldecoder(codec)("replace").decode(sample, final=not cut)
        characters = Counter(character for character in text if character >= "\x80")
        beyond = characters.total() / max(1, characters.total() + sum(map(text.count, LETTERS)))
        score, low, high = SCORES[codec]
        bad = characters["\ufffd"] / max(1, characters.total())
        scores[codec] = score(characters) if bad <= MAX_BAD_SHARE and low <= beyond <= high else 0.0
    if scores[WESTERN] == 0.0 and 0 < beyond < MIN_SHARE_BEYOND_ASCII:
        return WESTERN  # a few strange signs in English
    (best, most), (_, second) = sorted(scores.items(), key=lambda each: -each[1])[:2]
    return best if most >= MIN_SCORE and most >= second + MIN_LEAD else UNKNOWN


def _compute_share(characters: Counter[str], accept: Callable[[str], bool]) -> float:
    """Compute the share of the counted characters for which `accept` returns True; 0 if there are none."""
    total = characters.total()
    return sum(count for character, count in characters.items() if accept(character)) / total if total else 0.0


def _is_east_asian(character: str) -> bool:
    """Return True for a common Chinese character or a full-width form of ASCII."""
    return "\u4e00" <= character <= "\u9fff" or "\uff01" <= character <= "\uff5e"


def _score_japanese(characters: Counter[str]) -> float:
    """Return how well counted characters fit Japanese text, from 0 to 1.

    1 means that at least a fifth is kana and all others are kanji or East Asian punctuation.
    """
    kana = _compute_share(characters, lambda c: "\u3041" <= c <= "\u30ff")
    fits = _compute_share(characters, lambda c: "\u3000" <= c <= "\u30ff" or _is_east_asian(c))
    return fits * min(1.0, kana / 0.2)


def _score_korean(characters: Counter[str]) -> float:
    """Return how well counted characters fit Korean text, from 0 to 1.

    1 means that all are hangul or punctuation, and at least 15% are among the most frequent syllables.
    """
    fits = _compute_share(characters, lambda c: "\uac00" <= c <= "\ud7a3" or c in PUNCTUATION)
    return fits * min(1.0, _compute_share(characters, SYLLABLES.__contains__) / 0.15)


def _make_chinese_scorer(frequent: frozenset[str]) -> Callable[[Counter[str]], float]:
    """Create a function that returns how well counted characters fit Chinese text, from 0 to 1.

    `frequent` contains the most frequent characters of this kind of Chinese.
    """

    def score(characters: Counter[str]) -> float:
        fits = _compute_share(characters, lambda c: c in PUNCTUATION or _is_east_asian(c))
        return fits * min(1.0, _compute_share(characters, frequent.__contains__) / MIN_FREQUENT_SHARE)

    return score


def _score_cyrillic(characters: Counter[str]) -> float:
    """Return how well counted characters fit text in Cyrillic letters, from 0 to 1.

    1 means that all are Cyrillic letters or punctuation, most of them lower-case, with a normal share of vowels.
    """
    small = _compute_share(characters, lambda c: "а" <= c <= "џ")  # noqa: RUF001
    vowels = _compute_share(characters, VOWELS.__contains__)
    fits = _compute_share(characters, lambda c: "\u0400" <= c <= "\u0491" or c in CYRILLIC_SIGNS)
    last = _compute_share(
        characters, lambda c: c in LAST_LETTERS or "\u0410" <= c <= "\u042f"
    )  # where Hebrew in windows-1255 has none
    return fits * min(1.0, small / 0.7, vowels / 0.22, last / 0.01)


def _score_western(characters: Counter[str]) -> float:
    """Return the share of the counted characters that are accented letters or quotes of Western languages."""
    return _compute_share(characters, WESTERN_SIGNS.__contains__)


MOSTLY_BEYOND, SOME_BEYOND = (0.35, 1.0), (0.1, 1.0)
# The score of an encoding, and the bounds of the share of letters that are beyond ASCII in its texts.
SCORES: dict[str, tuple[Callable[[Counter[str]], float], float, float]] = {
    "cp932": (_score_japanese, *SOME_BEYOND),
    "euc_jp": (_score_japanese, *SOME_BEYOND),
    "gb18030": (_make_chinese_scorer(SIMPLIFIED), *SOME_BEYOND),
    "big5hkscs": (_make_chinese_scorer(TRADITIONAL), *SOME_BEYOND),
    "cp949": (_score_korean, *MOSTLY_BEYOND),
    "cp1251": (_score_cyrillic, *MOSTLY_BEYOND),
    "koi8_r": (_score_cyrillic, *MOSTLY_BEYOND),
    "cp866": (_score_cyrillic, *MOSTLY_BEYOND),
    "iso8859_5": (_score_cyrillic, *MOSTLY_BEYOND),
    WESTERN: (_score_western, 0.0, 0.35),
}
