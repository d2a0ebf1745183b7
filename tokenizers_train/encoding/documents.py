"""Encode documents: a vocabulary's tokenizer without the ways by which a text could write special tokens.

A token can be special in two places: among the added tokens, which tokenizers looks for in a text before anything
else, and among the pieces of the model, where a Unigram model takes "<pad>" for its text and a WordPiece one the word
"covid". In what is made here its name is another in both, one that no text holds, and its id the same.

Promise: no text has the id of a special token: written out, it is text. A text in which none is written, and in which
the model finds none either, has the ids that `Tokenizer.from_file` gives it, ordinary added tokens included: each is
found before the text is cut into words, and as its flags say (`single_word`, `lstrip`, `rstrip`, `normalized`). Two
exceptions: the unknown token, which what no piece covers becomes; and a piece of the model that is one letter, or a
byte (`<0x0A>`), with which texts are spelt whatever it is called.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any

from tokenizers_train.vocabularies.vocabulary import Vocabulary

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_HIDDEN = f" {secrets.token_hex(16)}"  # no document can know it; no word of the engines' rules holds a space


def document_content(vocabulary: Vocabulary) -> dict[str, Any]:
    """The parsed tokenizer.json of a vocabulary, its special tokens renamed to what no text holds."""
    content = vocabulary.content
    pieces = content["model"]["vocab"]
    tokens = {piece for piece, _ in pieces} if isinstance(pieces, list) else pieces.keys()
    special = (vocabulary.tokens[number] for number in vocabulary.special_ids.values())
    names = {token: token + _HIDDEN for token in special if token not in tokens or not _is_letter(token)}
    added = [
        {**token, "content": names.get(token["content"], token["content"]), "special": _is_special(token, names)}
        for token in content["added_tokens"]
    ]
    model = _renamed(content["model"], names)
    return {**content, "added_tokens": added, "model": model, "post_processor": _offsets_only(content)}


def _is_letter(token: str) -> bool:
    """True if a piece is one that texts are spelt with."""
    return len(token) == 1 or _BYTE.fullmatch(token) is not None


def _is_special(token: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    return token["special"] or token["content"] in names


def _renamed(model: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A model whose pieces have other names. What merges make a renamed one of, or it into, they no longer do."""
    if isinstance(model["vocab"], list):
        return {**model, "vocab": [[names.get(piece, piece), score] for piece, score in model["vocab"]]}
    made = {**model, "vocab": {names.get(piece, piece): number for piece, number in model["vocab"].items()}}
    if model.get("unk_token") is not None:
        made["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    if "merges" in model:
        prefix = model.get("continuing_subword_prefix") or ""
        made["merges"] = [
            (left, right)
            for left, right in model["merges"]
            if names.keys().isdisjoint((left, right, left + right[len(prefix) :]))
        ]
    return made


def _offsets_only(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the post-processor says of where tokens begin, without templates: a text could be in one twice."""
    post = content.get("post_processor") or {}
    parts = [part for part in post.get("processors", [post]) if part.get("type") in ("ByteLevel", "RobertaProcessing")]
    return parts[0] if parts else None
