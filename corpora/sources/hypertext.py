"""What all readers of HTML and XML share: attributes, character references, and elements that are left out.

Left out are ruby readings, which are above the words of a sentence, and text that a revision deleted.

Promises: pure functions of the markup, in time linear in it. A reading without an end tag reaches to the next element
of ruby, or to the end of its block. Cost: nothing for a page without such elements.
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
    """Remove ruby readings (annotations above words) and deleted text (`<del>`) from HTML.

    >>> without_readings("<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ")
    '<ruby>東京</ruby>へ'
    >>> without_readings("In <del>May</del><ins>June</ins>.")
    'In <ins>June</ins>.'
    """
    return _DELETED.sub("", _RUBY_READING.sub("", html))


def unescape_html(text: str) -> str:
    """Resolve the HTML character references in a text, as `html.unescape` does.

    If a numeric reference has more digits than Python can convert, the text is returned unchanged.
    """
    try:
        return unescape(text)
    except ValueError:
        return text
