"""HTML and XML as all that read them do: attributes, references to characters, and elements whose text is left out.

What is not text of its sentence is a reading above words, and what a revision has deleted.

Promises: pure functions of the markup, in time linear in it; a reading without end reaches to the next element of ruby,
or to the end of its block. Cost: nothing for a page without such elements.
"""

import re
from html import unescape

ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")

# Readings (`<rt>`, and the brackets around them), whose end tags may be left out, and what a revision has deleted.
_RUBY_READING = re.compile(
    r"<(?i:rt|rp|rtc)(?=[\s/>])[^<>]*+>(?:(?!</?(?i:rt|rp|rtc|rb|ruby|p|div|td|th|tr|li|h[1-6]|body)[\s/>]).)*+"
    r"(?:</(?i:rt|rp|rtc)\s*+>)*+",
    re.DOTALL,
)
_DELETED = re.compile(r"<(?i:del)(?=[\s/>])[^<>]*+(?<!/)>(?:(?!</?(?i:del)[\s/>]).)*+</(?i:del)\s*+>", re.DOTALL)


def without_readings(html: str) -> str:
    """A text without the readings above its words, and without what was deleted.

    >>> without_readings("<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ")
    '<ruby>東京</ruby>へ'
    >>> without_readings("In <del>May</del><ins>June</ins>.")
    'In <ins>June</ins>.'
    """
    return _DELETED.sub("", _RUBY_READING.sub("", html))


def unescape_html(text: str) -> str:
    """`html.unescape` of a text; the text as it is if a number in it has more digits than Python reads."""
    try:
        return unescape(text)
    except ValueError:
        return text
