r"""Texts of UTF-16 and UTF-32, found by their mark, by where their zeros are, or by their characters.

Promise: a text of UTF-8 is never taken for a wide one, and one of ASCII with some bytes that are not is neither.
"""

import codecs
import re

HEAD = 4096
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
FEWEST = 8  # bytes, of which something can be said without a mark
LEAST_SIGNS = 0.03  # of characters
SIGNS = re.compile("[ -~\\t\\r\\n\u3000-\u30ff\uff01-\uff5e]")  # of ASCII, and of Japanese and Chinese
LETTERS = re.compile("[\u00a0-\u06ff\u0900-\u0fff\u10a0-\u11ff\u1e00-\u206f\u20a0-\u20bf\u4e00-\u9fff\uac00-\ud7a3]")
ASCII = re.compile(rb"[ -~\t\r\n]")
MOSTLY_ASCII = 0.9  # of bytes; of hiragana in UTF-16, whose bytes look most like it, 0.85 do
MOSTLY, HARDLY = 0.3, 0.02  # share of zeros among the bytes that hold the upper half of characters, and the lower


def marked_encoding(head: bytes) -> str:
    """The wide encoding whose mark a text begins with; "" for none."""
    return next((codec for mark, codec in MARKS if head.startswith(mark)), "")


def wide_encoding(head: bytes) -> str:
    r"""The wide encoding of a text that begins so, by its mark, zeros or characters; "" for none.

    >>> [wide_encoding("The ferry".encode(codec)) for codec in ("utf-16", "utf-16-be", "utf-32-le", "utf-8")]
    ['utf-16-le', 'utf-16-be', 'utf-32-le', '']
    >>> wide_encoding("渡し舟は霧のために遅れた。".encode("utf-16-be"))
    'utf-16-be'
    """
    if codec := marked_encoding(head):
        return codec
    head = head[: len(head) // 4 * 4][:HEAD]
    if len(head) < FEWEST:
        return ""
    return (_by_zeros(head) if 0 in head else "") or _by_characters(head)


def _by_zeros(head: bytes) -> str:
    zeros = [head[at::4].count(0) / (len(head) / 4) for at in range(4)]
    for codec, upper, lower in (
        ("utf-32-le", (2, 3), (0,)),
        ("utf-32-be", (0, 1), (3,)),
        ("utf-16-le", (1, 3), (0, 2)),
        ("utf-16-be", (0, 2), (1, 3)),
    ):
        most = 1.0 - HARDLY if codec.startswith("utf-32") else MOSTLY
        if all(zeros[at] >= most for at in upper) and all(zeros[at] <= HARDLY for at in lower):
            return codec
    return ""


def _by_characters(head: bytes) -> str:
    """UTF-16 of other scripts: letters of few scripts, and among them spaces, line ends, kana or the like."""
    if _is_utf_8(head) or len(ASCII.findall(head)) >= MOSTLY_ASCII * len(head):
        return ""
    shares = {codec: _share_of_signs(head, codec) for codec in ("utf-16-le", "utf-16-be")}
    best, other = sorted(shares, key=shares.__getitem__, reverse=True)
    return best if shares[best] >= LEAST_SIGNS and shares[best] > 2 * shares[other] else ""


def _is_utf_8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _share_of_signs(head: bytes, codec: str) -> float:
    """The share of characters that no other encoding would give so often; 0 where others are no letters of a script."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return 0.0
    signs = len(SIGNS.findall(text))
    strange = len(text) - signs - len(LETTERS.findall(text))
    return signs / len(text) if text and strange <= HARDLY * len(text) else 0.0
