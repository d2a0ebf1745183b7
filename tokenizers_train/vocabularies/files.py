"""The files of a tokenizer's folder: read, compared with each other, and refused with the reason.

Promise: what a folder means is what Hugging Face tokenizers makes of it. `tokenizer.json` is the whole tokenizer; a
folder without one is read from `vocab.txt` (BERT) or `vocab.json` and `merges.txt` (RoBERTa, GPT-2), with what
`tokenizer_config.json` says of case and accents. The roles of special tokens (`cls`, `sep`, `pad`, `unk`, `mask`) are
those of `tokenizer_config.json` or else `special_tokens_map.json`, or else of the names that BERT, RoBERTa and ALBERT
use. A `vocab.txt`, `vocab.json` or `merges.txt` that contradicts the `tokenizer.json` is refused: other tools would
read it first.

A folder is data that anyone may have made. Nothing in it is run: a `tokenizer_config.json` may name code (`auto_map`),
and no one here looks. A folder that is read has files of at most `MAX_FILE_BYTES`, ids without gaps, a normalizer by
whose rules a character becomes about `MAX_GROWTH` at most (Unicode's own forms aside), and encodes a text. Anything
else is an InputError of one paragraph that names the folder, whether tokenizers raises an exception for it or panics. A
regular expression of its own may take ten million steps for one match, then tokenizers gives up.

Cost: that of parsing: a tenth of a second for 50,000 tokens.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer

from corpora.errors import InputError
from tokenizers_train.vocabularies import albert, bert, roberta
from tokenizers_train.vocabularies.albert import to_definition

MAX_FILE_BYTES = 1 << 26  # of a file; the largest of published tokenizers have 35 MB
MAX_SCORE = 1e15  # of a Unigram's piece, whatever its sign: sums of scores are finite
MAX_GROWTH = 100  # ALBERT's normalizer can make a text 36 times as long


@contextmanager
def translate_tokenizers_errors(message: str) -> Iterator[None]:
    """Convert any exception or panic of the tokenizers library inside the `with` block to an InputError.

    Args:
        message: The beginning of the error message.
    """
    try:
        yield
    except BaseException as error:  # tokenizers has no class of its own for what it cannot read, and panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(
            f"{message} ({error}). It is damaged, was written by another version, or lacks a token: save the tokenizer "
            "again with Hugging Face tokenizers or transformers, or name another."
        ) from error


def check_growth(content: Mapping[str, Any], origin: str) -> None:
    """Check that the normalizer of a tokenizer cannot make a text more than `MAX_GROWTH` times as long.

    Args:
        content: The parsed tokenizer.json.
        origin: The name of the folder in the error message.

    Raises:
        InputError: If the normalizer can make a text longer than that.
    """
    growth = compute_max_growth(content.get("normalizer"))
    if growth > MAX_GROWTH:
        raise InputError(
            f"{origin}: its normalizer can make a text {growth} times as long, and known ones at most "
            f"{MAX_GROWTH} times: a page would fill the memory. Correct `normalizer` in its tokenizer.json."
        )


def compute_max_growth(normalizer: Any) -> int:
    """Return the maximum factor by which a normalizer can lengthen a text.

    Unicode normalization forms count as 1.

    Args:
        normalizer: The parsed normalizer of a tokenizer.json, or None.

    >>> compute_max_growth({"type": "Replace", "pattern": {"String": "a"}, "content": "bbb"})
    3
    """
    kind = normalizer["type"] if normalizer else None
    if kind == "Sequence":
        return prod(compute_max_growth(step) for step in normalizer["normalizers"])
    if kind == "Replace":
        replaced = len(normalizer["pattern"].get("String", ""))
        content = len(normalizer["content"])
        return max(1, -(-content // replaced)) if replaced else 1 + content
    if kind == "Prepend":
        return max(1, len(normalizer["prepend"]))
    if kind == "Precompiled":
        return _measure_longest_replacement(base64.b64decode(normalizer["precompiled_charsmap"] or ""))
    return {"BertNormalizer": 3, "ByteLevel": 2}.get(str(kind), 1)


def _measure_longest_replacement(rules: bytes) -> int:
    """Return the length in characters of the longest replacement in a precompiled character map (at least 1).

    Args:
        rules: The decoded map: the size of a trie in four bytes, the trie, then the replacements, each ended by a zero
            byte.
    """
    first = 4 + int.from_bytes(rules[:4], "little")
    return max(1, *(len(text.decode("utf-8", "replace")) for text in rules[first:].split(b"\0")))


def collect_ids(content: Mapping[str, Any], origin: str) -> dict[str, int]:
    """Return the id of each token in a parsed tokenizer.json, including added tokens.

    Args:
        content: The parsed tokenizer.json.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If the ids are not exactly 0, 1, 2, ..., each used once, or if a Unigram model has a token twice.
    """
    ids = _collect_unchecked_ids(content, origin)
    ascending = enumerate(sorted(ids.items(), key=itemgetter(1)))
    wrong = next(((token, number, place) for place, (token, number) in ascending if number != place), None)
    if wrong is not None:
        token, number, place = wrong
        what = f"no token has the id {place}" if number > place else f"two tokens have the id {number}"
        raise InputError(
            f"{origin}: {what} ({token!r} has {number}, after {place} other tokens). Ids run from 0 without a gap, "
            "each one token's, or a model would have rows that no token has: save the tokenizer with all its tokens."
        )
    return ids


def _collect_unchecked_ids(content: Mapping[str, Any], origin: str) -> dict[str, int]:
    pieces = content["model"]["vocab"]
    if isinstance(pieces, list):
        tokens = [token for token, _ in pieces]
        pieces = {token: number for number, token in enumerate(tokens)}
        if len(pieces) < len(tokens):
            twice = next(token for number, token in enumerate(tokens) if pieces[token] != number)
            raise InputError(f"{origin}: the token {twice!r} occurs twice in the vocabulary: each token has one id.")
    return dict(pieces) | {token["content"]: token["id"] for token in content["added_tokens"]}


def check_json_ids(content: Any, origin: str) -> None:
    """Check that the ids in `content["model"]["vocab"]` are in range and each used once.

    The tokenizers library would allocate memory up to the largest id, and silently drop one of two tokens with the same
    id. Content of any other structure is not checked here.

    Args:
        content: The parsed tokenizer.json.
        origin: The name of the folder in the error message.

    Raises:
        InputError: If an id is out of range or used twice.
    """
    model = content.get("model") if isinstance(content, dict) else None
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(pieces, dict):
        return
    added = content.get("added_tokens") or ()
    num_tokens = len(pieces) + (len(added) if isinstance(added, list) else 0)
    wrong = next((t for t, number in pieces.items() if not (type(number) is int and 0 <= number < num_tokens)), None)
    if wrong is not None:
        raise InputError(
            f"{origin}: the token {wrong!r} has the id {pieces[wrong]!r}, and of {num_tokens} tokens the ids run "
            f"from 0 to {num_tokens - 1}, without a gap: save the tokenizer with all its tokens."
        )
    tokens = {number: token for token, number in pieces.items()}
    if len(tokens) < len(pieces):
        token, number = next((token, number) for token, number in pieces.items() if tokens[number] != token)
        raise InputError(
            f"{origin}: two tokens have the id {number}, {token!r} and {tokens[number]!r}: each has one of its "
            "own. Save the tokenizer again, or bring the file again."
        )


TOKENIZER, CONFIG, SPECIALS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
WORDS, IDS, MERGES, ADDED = "vocab.txt", "vocab.json", "merges.txt", "added_tokens.json"
MODEL = "spiece.model"
FILES = (TOKENIZER, CONFIG, SPECIALS, WORDS, IDS, MERGES, ADDED, MODEL)
"""The files that are read, or kept with what was read."""

ROLES = ("pad", "unk", "cls", "sep", "mask")
_FAMILIES = (bert, roberta, albert)


class TokenizerFiles(NamedTuple):
    """A tokenizer read from a folder.

    Attributes:
        definition: The text of tokenizer.json as the tokenizers library writes it, without padding and truncation.
        special_tokens: Maps each role that has a token to this token.
        other_files: The unchanged bytes of the other files, by name.
    """

    definition: str
    special_tokens: dict[str, str]
    other_files: dict[str, bytes]


def read_tokenizer_files(files: Mapping[str, bytes], origin: str, lowercase: bool | None = None) -> TokenizerFiles:
    """Parse the files of a tokenizer folder and check that they agree with each other.

    Args:
        files: Maps file names to contents.
        origin: The name of the folder in error messages.
        lowercase: Whether a vocab.txt without a tokenizer.json is uncased. Default: `do_lower_case` of
            tokenizer_config.json. If that is missing too, the vocabulary is uncased if only tokens that begin with [
            have capital letters.

    Raises:
        InputError: If no tokenizer can be read, if a limit of this module is exceeded, or if files contradict each
            other.
    """
    config = {**_parse_object(files, SPECIALS, origin), **_parse_object(files, CONFIG, origin)}
    if TOKENIZER in files:
        tokenizer = _parse_tokenizer(files[TOKENIZER], origin)
    elif WORDS in files:
        tokenizer = _from_words(files[WORDS], config, lowercase, origin)
    elif IDS in files and MERGES in files:
        tokenizer = _from_merges(files, config, origin)
    else:
        raise InputError(_explain_missing_files(files, origin))
    if TOKENIZER not in files and ADDED in files:
        _add_tokens(tokenizer, _parse_object(files, ADDED, origin), origin)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    definition = to_definition(tokenizer)
    content = json.loads(definition)
    _check_model(content["model"], origin)
    check_growth(content, origin)
    collect_ids(content, origin)
    with translate_tokenizers_errors(f"{origin}: tokenizers cannot use its {TOKENIZER}"):
        tokenizer.encode("a")  # what is missing in it shows now
    if TOKENIZER in files:
        _check_other_files(tokenizer, files, origin)
    other_files = {name: data for name, data in files.items() if name in FILES and name != TOKENIZER}
    return TokenizerFiles(definition, find_special_tokens(tokenizer, config, origin), other_files)


def read_folder_files(path: Path) -> dict[str, bytes]:
    """Read the files of a tokenizer folder that exist, and return their bytes by name.

    Only the files in FILES are read. Symbolic links are followed, because the Hugging Face cache uses them.

    Args:
        path: A folder or a single file. A file is read as tokenizer.json if its name ends in .json, otherwise as
            vocab.txt.

    Raises:
        InputError: If the path does not exist or a file is larger than `MAX_FILE_BYTES`.
        OSError: If a file cannot be read.
    """
    if path.is_file():
        return {TOKENIZER if path.suffix == ".json" else WORDS: read_bounded_bytes(path)}
    if not path.is_dir():
        raise InputError(f"There is no tokenizer at {path}: name the folder that one was saved to, or a vocab.txt.")
    return {name: read_bounded_bytes(path / name) for name in FILES if (path / name).is_file()}


def read_bounded_bytes(path: Path) -> bytes:
    """Read all bytes of a file that is not too large.

    Raises:
        InputError: If the file is larger than `MAX_FILE_BYTES`.
        OSError: If the file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InputError(
            f"{path} has more than {MAX_FILE_BYTES >> 20} MiB, as no tokenizer's file has: name the right "
            "file, or save the tokenizer again."
        )
    return data


def _check_model(model: Mapping[str, Any], origin: str) -> None:
    """Check that the model of a tokenizer.json is supported.

    Args:
        model: The model, as parsed JSON.
        origin: The name of the folder in the error message.

    Raises:
        InputError: If BPE dropout makes its output random, if a Unigram model has no unknown token, or if a Unigram
            score exceeds `MAX_SCORE` in absolute value.
    """
    if model.get("dropout"):
        raise InputError(
            f"{origin}: its BPE drops merges at random (dropout {model['dropout']}), so a text would have other ids "
            f"each time. Set `dropout` to null in its {TOKENIZER}."
        )
    if model["type"] == "Unigram" and model.get("unk_id") is None:
        raise InputError(
            f"{origin}: its Unigram model names no token for what no piece covers, and tokenizers ends at the first "
            f"such character. Set `unk_id` in its {TOKENIZER} to the id of one."
        )
    if model["type"] == "Unigram":
        wrong = next((piece for piece in model["vocab"] if abs(piece[1]) > MAX_SCORE), None)
        if wrong is not None:
            raise InputError(
                f"{origin}: the score of its piece {wrong[0]!r} is {wrong[1]}, and scores are logarithms of "
                f"probabilities, such as -8.5: correct it in its {TOKENIZER}."
            )


def _explain_missing_files(files: Mapping[str, bytes], origin: str) -> str:
    if MODEL in files:
        return (
            f"{origin} has a {MODEL} and no {TOKENIZER}: open it with transformers' AutoTokenizer once and save it "
            "again with save_pretrained, which writes one."
        )
    half, other = (IDS, MERGES) if IDS in files else (MERGES, IDS)
    lacks = (
        f"{half} without its {other}" if half in files else f"no {TOKENIZER}, nor a {WORDS}, nor a {IDS} and {MERGES}"
    )
    return (
        f"{origin} has {lacks}: a tokenizer is read from {TOKENIZER}, or {WORDS}, or {IDS} with {MERGES}. Name a "
        "folder that a tokenizer was saved to, or bring the file that is missing."
    )


def _parse_tokenizer(data: bytes, origin: str) -> Tokenizer:
    """Parse the bytes of a tokenizer.json to a Hugging Face tokenizer. `origin` names the folder in error messages.

    Raises:
        InputError: If the content is invalid, has ids that are out of range, or has an object with a duplicate key.
    """
    try:
        text = data.decode()
        content = json.loads(text, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin}: its {TOKENIZER} cannot be read: {error}.") from error
    check_json_ids(content, origin)
    with translate_tokenizers_errors(f"{origin}: tokenizers cannot read its {TOKENIZER}"):
        return Tokenizer.from_str(text)


class _DuplicateKey(ValueError):
    """Raised if a JSON object has the same key twice."""


def _refuse_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise _DuplicateKey(f"{twice!r} occurs twice in it: each token has one id")
    return made


def _from_words(data: bytes, config: Mapping[str, Any], lowercase: bool | None, origin: str) -> Tokenizer:
    """Build a BERT tokenizer from a vocab.txt with one token per line.

    Args:
        data: The content of vocab.txt.
        config: The parsed tokenizer_config.json, or an empty dict.
        lowercase: Whether the vocabulary is uncased. Default: `do_lower_case` of `config`. If that is missing too, it
            is uncased if only tokens that begin with [ have capital letters.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If a line is empty, a token occurs twice, or a special token is missing.
    """
    tokens = _decode_text(data, WORDS, origin).replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if not token or token in ids:
            what = f"the token {token!r} occurs twice" if token else "a line is empty"
            raise InputError(f"{origin}: {what} in {WORDS}, line {number + 1}: each line is a token, and its id.")
        ids[token] = number
    if lowercase is None:
        lowercase = config.get("do_lower_case", not any(token.lower() != token for token in ids if token[0] != "["))
    roles = {**bert.SPECIAL_TOKENS, **_find_named_roles(config)}
    _check_present(roles, ids, WORDS, origin)
    return bert.build_tokenizer(
        ids,
        lowercase=bool(lowercase),
        special_tokens=roles,
        strip_accents=None if config.get("strip_accents") is None else bool(config["strip_accents"]),
        chinese_characters=bool(config.get("tokenize_chinese_chars", True)),
    )


def _from_merges(files: Mapping[str, bytes], config: Mapping[str, Any], origin: str) -> Tokenizer:
    """Build a RoBERTa tokenizer from a vocab.json and a merges.txt.

    Args:
        files: Maps file names to contents. It must have both files.
        config: The parsed tokenizer_config.json, or an empty dict.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If one of the files cannot be read, or if the files contradict each other.
    """
    try:
        ids = json.loads(_decode_text(files[IDS], IDS, origin), object_pairs_hook=_refuse_duplicates)
        merges = roberta.parse_merges_text(_decode_text(files[MERGES], MERGES, origin), origin)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin}: its {IDS} cannot be read: {error}.") from error
    if not isinstance(ids, dict):
        raise InputError(f"{origin}: its {IDS} is not a table of tokens and their ids: bring the file again.")
    check_json_ids({"model": {"vocab": ids}}, origin)
    roberta.check_merges(ids, merges, origin)
    roles = {**roberta.SPECIAL_TOKENS, **_find_named_roles(config)}
    present = {role: token for role, token in roles.items() if token in ids}
    prefix_space = bool(config.get("add_prefix_space", False))
    return roberta.build_tokenizer(ids, merges, special_tokens=present, add_prefix_space=prefix_space)


def _add_tokens(tokenizer: Tokenizer, added: Mapping[str, Any], origin: str) -> None:
    """Add the tokens of an added_tokens.json to a tokenizer in the order of their ids.

    Args:
        tokenizer: The tokenizer, which is changed in place.
        added: Maps each token to its id.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If a token would get another id.
    """
    wrong = next((token for token, number in added.items() if type(number) is not int or not token), None)
    if wrong is not None:
        raise InputError(f"{origin}: {ADDED} gives {wrong!r} the id {added[wrong]!r}, and ids are numbers of tokens.")
    for token, number in sorted(added.items(), key=lambda item: item[1]):
        tokenizer.add_tokens([AddedToken(token, normalized=False)])
        if tokenizer.token_to_id(token) != number:
            raise InputError(
                f"{origin}: {ADDED} gives {token!r} the id {number}, and after the {tokenizer.get_vocab_size() - 1} "
                f"tokens before it that would be {tokenizer.token_to_id(token)}: ids run from 0 without a gap."
            )


def _check_other_files(tokenizer: Tokenizer, files: Mapping[str, bytes], origin: str) -> None:
    """Check that vocab.txt, vocab.json and merges.txt agree with tokenizer.json.

    Args:
        tokenizer: The tokenizer that was read from tokenizer.json.
        files: Maps file names to contents. Files that are missing are not checked.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If a file contradicts tokenizer.json, or cannot be read.
    """
    contrary = None
    if WORDS in files:
        words = _decode_text(files[WORDS], WORDS, origin).replace("\r\n", "\n").removesuffix("\n").split("\n")
        contrary = WORDS if any(tokenizer.id_to_token(n) != word for n, word in enumerate(words)) else None
    if IDS in files:
        ids = _parse_object(files, IDS, origin)
        contrary = IDS if any(tokenizer.token_to_id(token) != number for token, number in ids.items()) else contrary
    if MERGES in files:
        stated = roberta.parse_merges_text(_decode_text(files[MERGES], MERGES, origin), origin)
        model = json.loads(tokenizer.to_str())["model"]
        contrary = MERGES if stated != roberta.parse_merges(model.get("merges", ())) else contrary
    if contrary:
        raise InputError(
            f"{origin}: its {contrary} and its {TOKENIZER} are of different vocabularies, so other tools would give "
            "other ids. Bring both from one, or remove the one that is wrong."
        )


def find_special_tokens(tokenizer: Tokenizer, config: Mapping[str, Any], origin: str) -> dict[str, str]:
    """Return the special token of each role (pad, unk, cls, sep, mask).

    A token named in the configuration is preferred. Other roles get the token that BERT, RoBERTa or ALBERT uses,
    whichever family has the most of its special tokens in the vocabulary. Roles without a token are left out.

    Args:
        tokenizer: The tokenizer.
        config: The parsed tokenizer_config.json, or an empty dict.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If the configuration names a token that is not in the vocabulary.
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    named = _find_named_roles(config)
    _check_present(named, ids, CONFIG, origin)
    usual = max(
        (family.SPECIAL_TOKENS for family in _FAMILIES),
        key=lambda tokens: sum(token in ids for token in tokens.values()),
    )
    special = {role: token for role, token in usual.items() if token in ids} | named
    return {role: special[role] for role in (*usual, *ROLES) if role in special}


def _find_named_roles(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens that a configuration names (as in `cls_token`), by role.

    Each may be a string or an object with a `content`. Roles that it does not name are left out.
    """
    stated = {role: config.get(f"{role}_token") for role in ROLES}
    tokens = {role: token.get("content") if isinstance(token, Mapping) else token for role, token in stated.items()}
    return {role: token for role, token in tokens.items() if isinstance(token, str)}


def _check_present(roles: Mapping[str, str], ids: Mapping[str, int], file: str, origin: str) -> None:
    missing = [token for token in roles.values() if token not in ids]
    if missing:
        raise InputError(
            f"{origin}: the vocabulary lacks {', '.join(missing)}, which {file} calls for: a model's special tokens "
            f"are among its tokens. Add what is missing, or name the right ones in {CONFIG}."
        )


def _parse_object(files: Mapping[str, bytes], name: str, origin: str) -> dict[str, Any]:
    """Parse the file `name`, which must contain a JSON object. Returns an empty dict if the file is missing.

    Args:
        files: Maps file names to contents.
        name: Name of the file.
        origin: The name of the folder in error messages.

    Raises:
        InputError: If the file is not UTF-8 or not a JSON object.
    """
    try:
        content = json.loads(_decode_text(files.get(name, b"{}"), name, origin))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin}: its {name} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise InputError(f"{origin}: its {name} is not a JSON object: bring the file again.")
    return content


def _decode_text(data: bytes, name: str, origin: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{origin}: its {name} is not UTF-8 ({error}): bring the file again.") from error
