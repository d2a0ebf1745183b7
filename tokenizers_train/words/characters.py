"""Tables that tell what each character of a text becomes on its way into words, taken from the reference itself.

Promise: the tables that `probe_characters` makes tell for every code point what a normalizer and a pre-tokenizer do
with it between two digits. That is what they do with it anywhere, with one exception: if accents are stripped, marks
are first put into canonical order (Unicode, chapter 3.11), so two marks that are kept may change places. Code points
with a mark that is kept are therefore of the class `UNDECIDED`: the text from them to the next space has to be given to
the reference.

Nothing is taken from Python's own tables of Unicode, which are of another version than the reference's: rules written
over them were wrong for a quarter of all code points.

Cost: 0.6 to 1.3 s of CPU time for one pair of normalizer and pre-tokenizer, asked in blocks of like characters; they
are kept with the machine code (`corpora.kernels.array_cache`). In memory 5.6 MB.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import tokenizers
from tokenizers import PreTokenizedString, normalizers, pre_tokenizers

from corpora.kernels.array_cache import Arrays, read_or_make_arrays
from corpora.kernels.arrays import Bytes, UInt32s

LETTER, SPACE, STANDALONE, DROPPED, UNDECIDED = range(5)

NUM_CODE_POINTS = 0x110000
# The bits of `becomes`, from the lowest: the length in bytes, how many characters they are, the place in the pool.
LENGTH_BITS, CHARACTER_BITS = 5, 3
TEXT_BITS = LENGTH_BITS + CHARACTER_BITS

_SURROGATES = range(0xD800, 0xE000)
_BLOCK_SIZE = 256
_LATE_MARK, _EARLY_MARK = "\u0345", "\u0334"  # marks that come last and first in canonical order

FindWords = Callable[[str], list[str]]


class CharacterTables(NamedTuple):
    """The class and the normalized form of each code point.

    Attributes:
        classes: uint8 [code points]: LETTER (part of a word), SPACE (separates words), STANDALONE (a word by itself),
            DROPPED, or UNDECIDED (depends on the surrounding characters).
        replacements: uint32 [code points], 0 if the character does not change, otherwise offset in the pool << 8 |
            number of characters << 5 | number of bytes.
        pool: uint8, the replacements in UTF-8, followed by eight bytes of padding for reads of eight bytes at a time.
    """

    classes: Bytes
    replacements: UInt32s
    pool: Bytes


class _Run(NamedTuple):
    """Consecutive code points of one class. `text` is their replacement, or None if they do not change."""

    first: int
    num_codes: int
    kind: int
    text: str | None


@lru_cache(maxsize=4)
def build_bert_tables(
    clean_text: bool, handle_chinese_chars: bool, strip_accents: bool | None, lowercase: bool
) -> CharacterTables:
    """Build the character tables of BertNormalizer and BertPreTokenizer. They are computed once and cached on disk.

    Args:
        clean_text: Whether control characters are removed.
        handle_chinese_chars: Whether each Chinese character is a separate word.
        strip_accents: Whether accents are removed (None: same as `lowercase`).
        lowercase: Whether text is lower-cased.

    Raises:
        InputError: If the folder of the cache cannot be created.
    """
    normalizer = normalizers.BertNormalizer(
        clean_text=clean_text,
        handle_chinese_chars=handle_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    reorders = lowercase if strip_accents is None else strip_accents
    rules = f"{clean_text=}, {handle_chinese_chars=}, {strip_accents=}, {lowercase=}"
    name = f"BERT's characters, {rules}, tokenizers {tokenizers.__version__}"
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def make() -> Arrays:
        return probe_characters(normalizer, pre_tokenizer, reorders=reorders)._asdict()

    return CharacterTables(**read_or_make_arrays(name, __file__, make))


def probe_characters(
    normalizer: normalizers.Normalizer, pre_tokenizer: pre_tokenizers.PreTokenizer, *, reorders: bool
) -> CharacterTables:
    """Build character tables by running a normalizer and a pre-tokenizer on every code point.

    Args:
        normalizer: The normalizer.
        pre_tokenizer: The pre-tokenizer.
        reorders: Whether the normalizer puts combining marks into canonical order.
    """
    return _build_tables(_iter_runs(normalizer, pre_tokenizer, reorders))


def _build_tables(runs: Iterable[_Run]) -> CharacterTables:
    """Build character tables from runs of code points. The runs must cover every code point in order."""
    classes, replacements = np.zeros(NUM_CODE_POINTS, np.uint8), np.zeros(NUM_CODE_POINTS, np.uint32)
    pool, end = bytearray(), 0
    for first, number, kind, text in runs:
        assert first == end, "a code point left out"
        end += number
        classes[first:end] = kind
        if text is not None:
            encoded = text.encode()
            assert len(encoded) < 1 << LENGTH_BITS and len(text) < 1 << CHARACTER_BITS
            replacements[first] = len(pool) << TEXT_BITS | len(text) << LENGTH_BITS | len(encoded)
            pool += encoded
    assert end == NUM_CODE_POINTS, "a code point left out"
    return CharacterTables(classes, replacements, np.frombuffer(bytes(pool) + bytes(8), np.uint8))


def _iter_runs(
    normalizer: normalizers.Normalizer, pre_tokenizer: pre_tokenizers.PreTokenizer, reorders: bool
) -> Iterator[_Run]:
    """Yield the class and replacement of all code points in order. Blocks of 256 that behave alike are one run.

    Args:
        normalizer: The normalizer.
        pre_tokenizer: The pre-tokenizer.
        reorders: Whether the normalizer puts combining marks into canonical order.
    """

    def words(normal: str) -> list[str]:
        text = PreTokenizedString(normal)
        pre_tokenizer.pre_tokenize(text)
        return [word for word, _, _ in text.get_splits(offset_referential="normalized", offset_type="byte")]

    for first in range(0, NUM_CODE_POINTS, _BLOCK_SIZE):
        if first in _SURROGATES:
            yield _Run(first, _BLOCK_SIZE, DROPPED, None)
            continue
        block = "".join(map(chr, range(first, first + _BLOCK_SIZE)))
        normal = normalizer.normalize_str(f"0{block}0")
        if normal == "00":
            yield _Run(first, _BLOCK_SIZE, DROPPED, None)
        elif normal == f"0{block}0" and len(words(normal)) == 1 and not (reorders and _is_reordered(block)):
            yield _Run(first, _BLOCK_SIZE, LETTER, None)
        else:
            yield from _iter_single_runs(first, normalizer, words, reorders)


def _iter_single_runs(
    first: int, normalizer: normalizers.Normalizer, find_words: FindWords, reorders: bool
) -> Iterator[_Run]:
    """Yield the class and replacement of each code point in a block of 256.

    ASCII characters are normalized one at a time, all others in a single call.

    Args:
        first: The first code point of the block.
        normalizer: The normalizer.
        find_words: Splits a normalized text into words.
        reorders: Whether the normalizer puts combining marks into canonical order.
    """
    codes = range(first, first + _BLOCK_SIZE)
    ascii_ones = [normalizer.normalize_str(f"0{chr(code)}0")[1:-1] for code in codes if code < 0x80]
    others = "0".join(chr(code) for code in codes if code >= 0x80)
    normal = [*ascii_ones, *normalizer.normalize_str(f"0{others}0")[1:-1].split("0")]
    assert len(normal) == _BLOCK_SIZE, "a character other than the digit itself has become a digit"
    has_reordered = reorders and _is_reordered("".join(text for text in normal if not text.isascii()))
    for code, text, (kind, replacement) in zip(codes, normal, _classify_characters(normal, find_words), strict=True):
        if has_reordered and kind in (LETTER, STANDALONE) and not text.isascii() and _is_reordered(text):
            kind = UNDECIDED
        is_unchanged = replacement == chr(code) or kind not in (LETTER, STANDALONE)
        yield _Run(code, 1, kind, None if is_unchanged else replacement)


def _classify_characters(normal: list[str], find_words: FindWords) -> list[tuple[int, str]]:
    """Return the class of each character and its text within a word, in the order of `normal`.

    Args:
        normal: The normalized form of each character.
        find_words: Splits a normalized text into words.
    """
    kept = "0".join(text for text in normal if text)
    parts = find_words(f"0{kept}0")
    if len(parts) == 1:
        return [(LETTER, text) if text else (DROPPED, "") for text in normal]
    if len(parts) == 2 * kept.count("0") + 3 and {*parts[::2]} == {"0"}:
        standalone = iter(parts[1::2])
        return [(STANDALONE, next(standalone)) if text else (DROPPED, "") for text in normal]
    return [_classify_character(text, find_words) for text in normal]


def _classify_character(normal: str, find_words: FindWords) -> tuple[int, str]:
    """Return the class of one character and its text within a word, by splitting it between two digits.

    `normal` is the normalized form of the character, and `find_words` splits a normalized text into words.
    """
    if not normal:
        return DROPPED, ""
    parts = find_words(f"0{normal}0")
    if parts == [f"0{normal}0"]:
        return LETTER, normal
    if parts == ["0", "0"]:
        return SPACE, ""
    if len(parts) == 3 and parts[0] == parts[2] == "0":
        return STANDALONE, parts[1]
    return UNDECIDED, ""


def _is_reordered(text: str) -> bool:
    """Return whether putting a text into canonical order would move one of its characters past a combining mark next to
    it.
    """
    between = f"{_LATE_MARK}{f'{_EARLY_MARK}{_LATE_MARK}'.join(text)}{_EARLY_MARK}"
    return bool(normalizers.NFD().normalize_str(between) != between)
