"""Bounds on what a tokenizer's folder may ask for: anyone may have made it.

Promise: a folder that is read has ids without gaps, a normalizer by whose rules a character becomes about `MOST_GROWTH`
at most (Unicode's own forms aside), and encodes a text. Anything else is an InputError that names the folder, whether
tokenizers raises an exception for it or panics. A regular expression of its own may take ten million steps for one
match, then tokenizers gives up. Cost: nothing next to parsing.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from operator import itemgetter
from typing import Any

from corpora.errors import InputError

MOST_BYTES = 1 << 26  # of a file; the largest of published tokenizers have 35 MB
MOST_SCORE = 1e15  # of a Unigram's piece, whatever its sign: sums of scores are finite
MOST_GROWTH = 100  # ALBERT's normalizer can make a text 36 times as long


@contextmanager
def refused_by_tokenizers(message: str) -> Iterator[None]:
    """Turn what tokenizers does not take into an InputError that begins with `message`, also where it panics."""
    try:
        yield
    except BaseException as error:  # tokenizers has no class of its own for what it cannot read, and panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(
            f"{message} ({error}). It is damaged, was written by another version, or lacks a token: save the tokenizer "
            "again with Hugging Face tokenizers or transformers, or name another."
        ) from error


def check_growth(content: Mapping[str, Any], where: str) -> None:
    """Raise InputError where a text could become a hundred times as long before it is cut into words."""
    grown = most_growth(content.get("normalizer"))
    if grown > MOST_GROWTH:
        raise InputError(
            f"{where}: its normalizer can make a text {grown} times as long, and known ones at most "
            f"{MOST_GROWTH} times: a page would fill the memory. Correct `normalizer` in its tokenizer.json."
        )


def most_growth(normalizer: Any) -> int:
    """Return how many times as long a normalizer can make a text, at most; Unicode's forms aside, which do it once.

    >>> most_growth({"type": "Replace", "pattern": {"String": "a"}, "content": "bbb"})
    3
    """
    kind = normalizer["type"] if normalizer else None
    if kind == "Sequence":
        return prod(most_growth(step) for step in normalizer["normalizers"])
    if kind == "Replace":
        replaced = len(normalizer["pattern"].get("String", ""))
        content = len(normalizer["content"])
        return max(1, -(-content // replaced)) if replaced else 1 + content
    if kind == "Prepend":
        return max(1, len(normalizer["prepend"]))
    if kind == "Precompiled":
        return _longest_replacement(base64.b64decode(normalizer["precompiled_charsmap"] or ""))
    return {"BertNormalizer": 3, "ByteLevel": 2}.get(str(kind), 1)


def _longest_replacement(rules: bytes) -> int:
    """The longest text that a character becomes: after a trie, whose size comes first, texts that end with zeros."""
    first = 4 + int.from_bytes(rules[:4], "little")
    return max(1, *(len(text.decode("utf-8", "replace")) for text in rules[first:].split(b"\0")))


def check_ids(content: Mapping[str, Any], where: str) -> dict[str, int]:
    """All tokens of a parsed tokenizer.json with their ids, added ones included.

    Raises InputError where ids do not run from 0 without a gap, each one token's.
    """
    ids = _ids_of(content, where)
    ascending = enumerate(sorted(ids.items(), key=itemgetter(1)))
    wrong = next(((token, number, place) for place, (token, number) in ascending if number != place), None)
    if wrong is not None:
        token, number, place = wrong
        what = f"no token has the id {place}" if number > place else f"two tokens have the id {number}"
        raise InputError(
            f"{where}: {what} ({token!r} has {number}, after {place} other tokens). Ids run from 0 without a gap, "
            "each one token's, or a model would have rows that no token has: save the tokenizer with all its tokens."
        )
    return ids


def _ids_of(content: Mapping[str, Any], where: str) -> dict[str, int]:
    pieces = content["model"]["vocab"]
    if isinstance(pieces, list):
        tokens = [token for token, _ in pieces]
        pieces = {token: number for number, token in enumerate(tokens)}
        if len(pieces) < len(tokens):
            twice = next(token for number, token in enumerate(tokens) if pieces[token] != number)
            raise InputError(f"{where}: the token {twice!r} occurs twice in the vocabulary: each token has one id.")
    return dict(pieces) | {token["content"]: token["id"] for token in content["added_tokens"]}


def check_json_ids(content: Any, where: str) -> None:
    """Raise InputError for ids that tokenizers would not notice.

    It makes room for all before the largest one, and of two tokens with one id it forgets either.
    """
    model = content.get("model") if isinstance(content, dict) else None
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(pieces, dict):
        return
    added = content.get("added_tokens") or ()
    most = len(pieces) + (len(added) if isinstance(added, list) else 0)
    wrong = next((t for t, number in pieces.items() if not (type(number) is int and 0 <= number < most)), None)
    if wrong is not None:
        raise InputError(
            f"{where}: the token {wrong!r} has the id {pieces[wrong]!r}, and of {most} tokens the ids run "
            f"from 0 to {most - 1}, without a gap: save the tokenizer with all its tokens."
        )
    tokens = {number: token for token, number in pieces.items()}
    if len(tokens) < len(pieces):
        token, number = next((token, number) for token, number in pieces.items() if tokens[number] != token)
        raise InputError(
            f"{where}: two tokens have the id {number}, {token!r} and {tokens[number]!r}: each has one of its "
            "own. Save the tokenizer again, or bring the file again."
        )
