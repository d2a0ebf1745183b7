r"""Texts of UTF-16 and UTF-32, found by their mark, or by where their zeros are.

Promise: a text of UTF-8 is never taken for a wide one, for it holds no zero.
"""

import codecs

HEAD = 4096
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
FEWEST = 8  # bytes, of which something can be said without a mark
MOSTLY, HARDLY = 0.3, 0.02  # share of zeros among the bytes that hold the upper half of characters, and the lower


def marked_encoding(head: bytes) -> str:
    """The wide encoding whose mark a text begins with; "" for none."""
    return next((codec for mark, codec in MARKS if head.startswith(mark)), "")


def wide_encoding(head: bytes) -> str:
    r"""The wide encoding of a text that begins so, by its mark or its zeros; "" for none.

    >>> [wide_encoding("The ferry".encode(codec)) for codec in ("utf-16", "utf-16-be", "utf-32-le", "utf-8")]
    ['utf-16-le', 'utf-16-be', 'utf-32-le', '']
    """
    if codec := marked_encoding(head):
        return codec
    head = head[: len(head) // 4 * 4][:HEAD]
    if len(head) < FEWEST or 0 not in head:
        return ""
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
