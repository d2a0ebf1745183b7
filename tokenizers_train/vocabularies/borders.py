"""Where the pieces of a text begin and end in it: with letters of their own, not with spaces, and never after a letter.

A byte-level tokenizer counts the space before a word to the word's first piece. Its post-processor takes that space off
again by the piece's mark for it, once for each time that it is called, and also if the text has no space there and the
tokenizer put the mark before the word itself: then the word loses its first letter ("msterdam" for "Amsterdam").
So no post-processor takes anything off (`keep_spaces`), and the text says what is a space (`borders`).

Promise: for every pre-tokenizer and normalizer of the library `tokenizers` a piece is what its offsets say, without the
spaces around it. A piece of spaces alone is empty. Cost: a microsecond a piece.
"""

import json
from typing import Any

from tokenizers import Encoding, Tokenizer

MARKS = "\u0120\u2581 "  # of a space, in the names of pieces


def keep_spaces(tokenizer: Tokenizer) -> None:
    """Let the pieces of a tokenizer have all their characters, the spaces too."""
    processor: Any = tokenizer.post_processor
    state = json.loads(processor.__getstate__()) if processor is not None else {}
    if _trims(state):
        processor.__setstate__(json.dumps(state).encode())
        tokenizer.post_processor = processor


def _trims(state: dict[str, Any]) -> bool:
    """Set a post-processor, and those in it, to take no spaces off; return whether one did."""
    inner = [_trims(each) for each in state.get("processors", ())]
    own = state.get("trim_offsets", False)
    if own:
        state["trim_offsets"] = False
    return own or any(inner)


def borders(text: str, encoding: Encoding) -> list[tuple[int, int]]:
    """The characters text[begin:end] of each piece, without spaces around them; in their order.

    A mark that the tokenizer put before a word has none, and is where the word begins.
    """
    places, before = list[tuple[int, int]](), 0
    for piece, (begin, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        inside = text[begin:end]
        if begin >= before and not piece.strip(MARKS) and inside != piece and not inside.isspace():
            end = begin
        else:
            begin += len(inside) - len(inside.lstrip())
            end = begin + len(inside.strip())
        places.append((begin, end))
        before = end
    return places
