"""Words as they are compared between texts, and the 64-bit hash of each: shingles and n-grams are runs of them.

A word is a longest run of letters, marks and numbers of any script (Unicode's categories L, M and N), one case for
another, in one form of Unicode. How a text is wrapped, spaced, punctuated, quoted or capitalized changes no word.

- **Folding.** Every character is decomposed and case-folded (NFKD, full case folding, NFKD): "ß" is "ss", "ﬁ" is "fi",
  "Ａ" is "a", "²" is "2". If that is not all letters, marks and numbers ("½", with a slash), it is only decomposed
  (NFD). The iota subscript stays a mark. Marks follow a letter in canonical order, so copies in NFC and in NFD have
  the same words. Accents count.
- **Apostrophes**, straight and curly ones and the letters that look like them (U+02B9 to U+02BF, U+02EE and others),
  part words: "don't" is "don", "t", however it is set.
- **Characters that show nothing** (category Cf, such as soft hyphens and joiners; variation selectors; fillers)
  and the Arabic tatweel neither part nor enter a word.
- **Scripts without spaces.** An ideograph, a kana, and a letter of a script such as Thai, Lao, Khmer and Myanmar is a
  word of its own, with the marks after it, as in the default of UAX 29 (kana apart, which it joins).
- Everything else parts words: punctuation, symbols, emoji, ™. A mark begins no word. A symbol that is another form of
  one ideograph (a radical) is that ideograph.

`split_words` and `hash_word` are the definition; `corpora.text.word_kernels` hashes the words of a column. Two words
of up to eight bytes, folded, never share a hash; any other two do by chance with probability 2**-64. Not promised:
safety from someone who builds collisions on purpose. What a letter is, the Unicode tables of Python say, so their
version belongs to what is built of words (`unicodedata.unidata_version`).

Cost: 0.5 MB a second; the kernels some hundreds. The tables, 0.8 MB and those pages of 4.5 MB that are
looked at, are made in 0.4 s, once for all processes: the others read them in 5 ms.
"""
# ruff: noqa: RUF002 - typographic marks are the subject here

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import accumulate, chain
from typing import NamedTuple
from unicodedata import category, combining, normalize, unidata_version

import numpy as np

from corpora.kernels.array_cache import Arrays, read_or_make_arrays
from corpora.kernels.arrays import Int32s, UInt32s, UInt64s
from corpora.kernels.hashing import absorb_plain
from corpora.text.normal_form import to_nfc

WORDS_VERSION = 2  # of the rule: it belongs to what is built of words

OUTSIDE, INSIDE, MARK, SPACELESS, HIDDEN = range(5)
# Odd, with well spread bits: pi as a binary fraction, made odd.
EMPTY_WORD = np.uint64(0x243F6A8885A308D3)

_CODE_POINTS, _PAIRS = 0x110000, 0x800
_BLOCK = 256
_ASSIGNED = (range(0x33480), range(0xE0000, 0xE1000))  # what is beyond is private or nothing
# Scripts that are written without spaces between words.
_SPACELESS_RANGES = (
    (0x0E01, 0x0EDF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17D7),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAD),  # Tai Tham
    (0x1B05, 0x1B4C),  # Balinese
    (0x3005, 0x3007),  # ideographic iteration mark and zero
    (0x3021, 0x312F),  # Hangzhou numerals, kana, bopomofo
    (0x31A0, 0x31FF),  # bopomofo, kana
    (0x3400, 0x9FFF),  # ideographs
    (0xA000, 0xA48C),  # Yi
    (0xA984, 0xA9B2),  # Javanese
    (0xA9E0, 0xA9FE),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),  # ideographs
    (0xFF66, 0xFF9D),  # kana
    (0x11700, 0x1174F),  # Ahom
    (0x12000, 0x1254F),  # cuneiform
    (0x13000, 0x143FA),  # Egyptian hieroglyphs
    (0x14400, 0x1467F),  # Anatolian hieroglyphs
    (0x16FE0, 0x18DFF),  # Tangut, Khitan
    (0x1AFF0, 0x1B2FF),  # kana, Nüshu
    (0x20000, 0x3FFFF),  # ideographs
)
_APOSTROPHES = frozenset(map(chr, [*range(0x2B9, 0x2C0), 0x2EE, 0x559, 0x7F4, 0x7F5, 0xA78B, 0xA78C]))
_IOTA_SUBSCRIPT = "\u0345"
_FILLERS = (0x34F, 0x640, 0x115F, 0x1160, 0x17B4, 0x17B5)
_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_HIDDEN = frozenset(map(chr, chain(_FILLERS, *_SELECTORS)))


class WordTables(NamedTuple):
    """Lookup tables that the word kernels use for every code point.

    entries: uint32 [0x110000]: the kind in the lowest three bits, and above them the character's row in `forms`; row 0
        is for all characters that stay unchanged and do not start with an ordered mark
    forms:   uint64 [rows, 2]: the UTF-8 of the folded character, lowest byte first
    shapes:  uint32 [rows]: the number of these bytes, then the combining classes of the folded form's first and last
        character, in eight bits each
    pairs:   uint32 [0x800]: the folded bytes, lowest first, of each two-byte character that is INSIDE and folds to a
        two-byte character without a combining class; 0 for all others
    starts:  int32 [rows + 1]: the index in `codes` of each row's first code point; `orders` has the combining classes
        of these code points
    """

    entries: UInt32s
    forms: UInt64s
    shapes: UInt32s
    pairs: UInt32s
    starts: Int32s
    codes: Int32s
    orders: Int32s


def _flag_members(ranges: Iterable[tuple[int, int]]) -> bytearray:
    """Return a bytearray with a 1 for each code point below 0x40000 that is in one of the ranges, otherwise 0.

    Both ends of a range are inclusive.
    """
    members = bytearray(0x40000)
    for first, last in ranges:
        members[first : last + 1] = b"\1" * (last + 1 - first)
    return members


_IS_SPACELESS = _flag_members(_SPACELESS_RANGES)


def is_hidden(character: str) -> bool:
    """Return True if a character is invisible by itself, so that it does not interrupt a word."""
    return character in _HIDDEN or category(character) == "Cf"


def is_spaceless(character: str) -> bool:
    """Return True if a letter or number belongs to a script that is written without spaces."""
    code = ord(character)
    return code < len(_IS_SPACELESS) and _IS_SPACELESS[code] == 1 and category(character)[0] in "LN"


@lru_cache(maxsize=1 << 14)
def fold(character: str) -> str:
    """Fold a character to the form used in words, decomposed and case-folded. Return "" if it is never part of a word.

    >>> [fold(character) for character in "AßﬁＡ²½ſ”™"]
    ['a', 'ss', 'fi', 'a', '2', '½', 's', '', '']
    """
    full = normalize("NFKD", _fold_case(normalize("NFKD", character)))
    if full == character:
        return character if _is_word_character(character) else ""
    full = _trim_to_word(full)
    if category(character)[0] not in "LMN":
        return full if len(full) == 1 and is_spaceless(full) else ""
    canonical = _trim_to_word(normalize("NFD", _fold_case(normalize("NFD", character))))
    return next((form for form in (full, canonical) if _is_piece(form)), _trim_to_word(normalize("NFD", character)))


def _fold_case(form: str) -> str:
    """Case-fold a string, except for the iota subscript. (As a letter, it could not be ordered among other marks.)"""
    return "".join(character if character == _IOTA_SUBSCRIPT else character.casefold() for character in form)


def _is_word_character(character: str) -> bool:
    return category(character)[0] in "LMN" and character not in _APOSTROPHES and character not in _HIDDEN


def _trim_to_word(form: str) -> str:
    """Remove invisible characters from a string, and at both ends all characters that are never part of a word."""
    shown = [character for character in form if not is_hidden(character)]
    inside = [at for at, character in enumerate(shown) if _is_word_character(character)]
    return "".join(shown[inside[0] : inside[-1] + 1]) if inside else ""


def _is_piece(form: str) -> bool:
    """Return True if a string contains at most one word."""
    return all(map(_is_word_character, form)) and not any(map(is_spaceless, form[1:]))


@lru_cache(maxsize=1 << 14)
def find_character_kind(character: str) -> int:
    """Return how words treat a character: OUTSIDE, INSIDE, MARK (inside, but never first), SPACELESS or HIDDEN."""
    if is_hidden(character):
        return HIDDEN
    form = fold(character)
    if not form:
        return OUTSIDE
    return MARK if category(form[0])[0] == "M" else SPACELESS if is_spaceless(form[0]) else INSIDE


def split_words(text: str) -> list[str]:
    """Split a text into folded words, in order.

    >>> split_words("The “CAFÉ”, he\\nsaid -- isn’t   it?") == split_words("the café he SAID isn't it")
    True
    >>> split_words("Straße, ﬁn de 世纪")
    ['strasse', 'fin', 'de', '世', '纪']
    """
    return [normalize("NFD", to_nfc(word)) for word in _iter_words(text)]


def _iter_words(text: str) -> Iterator[str]:
    """Yield the folded words, with their marks in the order of the text."""
    word, first_kind = "", OUTSIDE
    for character in text:
        kind = find_character_kind(character)
        if kind == HIDDEN:
            continue
        if word and (kind == MARK or kind == first_kind == INSIDE):
            word += fold(character)
            continue
        if word:
            yield word
        word, first_kind = (fold(character), kind) if kind in (INSIDE, SPACELESS) else ("", OUTSIDE)
    if word:
        yield word


def hash_word(word: bytes) -> int:
    """Compute the 64-bit hash of a folded word, given in UTF-8, by mixing in eight bytes (little-endian) at a time."""
    state = int(EMPTY_WORD)
    for at in range(0, len(word), 8):
        state = absorb_plain(state, int.from_bytes(word[at : at + 8], "little"))
    return state


# The tables.


@cache
def read_word_tables() -> WordTables:
    """Return the results of `find_character_kind` and `fold` for all code points, cached in memory and on disk.

    Memory pages of the arrays that are never accessed take no memory.
    """
    kept = read_or_make_arrays(f"words {WORDS_VERSION}, Unicode {unidata_version}", __file__, make_tables)
    assigned, entries = kept.pop("assigned"), np.zeros(_CODE_POINTS, np.uint32)
    for codes in _ASSIGNED:
        entries[codes.start : codes.stop], assigned = assigned[: len(codes)], assigned[len(codes) :]
    entries.flags.writeable = False
    return WordTables(entries=entries, **kept)


def make_tables() -> Arrays:
    """Compute the arrays of `WordTables`, by name.

    Instead of `entries`, the result contains "assigned": the entries of the code points in `_ASSIGNED`, in order.
    """
    entries, forms = list[int](), [""]
    for block in (codes[at : at + _BLOCK] for codes in _ASSIGNED for at in range(0, len(codes), _BLOCK)):
        text = "".join(map(chr, block))
        if _is_plain(text):
            entries += [SPACELESS if is_spaceless(character) else INSIDE for character in text]
            continue
        for character in text:
            entry = find_character_kind(character)
            if entry in (INSIDE, MARK, SPACELESS) and ((form := fold(character)) != character or combining(character)):
                entry |= len(forms) << 3
                forms.append(form)
            entries.append(entry)
    codes = [ord(character) for form in forms for character in form]
    return {
        "assigned": np.array(entries, np.uint32),
        "forms": np.array([_to_utf8_words(form) for form in forms], np.uint64),
        "shapes": np.array([_pack_shape(form) for form in forms], np.uint32),
        "pairs": np.array([_find_pair(chr(code)) for code in range(_PAIRS)], np.uint32),
        "starts": np.array([0, *accumulate(map(len, forms))], np.int32),
        "codes": np.array(codes, np.int32),
        "orders": np.array([combining(chr(code)) for code in codes], np.int32),
    }


def _is_plain(text: str) -> bool:
    """Return True if all characters are letters that folding does not change, as in most blocks of ideographs."""
    letters = set(map(category, text)) == {"Lo"} and _HIDDEN.isdisjoint(text)
    return letters and text == normalize("NFKD", text) == text.casefold()


def _to_utf8_words(form: str) -> tuple[int, int]:
    """Return the UTF-8 of a string, at most 16 bytes, as two 64-bit integers, lowest byte first."""
    raw = form.encode()
    assert len(raw) <= 16
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


def _find_pair(character: str) -> int:
    """Return a character's entry in `WordTables.pairs`: its folded two bytes as an integer, or 0."""
    form = fold(character)
    plain = len(form) == 1 and len(form.encode()) == 2 <= len(character.encode()) and not combining(form)
    return int.from_bytes(form.encode(), "little") if plain and find_character_kind(character) == INSIDE else 0


def _pack_shape(form: str) -> int:
    """Return the entry in `WordTables.shapes` for a folded form: its size and two combining classes, of 8 bits each."""
    return len(form.encode()) | combining(form[0]) << 8 | combining(form[-1]) << 16 if form else 0
