"""The characters of a text that each piece stands for: its own letters, without the spaces around them.

A byte-level tokenizer counts the space before a word to the word's first piece. Its post-processor takes that space off
again by the piece's mark for it, once for each time that it is called, and also if the text has no space there and the
tokenizer put the mark before the word itself: then the word loses its first letter ("msterdam" for "Amsterdam"). So no
post-processor takes anything off (`keep_spaces`), and the text says what is a space (`find_piece_offsets`).

Promise: for every pre-tokenizer and normalizer of the library `tokenizers` a piece is what its offsets say, without the
spaces around it. A piece of only spaces is empty. Cost: a microsecond a piece.
"""

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Encoding, Tokenizer

SPACE_MARKS = (
    "\u0120\u2581 "  # of a space, in the names of pieces; the first and the last are taken off by post-processors
)


def keep_spaces(tokenizer: Tokenizer) -> bool | None:
    """Modify a tokenizer, in place, so that the offsets of its tokens include surrounding spaces.

    Returns:
        The `add_prefix_space` flag of the post-processor that trimmed the spaces, or None if none did.
    """
    processor: Any = tokenizer.post_processor
    state = json.loads(processor.__getstate__()) if processor is not None else {}
    flags = [*_stop_trimming(state)]
    if not flags:
        return None
    processor.__setstate__(json.dumps(state).encode())
    tokenizer.post_processor = processor
    return flags[-1]


def _stop_trimming(state: dict[str, Any]) -> Iterator[bool]:
    """Turn off `trim_offsets` in a post-processor and those nested in it.

    `state` is the post-processor as parsed JSON, and is changed in place.

    Yields:
        The `add_prefix_space` flag of each post-processor that was changed.
    """
    for inner in state.get("processors", ()):
        yield from _stop_trimming(inner)
    if state.get("trim_offsets", False):
        state["trim_offsets"] = False
        yield bool(state.get("add_prefix_space", False))


def trim_spaces(text: str, piece: str, offsets: tuple[int, int], keeps_first: bool) -> tuple[int, int]:
    """Trim a token's offsets as its post-processor would, but only by spaces that are in the text.

    Args:
        text: The encoded text.
        piece: The token.
        offsets: Start and end of the token in `text`, from a tokenizer changed by `keep_spaces`.
        keeps_first: Whether to keep the token's first space, which the post-processor considers added by the tokenizer.

    Returns:
        The new start and end, in characters.
    """
    begin, end = offsets
    inside, num_marks = text[begin:end], len(piece) - len(piece.lstrip(SPACE_MARKS[::2]))
    if num_marks == len(piece) and not inside[:1].isspace():
        return begin, begin
    begin += min(max(0, num_marks - keeps_first), len(inside) - len(inside.lstrip()))
    return begin, max(
        begin, end - min(len(piece) - len(piece.rstrip(SPACE_MARKS[::2])), len(inside) - len(inside.rstrip()))
    )


def find_piece_offsets(text: str, encoding: Encoding) -> list[tuple[int, int]]:
    """Return the range of characters that each token covers, without surrounding spaces.

    A word-start mark that the tokenizer inserted covers no characters. Its range is empty and lies at the start of the
    word.

    Args:
        text: The encoded text.
        encoding: Encoding of `text` by a tokenizer changed by `keep_spaces`.

    Returns:
        One (start, end) pair per token, in characters.
    """
    offsets, last_end = list[tuple[int, int]](), 0
    for piece, (begin, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        inside = text[begin:end]
        if begin >= last_end and not piece.strip(SPACE_MARKS) and inside != piece and not inside.isspace():
            end = begin
        else:
            begin += len(inside) - len(inside.lstrip())
            end = begin + len(inside.strip())
        offsets.append((begin, end))
        last_end = end
    return offsets
