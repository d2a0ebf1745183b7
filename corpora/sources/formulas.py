"""Formulas as readers of the sentence around them would see them: one rule for all sources.

A formula that is readable as text becomes that text ("k/n", "x = 3"). Any other becomes the placeholder `FORMULA`, so
that no sentence has a hole. The text is taken from the formula's alternative text, else from its TeX, else from its
MathML if that has nothing above, below or over another part.

Promises: pure functions of the markup, in time linear in it. Cost: nothing for a page without a formula.
"""

import re
import unicodedata
from html import escape

from corpora.sources.hypertext import ATTRIBUTE, unescape_html

FORMULA = "[formula]"
READABLE_FORMULA = re.compile(r"[A-Za-z0-9\u0370-\u03ff .,:+\-/()=%\u00b0-\u00b3\u00b7\u00d7\u2032\u2190-\u22ff]{1,24}")
MATH_LETTERS = re.compile("[\U0001d400-\U0001d7ff]")  # letters of formulas, which are letters
# What is around the TeX of a formula: a whole document, signs of mathematics, and what Wikipedia's pages write.
DOCUMENT = re.compile(r"\A.*\\begin\{document\}|\\end\{document\}.*\Z", re.DOTALL)
DELIMITERS = re.compile(r"\A(?:\$+|\\[(\[])|(?:\$+|\\[)\]])\Z")
STYLED = re.compile(r"\{\\(?:display|text|script)style\s(.*)\}", re.DOTALL)
SPACES = re.compile(r"\s+")


def build_tex_pattern(excluded: str = "") -> str:
    r"""Return a regular expression, as a string, that matches TeX in text: `\(...\)`, `\[...\]` and `$$...$$`.

    The TeX is in the group "round", "square" or "display".

    Args:
        excluded: Characters that no formula may contain, escaped for use in a character class.
    """
    return (
        rf"\\\((?P<round>[^\\{excluded}]*+(?:\\(?![()])[^\\{excluded}]*+)*+)\\\)"
        rf"|\\\[(?P<square>[^\\{excluded}]*+(?:\\(?![\[\]])[^\\{excluded}]*+)*+)\\\]"
        rf"|\$\$(?P<display>[^${excluded}]++)\$\$"
    )


_TEX = re.compile(build_tex_pattern())
_NAME = r"(?:[\w.-]+:)?"
_MATH = rf"<{_NAME}math(?=[\s/>])"
_VALUES = rf"(?:\"[^\"<]*+(?:<(?!{_NAME}math)[^\"<]*+)*+\"|'[^'<]*+(?:<(?!{_NAME}math)[^'<]*+)*+')"
_ATTRIBUTES = re.compile(rf"(?:[^<>\"']++|{_VALUES})*+")  # of attributes
_ANNOTATION = re.compile(
    rf"<{_NAME}annotation(?:-xml)?\b([^<>]*+)>((?:(?!<{_NAME}annotation).)*?)</{_NAME}annotation(?:-xml)?\s*+>",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(rf"</?{_NAME}([a-z]++)(?:[^<>\"']++|{_VALUES})*+>", re.IGNORECASE)
_ONE_LINE_ELEMENTS = frozenset("math semantics mrow mi mn mo mtext ms mspace mstyle mpadded".split())
_INVISIBLE_OPERATORS = dict.fromkeys((0x2061, 0x2062, 0x2063, 0x2064))  # signs of multiplication that show nothing
_FORMULA_MARKUP = re.compile(  # the span hides MathML in pages of MediaWiki, which show a picture of it
    rf"(?:<span\b[^<>]*\bmwe-math-mathml[^<>]*>\s*+)?+{_MATH}(?:[^<>\"']++|{_VALUES})*+(?:(?<!/)>(?:(?!{_MATH}).)*?</{_NAME}math\s*+>|(?<=/)>)"
    r"|<script\b[^<>]*math/tex[^<>]*>(?P<tex>(?:(?!<script).)*?)</script\s*>",
    re.IGNORECASE | re.DOTALL,
)


def show_formula(source: str) -> str:
    r"""Convert a formula in TeX or plain text to readable text, or to `FORMULA` if it is too complex; "" if empty.

    >>> show_formula("k/n"), show_formula(r"\frac{k}{n}"), show_formula(r"{\displaystyle x}"), show_formula(" ")
    ('k/n', '[formula]', 'x', '')
    """
    bare = DELIMITERS.sub("", DOCUMENT.sub("", source).strip()).strip()
    styled = STYLED.fullmatch(bare)
    bare = SPACES.sub(" ", styled[1] if styled else bare).strip()
    bare = MATH_LETTERS.sub(lambda letter: unicodedata.normalize("NFKC", letter[0]), bare)
    return bare if READABLE_FORMULA.fullmatch(bare) or not bare else FORMULA


def show_mathml(markup: str) -> str:
    """Convert a formula in MathML to readable text, or to `FORMULA` if it is too complex; "" if it is empty.

    >>> show_mathml("<math><mi>x</mi><mo>=</mo><mn>3</mn></math>")
    'x=3'
    >>> show_mathml("<math><msup><mi>x</mi><mn>2</mn></msup></math>")
    '[formula]'
    """
    attributes = _ATTRIBUTES.match(markup, 1)
    for name, *values in ATTRIBUTE.findall(attributes[0] if attributes else ""):
        if name.lower() in ("alttext", "alt") and (alternative := unescape_html("".join(values)).strip()):
            return show_formula(alternative)
    notes = {note[1].lower(): note[2] for note in _ANNOTATION.finditer(markup)}
    if tex := next((text for kind, text in notes.items() if "tex" in kind and text.strip()), ""):
        return show_formula(unescape_html(tex))
    elements = _ANNOTATION.sub("", markup)
    names = {name.lower() for name in _TAG.findall(elements)}
    text = SPACES.sub("", unescape_html(_TAG.sub("", elements)).translate(_INVISIBLE_OPERATORS))
    return show_formula(text) if names <= _ONE_LINE_ELEMENTS else FORMULA if text else ""


def show_formulas(html: str) -> str:
    """Replace the formulas of an HTML page (MathML, or TeX in scripts) with readable text or `FORMULA`."""
    return _FORMULA_MARKUP.sub(_show_match, html)


def show_rendered_tex(text: str, html: str) -> str:
    """Replace the TeX in a page's text with readable text or `FORMULA`, if the page loads MathJax or KaTeX.

    Args:
        text: The text of the page.
        html: The whole page. It is searched for the names of the MathJax and KaTeX scripts.
    """
    if "\\(" not in text and "\\[" not in text and "$$" not in text:
        return text
    has_renderer = "athJax" in html or "mathjax" in html or "katex" in html
    return _TEX.sub(lambda match: show_formula(next(filter(None, match.groups()), "")), text) if has_renderer else text


def _show_match(match: re.Match[str]) -> str:
    """Return the replacement, as escaped HTML, for a match of `_FORMULA_MARKUP`."""
    tex = match["tex"]
    return escape(show_mathml(match[0]) if tex is None else show_formula(unescape_html(tex)))
