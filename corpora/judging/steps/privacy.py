"""Privacy: e-mail addresses, public IP addresses and telephone numbers replaced by ones that are nobody's.

Promise: `mask_private` equals `mask_text`, the definition, row by row, and takes time linear in the text. What
counts as private is defined in `corpora.judging.steps.private_patterns`. Every kind is off unless asked for.

A replacement is by default an address or number that the standards keep for examples (RFC 2606, RFC 5737, the
North American 555-01xx), not a tag such as "<EMAIL>": what an encoder learns of the surroundings of an address
then holds for real ones, no vocabulary has to know the tag and none cuts it into brackets and letters, the
cleaning profiles keep it, and a replacement is not masked again, unless digits that followed a number make a longer
one of it ("tel: +1 202-555-0100 1234"). Set another where it must be recognizable.

In 54 MB of books, web pages, news and encyclopedias 270 e-mail addresses, 15 IP addresses and 139 telephone
numbers are masked; nearly all were looked at, and none of those is something else. Numbers are missed that have no code
and no word before them that says what they are (1800 819 817, 408 853 9754).

Cost: 470 MB a second on books; lines that hold such things run at the patterns' 2 MB a second. What a public IP
address is follows the tables of Python's `ipaddress`, which newer versions of Python correct.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.judging.steps.private_kernels import EMAIL, IP, PHONE, byte_signs, private_lines
from corpora.judging.steps.private_patterns import KINDS, private_spans
from corpora.text.buffers import text_buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalDataSettings:
    """Settings for masking personal data, by kind. A replacement may be empty.

    email, ip, phone:  whether e-mail addresses, public IP addresses and telephone numbers are masked
    email_replacement: what is put in the place of an e-mail address
    ip_replacement:    of an IP address
    phone_replacement: of a telephone number
    """

    email: bool = False
    ip: bool = False
    phone: bool = False
    email_replacement: str = "email@example.com"
    ip_replacement: str = "192.0.2.1"
    phone_replacement: str = "+1 202-555-0100"

    def __post_init__(self) -> None:
        for kind, replacement in zip(KINDS, self.replacements, strict=True):
            if "\n" in replacement:
                raise InputError(f"personal_data.{kind}_replacement has a line break in it: it must be of one line.")

    @property
    def kinds(self) -> tuple[bool, bool, bool]:
        """Tells for each of KINDS whether it is masked."""
        return self.email, self.ip, self.phone

    @property
    def replacements(self) -> tuple[str, str, str]:
        """The replacement for each of KINDS."""
        return self.email_replacement, self.ip_replacement, self.phone_replacement


def mask_text(text: str, settings: PersonalDataSettings, language: str = "en") -> tuple[str, dict[str, int]]:
    """The definition: one text with all that is private replaced, and how often each kind was.

    >>> mask_text("Write to ann.lee@uni.edu.", PersonalDataSettings(email=True))
    ('Write to email@example.com.', {'email': 1})
    """
    counts: dict[str, int] = {}
    lines = [_mask_line(line, settings, settings.kinds, counts, language) for line in text.split("\n")]
    return "\n".join(lines), _in_order(counts)


def _mask_line(
    line: str, settings: PersonalDataSettings, kinds: tuple[bool, bool, bool], counts: dict[str, int], language: str
) -> str:
    """One line masked; what was replaced is added to the counts."""
    pieces, copied = [], 0
    for start, end, kind in private_spans(line, kinds, language):
        pieces += [line[copied:start], settings.replacements[kind]]
        copied = end
        counts[KINDS[kind]] = counts.get(KINDS[kind], 0) + 1
    return "".join([*pieces, line[copied:]])


def _in_order(counts: dict[str, int]) -> dict[str, int]:
    """The counts in the order of KINDS."""
    return {kind: counts[kind] for kind in KINDS if kind in counts}


def mask_private(
    texts: pa.Array, settings: PersonalDataSettings, languages: Sequence[str] | None = None
) -> tuple[pa.Array, dict[str, int]]:
    """A large_string column without nulls masked, `mask_text` of every row, and how often each kind was replaced.

    languages: of the rows; None: all are in English

    Raises InputError for another type of column or for nulls.
    """
    data, offsets = text_buffers(texts)
    wanted = sum(bit for bit, on in zip((EMAIL, IP, PHONE), settings.kinds, strict=True) if on)
    lines = np.stack(private_lines(data, offsets, wanted, byte_signs()), 1).tolist() if wanted else []
    pieces: list[bytes | memoryview] = []
    grown, counts = np.zeros(offsets.size, np.int64), dict[str, int]()
    copied = int(offsets[0])
    for row, start, end, bits in lines:
        kinds = (bool(bits & EMAIL), bool(bits & IP), bool(bits & PHONE))
        language = languages[row] if languages else "en"
        masked = _mask_line(str(data.data[start:end], "utf-8"), settings, kinds, counts, language).encode()
        pieces += (data.data[copied:start], masked)
        grown[row + 1] += len(masked) - (end - start)
        copied = end
    if not counts:
        return texts, {}
    pieces.append(data.data[copied : int(offsets[-1])])
    ends = offsets - offsets[0] + np.cumsum(grown)
    column = pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(pieces)))
    return column, _in_order(counts)
