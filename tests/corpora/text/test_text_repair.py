"""Repair, against ftfy, and what becomes of lines that would be read too often."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from ftfy import TextFixerConfig, fix_text
from hypothesis import example, given
from hypothesis import strategies as st

from corpora.text import repair as module
from corpora.text.repair import MAX_READINGS, RepairedText, repair

KEPT = TextFixerConfig(explain=False, uncurl_quotes=False, fix_character_width=False)
AS_IT_COMES = TextFixerConfig(explain=False)
ENCODINGS = ("latin-1", "sloppy-windows-1252", "sloppy-windows-1251", "macroman", "cp437")
PIECES = [*"ÃÂâ€™ƒ\x83ðŸœï¿½í\xa0\x80Àµ aé"]
PIECES += ["&amp;", "&amp;lt;", "amp;", "&semi;", "&#38;", "<", "\n", "\ud83d", "\udca9", "ﬁ", "\u0301", "\u0316", "日"]
PIECES += ["\x1b[1m", "\x1a", "\ufffd", "?", "’", "ｆ", "я", "\x85", "\x07"]
NESTED = "&" + "amp;" * 40_000
MADE_AGAIN = "x Ã" + "ƒ" * 40_000  # Ã and ƒ are Ã once they are decoded
HALVES = "Ã©" + "í\xa0½í²©" * 100  # half characters as bytes, which ftfy has a codec for


def misread(text: str, encodings: list[str]) -> str:
    """A text that went through the wrong encodings, one after another, as far as it goes."""
    for encoding in encodings:
        try:
            text = text.encode("utf-8", "surrogatepass").decode(encoding)
        except UnicodeDecodeError:
            break
    return text


TEXTS = st.lists(
    st.builds(
        misread,
        st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
        st.lists(st.sampled_from(ENCODINGS), max_size=3),
    ),
    max_size=4,
).map("".join)


@given(TEXTS | st.text(), st.sampled_from([KEPT, AS_IT_COMES]))
@example(HALVES, KEPT)
@example("&amp;\n<&amp;\n&amp;", KEPT)
def test_it_is_ftfys_own(text: str, config: TextFixerConfig) -> None:
    """Fails if one of its fixes is done otherwise, or in another order, than `ftfy.fix_text` does it."""
    assert repair(text, config) == RepairedText(fix_text(text, config), 0)


def test_escapes_within_each_other_are_read_as_far_as_it_is_promised() -> None:
    """Fails if 24 of them are not read in a long line, or a line that could be repaired is said to be given up."""
    line = "x" * 10_000 + "&" + "amp;" * 24
    assert repair(line, KEPT) == RepairedText("x" * 10_000 + "&", 0)
    given_up = repair(f"{line}amp;amp;\nÃ©\n", KEPT)
    assert given_up.given_up == 1 and given_up.text.endswith("amp;\né\n")


@pytest.mark.parametrize(
    "hostile", [NESTED, MADE_AGAIN, "&amp" + "&semi" * 40_000 + ";"], ids=["escapes", "letter", "semicolons"]
)
def test_no_line_is_read_more_often_than_it_may(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a line is read as often as it is long, which takes minutes."""
    read = 0

    def counting(reads: Callable[[str], Any]) -> Callable[[str], Any]:
        def counted(text: str) -> Any:
            nonlocal read
            read += len(text)
            return reads(text)

        return counted

    monkeypatch.setattr(module, "is_bad", counting(module.is_bad))
    monkeypatch.setattr(module, "to_nfc", counting(module.to_nfc))
    repaired = repair(hostile, KEPT)
    assert repaired.given_up == 1 and unicodedata.is_normalized("NFC", repaired.text)
    assert 20 * len(hostile) < read <= (MAX_READINGS + 1) * len(hostile)
