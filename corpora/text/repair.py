"""ftfy's repair of text, in time linear in it.

Promise: `repair` equals `ftfy.fix_text` wherever that reads no line more than `MAX_READINGS` times. ftfy repeats its
fixes until they change nothing, and those of mojibake within each repetition, so a line that is made for it
(`&amp;amp;amp;...`, a letter that each repair makes again of the next two) is read as often as it is long. Here the
characters are counted that are read of a line, and once they are `MAX_READINGS` times its own, it stays as the fixes
before have left it; it is in NFC and without control characters nonetheless. That is beyond 24 escapes within each
other in a long line, and more in a short one, for each reading is shorter than the one before. What is decoded as
"utf-8-variants" is decoded as ftfy does it, in one piece. The default options of ftfy for encodings are taken as given.

Cost: ftfy's own for text that means something, some 5 MB a second; at worst 5 s a megabyte.

Curly quotes made straight, as ftfy does it: ʼ ‘ ’ ‚ ‛ to ' and “ ” „ ‟ to ".

Cost: one pass over the bytes, and a copy of them.
"""

import re
from typing import NamedTuple

import numpy as np
from ftfy import TextFixerConfig, fixes
from ftfy.badness import is_bad
from ftfy.chardata import ALTERED_UTF8_RE, C1_CONTROL_RE, CHARMAP_ENCODINGS, UTF8_DETECTOR_RE, possible_encoding

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.text.normal_form import to_nfc

MAX_READINGS = 50  # of a line; text that was encoded wrongly four times, and escaped as often, takes 20
_AFTER_DECODING = (
    "fix_c1_controls",
    "fix_latin_ligatures",
    "fix_character_width",
    "uncurl_quotes",
    "fix_line_breaks",
    "fix_surrogates",
    "remove_terminal_escapes",
    "remove_control_chars",
)


class RepairedText(NamedTuple):
    """A repaired text.

    `given_up` is the number of lines that were decoded MAX_READINGS times and might still be repaired further.
    """

    text: str
    given_up: int = 0


class _ReadingBudget:
    """The number of characters that may still be decoded for a line. It makes the repair of a line take linear time."""

    def __init__(self, line: str) -> None:
        self._left = MAX_READINGS * len(line)

    @property
    def is_spent(self) -> bool:
        """True if more characters were used than the budget allows."""
        return self._left < 0

    def take(self, text: str) -> bool:
        """Subtract a text's length from the budget. Return True if the budget was sufficient."""
        self._left -= len(text)
        return not self.is_spent


def repair(text: str, config: TextFixerConfig) -> RepairedText:
    r"""Repair a text line by line with ftfy's fixes, as `ftfy.fix_text` does.

    Args:
        text: The text.
        config: ftfy's options, with normalization "NFC" and without explanation.

    >>> repair("cafÃ© &amp;lt;\n", TextFixerConfig(explain=False))
    RepairedText(text='café <\n', given_up=0)
    """
    assert config.normalization == "NFC" and not config.explain
    lines, at, given_up = [], 0, 0
    while at < len(text):
        end = text.find("\n", at, at + config.max_decode_length) + 1 or min(at + config.max_decode_length, len(text))
        line = text[at:end]
        if config.unescape_html == "auto" and "<" in line:
            config = config._replace(unescape_html=False)
        readings = _ReadingBudget(line)
        lines.append(_repair_line(line, config, readings))
        given_up += readings.is_spent
        at = end
    return RepairedText("".join(lines), given_up)


def _repair_line(line: str, config: TextFixerConfig, readings: _ReadingBudget) -> str:
    """Apply all fixes repeatedly until the line no longer changes or the budget is spent. Return the line."""
    while readings.take(line):
        before = line
        if config.unescape_html:
            line = fixes.unescape_html(line)
        line = _decode(line, readings)
        for name in _AFTER_DECODING:
            if getattr(config, name):
                line = getattr(fixes, name)(line)
        line = to_nfc(line)
        if line == before:
            break
    return line


def _decode(text: str, readings: _ReadingBudget) -> str:
    """Decode a text in its intended encoding, as `ftfy.fix_encoding` does.

    It is decoded repeatedly until it no longer changes or the budget is spent.
    """
    while readings.take(text):
        before = text
        text = _decode_once(text, readings)
        if text == before:
            break
    return text


def _decode_once(text: str, readings: _ReadingBudget) -> str:
    """Apply the first of ftfy's repairs that changes the text, and return the result; the text itself if none does.

    The repairs decode the whole text, then the parts of it that are encoded differently, then control characters.
    """
    if text.isascii() or not is_bad(text):
        return text
    possible = [encoding for encoding in CHARMAP_ENCODINGS if possible_encoding(text, encoding)]
    for encoding in possible:
        try:
            return _decode_utf8(_restore_lost_bytes(text.encode(encoding), encoding))
        except UnicodeDecodeError:
            continue
    pieces = _decode_pieces(text, readings)
    if pieces != text:
        return pieces
    if "latin-1" in possible:
        try:
            meant = text.encode("latin-1").decode("windows-1252")
        except UnicodeDecodeError:
            meant = text
        if meant != text:
            return meant
    return str(fixes.fix_c1_controls(text)) if C1_CONTROL_RE.search(text) else text


def _restore_lost_bytes(data: bytes, encoding: str) -> bytes:
    """Restore bytes of UTF-8 text that other programs removed or replaced with spaces.

    `encoding` is the name of the encoding from which the bytes were obtained. It decides which repairs apply.
    """
    if encoding != "macroman" and ALTERED_UTF8_RE.search(data):
        data = fixes.restore_byte_a0(data)
    return bytes(fixes.replace_lossy_sequences(data)) if encoding.startswith("sloppy") else data


def _decode_utf8(data: bytes) -> str:
    """Decode UTF-8, including Java's encoding of NUL and of surrogate pairs.

    Raises:
        UnicodeDecodeError: If the bytes are not valid.
    """
    if 0xED not in data and 0xC0 not in data:
        return data.decode()
    halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _decode_pieces(text: str, readings: _ReadingBudget) -> str:
    """Decode each part of a text that looks like wrongly decoded UTF-8, like ftfy's `decode_inconsistent_utf8`.

    `readings` is the budget of characters that may still be decoded.
    """

    def meant(match: re.Match[str]) -> str:
        piece = match[0]
        is_part = len(piece) < len(text) and not readings.is_spent  # of the whole text we come from there
        return _decode(piece, readings) if is_part and is_bad(piece) else piece

    return str(UTF8_DETECTOR_RE.sub(meant, text))


# ruff: noqa: RUF002 - typographic marks are the subject here


@kernel
def replace_curly_quotes(data: Bytes, offsets: Int64s) -> tuple[Bytes, Int64s]:
    """Replace the curly quotes in a column with straight quotes.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.

    Returns:
        New bytes and new offsets, which start at 0.
    """
    out = np.empty(offsets[-1] - offsets[0], np.uint8)
    ends = np.zeros(offsets.size, np.int64)
    size = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            byte, width = data[at], 1
            if byte == 0xCA and data[at + 1] == 0xBC:  # U+02BC
                byte, width = np.uint8(39), 2
            elif byte == 0xE2 and data[at + 1] == 0x80 and 0x98 <= data[at + 2] <= 0x9F:  # U+2018 to U+201F
                byte, width = np.uint8(39 if data[at + 2] < 0x9C else 34), 3
            out[size] = byte
            size += 1
            at += width
        ends[row + 1] = size
    return out[:size], ends
