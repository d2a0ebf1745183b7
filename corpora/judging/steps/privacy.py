r"""Privacy: replace e-mail addresses, public IP addresses and telephone numbers with ones that belong to nobody.

Promise: `mask_private` equals `mask_text`, the definition, row by row, and takes time linear in the text. What
counts as private is defined in `corpora.judging.steps.privacy`. Every kind is off unless asked for.

A replacement is by default an address or number that the standards keep for examples (RFC 2606, RFC 5737, the
North American 555-01xx), not a tag such as "<EMAIL>": what an encoder learns of the surroundings of an address
then holds for real ones, no vocabulary has to know the tag and none cuts it into brackets and letters, the
cleaning profiles keep it, and a replacement is not masked again, unless digits that followed a number make a longer
one of it ("tel: +1 202-555-0100 1234"). Set another if it must be recognizable.

In 54 MB of books, web pages, news and encyclopedias 270 e-mail addresses, 15 IP addresses and 139 telephone
numbers are masked; nearly all were looked at, and none of those is something else. Numbers are missed that have no code
and no word before them that says what they are (1800 819 817, 408 853 9754).

Cost: 470 MB a second on books; lines that hold such things run at the patterns' 2 MB a second. What a public IP
address is follows the tables of Python's `ipaddress`, which newer versions of Python correct.

Finds what identifies a person in a line of text: e-mail addresses, public IP addresses, telephone numbers.

Promise: `find_private_spans` is the definition. It takes time linear in the line's length whatever is in it, for
no pattern repeats without a bound. Two spans never overlap: an e-mail address comes before an IP address, and
that before a telephone number.

Left as they are, since they are nobody's: e-mail at example.com and its kin (RFC 2606), IP addresses that are
not public (`ipaddress` decides: private, loopback, link-local, documentation, multicast, reserved), numbers
555-0100 to 555-0199 of North America (kept for fiction). Four numbers below 100 (12.5.3.1), or numbers after
"version", "section" and the like, are taken for a version or a section: 2 % of all addresses have no number
above 99.

A telephone number is one of: `+` or `00` and a country code that exists; the forms of North America; of
Britain, France and Germany with their leading 0; or seven digits and more after "tel", "phone", "fax" and
such. In a document of another language than English the forms of `_LANGUAGE_FORMS` are added, and its words for a
telephone. Seven digits or bare groups of digits without any of these are not taken for one: in books and articles
they are something else.

Cost: 2 MB a second, so `corpora.judging.steps.private_kernels` finds the lines that are worth it.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.judging.steps.private_kernels import EMAIL, IP, PHONE, build_byte_signs, find_private_lines
from corpora.text.buffers import to_text_buffers

KINDS = ("email", "ip", "phone")


class Span(NamedTuple):
    """A span of private data in a line: its start and end as character indices, and its kind as an index into KINDS."""

    start: int
    end: int
    kind: int


def find_private_spans(
    line: str, kinds: tuple[bool, bool, bool] = (True, True, True), language: str = "en"
) -> list[Span]:
    """Find the private data in a string without line breaks.

    Args:
        line: The string.
        kinds: Whether to look for each of KINDS (e-mail addresses, IP addresses, telephone numbers).
        language: ISO 639 code of the document. Languages other than English have more telephone number formats.

    Returns:
        Spans in order, without overlaps.

    >>> line = "Ask ann@uni.edu or (212) 736-5000."
    >>> [line[start:end] for start, end, _ in find_private_spans(line)]
    ['ann@uni.edu', '(212) 736-5000']
    """
    spans: list[Span] = []
    taken = bytearray(len(line))
    finders: tuple[Callable[[str], _Spans], ...] = (
        _find_emails,
        _find_ip_addresses,
        partial(_find_phones, language=language),
    )
    for kind, (is_wanted, find_spans) in enumerate(zip(kinds, finders, strict=True)):
        for start, end in find_spans(line) if is_wanted else ():
            if taken.find(1, start, end) < 0:
                taken[start:end] = b"\1" * (end - start)
                spans.append(Span(start, end, kind))
    return sorted(spans)


_Spans = Iterator[tuple[int, int]]

# E-mail. The part after the @ is a pattern, the one before it is read backwards: RFC 5321 allows it 64 bytes.

_LOCAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+'-"
_LOCAL_EDGE = "._%+'-"
_DOMAIN = re.compile(r"@((?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}([A-Za-z]{2,24}))(?![A-Za-z0-9@])")
_RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:com|net|org)|(?:example|test|invalid|localhost))$", re.IGNORECASE)
_FILE_ENDINGS = frozenset("png jpg jpeg gif svg webp pdf css js html htm php".split())  # icon@2x.png


def _find_emails(line: str) -> _Spans:
    """Yield the spans of e-mail addresses in a line, as (start, end), without addresses reserved for examples."""
    for match in _DOMAIN.finditer(line):
        head = line[max(match.start() - 65, 0) : match.start()]
        local = head[len(head.rstrip(_LOCAL)) :].lstrip(_LOCAL_EDGE)
        sound = 0 < len(local) <= 64 and ".." not in local and local[-1] != "."
        if sound and match[2].lower() not in _FILE_ENDINGS and not _RESERVED.search(match[1]):
            yield match.start() - len(local), match.end()


# IP addresses.

_IPV4 = re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])")
_IPV6 = re.compile(r"(?<![\w:.])[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,34}(?:\.[0-9.]{5,11})?(?![\w:])")
_VERSION = re.compile(
    r"(?:\b(?:v|ver|version|vers|release|build|firmware|kernel|rev|revision|update|section|sec|chapter|clause"
    r"|article|part|rule|para|paragraph|appendix|annex|table|figure|fig|item|step|no)|§|§§)\.?[ :]{0,2}$",
    re.IGNORECASE,
)


def _find_ip_addresses(line: str) -> _Spans:
    """Yield the spans of public IP addresses in a line, as (start, end).

    IPv6 addresses are found only in 2000::/3, where all public ones are.
    """
    for match in _IPV4.finditer(line):
        large = any(len(number) == 3 for number in match[0].split("."))
        if large and _is_public(match[0]) and not _VERSION.search(line[max(match.start() - 16, 0) : match.start()]):
            yield match.span()
    for match in _IPV6.finditer(line):
        text = match[0].rstrip(".")
        text = text[:-1] if text.endswith(":") and not text.endswith("::") else text
        if _is_public(text):
            yield match.start(), match.start() + len(text)


def _is_public(text: str) -> bool:
    """Return True if a string is an IP address that is reachable from the whole internet."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


# Telephone numbers. Between two digits is nothing or one separator; digits and separators are those that
# `corpora.judging.steps.private_kernels` counts.

_DASH = r"\-\u2010\u2011\u2013"
_SPACE = " \u00a0"
_GAP = (
    rf"(?:[{_SPACE}]?[{_DASH}/][{_SPACE}]?|[{_SPACE}.]|[{_SPACE}]?\(0\)[{_SPACE}]?|[{_SPACE}]?\(|\)[{_SPACE}{_DASH}]?)?"
)
# E.164 country codes: of one, two and three digits.
_COUNTRY = (
    r"(?:7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|2[1-689][0-9]|3[578][0-9]|42[0-9]|5[09][0-9]"
    r"|6[7-9][0-9]|8[0578][0-9]|9[67][0-9]|99[2-68])"
)
_AREA = _EXCHANGE = "[2-9](?!11)[0-9]{2}"
_BEFORE, _AFTER = r"(?<![\w.+\-/$€£¥#@%=&,])", rf"(?![\w@%°]|[{_DASH}.,:/][0-9]|[{_SPACE}]?[$€£])"
# No number: clauses 252.2xx-7xxx of the American rules of procurement, frequent in contracts.
_AMERICAN = [
    rf"(?:\+?1[{_SPACE}.{_DASH}]?)?\({_AREA}\)[{_SPACE}]?[{_DASH}]?[{_SPACE}]?{_EXCHANGE}[{_SPACE}.{_DASH}][0-9]{{4}}",
    rf"(?:1[{_SPACE}.{_DASH}/])?(?!252\.2[0-9]{{2}}-7){_AREA}[{_SPACE}.{_DASH}/]{_EXCHANGE}[.{_DASH}][0-9]{{4}}",
]
_EUROPEAN = [
    rf"(?<![0-9][{_SPACE}.{_DASH}])0[1-9]([{_SPACE}.{_DASH}])[0-9]{{2}}\1[0-9]{{2}}\1[0-9]{{2}}\1[0-9]{{2}}(?!\1[0-9])",
    rf"0[0-9]{{2}}([{_SPACE}{_DASH}])[0-9]{{3,4}}\1[0-9]{{4}}",
    rf"0[0-9]{{3}}([{_SPACE}{_DASH}])[0-9]{{3}}\1[0-9]{{4}}",
    rf"0[0-9]{{4}}[{_SPACE}](?:[0-9]{{6}}|[0-9]{{3}}[{_SPACE}][0-9]{{3}})",
    rf"0[1-9][0-9]{{1,3}}(?:[{_SPACE}]?/[{_SPACE}]?|[{_SPACE}{_DASH}])[0-9]{{6,8}}",
    rf"\(0[1-9][0-9]{{1,3}}\)[{_SPACE}]?[0-9]{{3,4}}[{_SPACE}{_DASH}]?[0-9]{{3,5}}",
]
_PHONE_FORMS = [
    re.compile(rf"(?<![\w+])\+1{_GAP}{_AREA}{_GAP}{_EXCHANGE}{_GAP}[0-9]{{4}}(?![0-9])"),
    re.compile(rf"(?<![\w+])\+{_COUNTRY}(?:{_GAP}[0-9]){{6,12}}(?![0-9])"),
    re.compile(rf"{_BEFORE}00[{_SPACE}]?{_COUNTRY}(?=[{_SPACE}.{_DASH}/(])(?:{_GAP}[0-9]){{7,12}}{_AFTER}"),
    *(re.compile(f"{_BEFORE}{form}{_AFTER}") for form in (*_AMERICAN, *_EUROPEAN)),
]
# Forms that no other number has where the language is written; bare groups of three digits are not among them.
_LANGUAGE_FORMS = {
    language: [re.compile(f"{_BEFORE}{form}{_AFTER}", re.ASCII if language in ("ja", "zh") else 0) for form in forms]
    for language, forms in {
        "ru": [
            rf"8[{_SPACE}{_DASH}]?\([0-9]{{3,4}}\)[{_SPACE}]?[0-9]{{2,3}}(?:[{_SPACE}{_DASH}][0-9]{{2}}){{2}}",
            rf"8(?:[{_SPACE}{_DASH}][0-9]{{3}}){{2}}(?:[{_SPACE}{_DASH}][0-9]{{2}}){{2}}",
        ],
        "ja": [r"0[1-9]-[0-9]{4}-[0-9]{4}", r"0[1-9][0-9]{1,2}-[0-9]{2,4}-[0-9]{3,4}", r"0[1-9]\([0-9]{4}\)[0-9]{4}"],
        "zh": [r"1[3-9][0-9](?:[0-9]{8}|[- ][0-9]{4}[- ][0-9]{4})", r"\(0[1-9][0-9]{1,2}\)[ ]?[0-9]{7,8}"],
        "pl": [r"\(?[1-9][0-9]\)?[ ][0-9]{3}[ -][0-9]{2}[ -][0-9]{2}"],
        "es": [r"[6-9][0-9]{2}[ ][0-9]{2}[ ][0-9]{2}[ ][0-9]{2}"],
        "it": [r"3[2-9][0-9][ ./-][0-9]{6,7}", r"3[2-9][0-9][ ][0-9]{3}[ ][0-9]{4}"],
        "nl": [r"0[1-9][0-9]{0,2}[ -][0-9]{3}[ ][0-9]{2}[ ][0-9]{2}", r"06[ -][0-9]{8}"],
        "pt": [r"\([1-9][0-9]\)[ ]?9?[0-9]{4}-[0-9]{4}"],
        "ro": [r"0[237][0-9]{2}([ .-])[0-9]{3}\1[0-9]{3}"],
        "sv": [r"0[1-9][0-9]{0,2}[ ]?-[ ]?[0-9]{2,3}(?:[ ][0-9]{2,3}){1,2}"],
    }.items()
}  # fmt: skip
_AFTER_WORD = re.compile(
    r"(?<![^\W_])(?:tele(?:phone|fon[eo]?|fax|copy|copier)|t[ée]l[ée]phone|tel[ée]fono|t[ée]l|phone|fax|facsimile|mobile|cell|pager|whatsapp)"
    rf"(?:[{_SPACE}](?:number|no|nr))?\.?[{_SPACE}]?:?[{_SPACE}]{{0,20}}"
    rf"(?P<number>[+(]?[0-9](?:{_GAP}[0-9]){{6,14}})(?![0-9@%])",
    re.IGNORECASE,
)
_AFTER_FOREIGN_WORD = re.compile(
    r"(?:(?<![^\W_])(?:telefonnummer|telefoonnummer|mobilnummer|numer|telefoon|telefonie|mobiel|mobilt?|gsm|handy|fon|tfn"
    r"|kom|cellulare|cell|celular|m[óo]vil|telem[óo]vel|fone|portable|komórka|телефон|тел|моб|факс|сот)|電話(?:番号)?|携帯|電話号碼|电话(?:号码)?"
    r"|電話號碼|手机(?:号)?|手機(?:號碼)?|传真|傳真|ファックス|ファクス)"
    rf"\.?[{_SPACE}]?[:\uff1a]?[{_SPACE}]{{0,20}}(?P<number>[+(]?[0-9](?:{_GAP}[0-9]){{6,14}})(?![0-9@%])",
    re.IGNORECASE,
)
_FICTION = re.compile(r"1?[2-9][0-9]{2}55501[0-9]{2}")
_YEARS = re.compile(r"(?:(?:1[4-9]|20)[0-9]{2}){2,4}")


def _find_phones(line: str, language: str) -> _Spans:
    """Yield the spans of telephone numbers in a line, as (start, end).

    Spans of different patterns may overlap. `language` is the ISO 639 code of the document, which adds patterns.
    """
    own = () if language == "en" else (*_LANGUAGE_FORMS.get(language, ()), _AFTER_FOREIGN_WORD)
    for pattern in (*_PHONE_FORMS, _AFTER_WORD, *own):
        group = pattern.groupindex.get("number", 0)
        for match in pattern.finditer(line):
            digits = re.sub("[^0-9]", "", match[group])
            if not _FICTION.fullmatch(digits) and not _YEARS.fullmatch(digits) and digits.strip("0"):
                yield match.span(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalDataSettings:
    """Settings for masking personal data, by kind. A replacement may be empty.

    email, ip, phone:  whether e-mail addresses, public IP addresses and telephone numbers are masked
    email_replacement: replacement for an e-mail address
    ip_replacement:    replacement for an IP address
    phone_replacement: replacement for a telephone number
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
        """Three booleans that say whether e-mail addresses, IP addresses and telephone numbers (KINDS) are masked."""
        return self.email, self.ip, self.phone

    @property
    def replacements(self) -> tuple[str, str, str]:
        """The replacement string for each of KINDS."""
        return self.email_replacement, self.ip_replacement, self.phone_replacement


def mask_text(text: str, settings: PersonalDataSettings, language: str = "en") -> tuple[str, dict[str, int]]:
    """Replace private data in one text. This is the reference implementation of `mask_private`, for tests.

    `language` is the ISO 639 code of the text.

    Returns:
        The new text, and the number of replacements by kind. Kinds that were not found are omitted.

    >>> mask_text("Write to ann.lee@uni.edu.", PersonalDataSettings(email=True))
    ('Write to email@example.com.', {'email': 1})
    """
    counts: dict[str, int] = {}
    lines = [_mask_line(line, settings, settings.kinds, counts, language) for line in text.split("\n")]
    return "\n".join(lines), _sort_counts(counts)


def _mask_line(
    line: str, settings: PersonalDataSettings, kinds: tuple[bool, bool, bool], counts: dict[str, int], language: str
) -> str:
    """Replace private data in one line, and return the new line.

    Args:
        line: The line.
        settings: The replacements.
        kinds: Whether to look for each of KINDS.
        counts: The number of replacements of each kind is added to this dictionary, by kind.
        language: ISO 639 code of the document.
    """
    pieces, copied = [], 0
    for start, end, kind in find_private_spans(line, kinds, language):
        pieces += [line[copied:start], settings.replacements[kind]]
        copied = end
        counts[KINDS[kind]] = counts.get(KINDS[kind], 0) + 1
    return "".join([*pieces, line[copied:]])


def _sort_counts(counts: dict[str, int]) -> dict[str, int]:
    """Sort a dictionary of the number of replacements by kind, so that its keys are in the order of KINDS."""
    return {kind: counts[kind] for kind in KINDS if kind in counts}


def mask_private(
    texts: pa.Array, settings: PersonalDataSettings, languages: Sequence[str] | None = None
) -> tuple[pa.Array, dict[str, int]]:
    """Replace private data in each row of a large_string column without nulls, as `mask_text` does.

    Args:
        texts: The documents.
        settings: The kinds to replace, and their replacements.
        languages: ISO 639 code of each row. If None, all rows are treated as English.

    Returns:
        The new column (or `texts` itself if nothing was replaced), and the number of replacements by kind.

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    wanted = sum(bit for bit, on in zip((EMAIL, IP, PHONE), settings.kinds, strict=True) if on)
    lines = np.stack(find_private_lines(data, offsets, wanted, build_byte_signs()), 1).tolist() if wanted else []
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
    return column, _sort_counts(counts)
