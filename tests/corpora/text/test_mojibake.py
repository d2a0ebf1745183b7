"""The gate before ftfy: no line that repair would change is let through."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import sys
import unicodedata
from itertools import product

import numpy as np
import pyarrow as pa
from ftfy import fix_text
from ftfy.badness import BADNESS_RE, MOJIBAKE_CATEGORIES
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

from corpora.judging.steps.clean import CleanSettings, build_fixer_config
from corpora.kernels.arrays import Bools
from corpora.text.buffers import to_text_buffers
from corpora.text.mojibake import find_suspect_lines, read_line_signs


def flagged(texts: list[str]) -> Bools:
    """Which of some one-line texts the gate hands to ftfy."""
    rows = find_suspect_lines(*to_text_buffers(pa.array(texts, pa.large_string())), *read_line_signs())[0]
    return np.isin(np.arange(len(texts)), rows)


def test_every_character_that_cleaning_changes_alone_is_flagged() -> None:
    # Ideographs and syllables, 98,000 of them, are left to the test below: ftfy has nothing to say about them.
    codes = [*range(0x20, 0x2028), *range(0x202A, 0x3400), *range(0xA000, 0xAC00), *range(0xE000, 0x13460)]
    lines = [f"a{chr(code)}b" for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Co")]
    gate, config = flagged(lines), build_fixer_config(CleanSettings())
    passed = [line for line, suspect in zip(lines, gate, strict=True) if not suspect]
    assert [line for line in passed if fix_text(line, config) != line] == []
    assert 1000 < np.count_nonzero(gate) < 3000


def test_every_character_that_normalisation_changes_or_joins_is_flagged() -> None:
    characters = [chr(code) for code in range(0x20, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    moved = [one for one in characters if unicodedata.combining(one) or not unicodedata.is_normalized("NFC", one)]
    apart = [unicodedata.normalize("NFD", one) for one in characters]
    joined = [text for text in apart if len(text) > 1 and not unicodedata.is_normalized("NFC", text)]
    assert len(moved) > 1500
    assert len(joined) > 11_172  # all syllables of Hangul and the accented letters
    assert flagged([f"a{one}" for one in moved] + joined).all()


def test_every_pair_that_looks_like_mojibake_is_flagged() -> None:
    members = "".join(MOJIBAKE_CATEGORIES.values()) + "ÂÃŒœ×à√≈‚Äâóβā€В"
    characters = sorted({character for character in members if character > "\x7f"})
    lines = [f"{lead}{one}{other}{tail}" for one, other in product(characters, repeat=2) for lead, tail in ("aa", "  ")]
    lines += [f"{lead}{one}{tail}" for one in characters for lead, tail in product("aA ., ", "aA ., ")]
    gate = flagged(lines)
    missed = [line for line, suspect in zip(lines, gate, strict=True) if not suspect and BADNESS_RE.search(line)]
    assert missed == []
    assert sum(BADNESS_RE.search(line) is not None for line in lines) > 10_000


@examples(300)
@given(st.text(st.sampled_from(sorted({*"".join(MOJIBAKE_CATEGORIES.values()), *"aZ .?ÂÃŒœÐÎ×àØÙ‚€"} - {"-"}))))
@example("œ")
@example("Â ")
def test_lines_that_ftfy_takes_for_mojibake_are_flagged(line: str) -> None:
    assert flagged([line + "\n"])[0] or not BADNESS_RE.search(line + "\n")
