"""LaTeX as prose: what a reader of the printed page reads, without what is drawn, set or counted for him.

Promises: comments, the preamble, labels, citations, references, tables, pictures and displayed formulas are left out;
headings, captions, notes and emphasized words stay. A formula in a line stays where it has no command in it, else it
is FORMULA. Commands that are not known go, and what is in their braces stays. Nothing is expanded or included.
Costs: one pass, linear in the text whatever it is; a stack of one entry for each open brace or environment.
"""
# ruff: noqa: RUF001 - typographic marks are meant

import re
import unicodedata
from collections.abc import Iterator

FORMULA = "[formula]"
MOST_FORMULA = 4000  # characters; a sign without another so near is none of a formula
OPTION = re.compile(r"\s?\[[^\[\]\n]{0,2000}\]")  # after a command
ACCENTED = re.compile(r"\s*(?:\{\\?([^\W\d_])\}|\\?([^\W\d_]))")
TOKEN = re.compile(
    r"\\(?P<edge>begin|end)\s*\{(?P<name>[^{}\n]*)\}|\\(?P<command>[A-Za-z@]+)\*?[ \t]*"
    r"|\\(?P<sign>.)|(?P<math>\$\$?)|(?P<brace>[{}])|(?P<other>~|---?|``|'')|(?P<text>[^\\${}~`'-]+|.)",
    re.DOTALL,
)
HEADINGS = frozenset("part chapter section subsection subsubsection paragraph subparagraph caption".split())
# Commands whose arguments are left out, by their number; of the others all that is in braces stays.
LEFT_OUT = dict.fromkeys(
    "cite citep citet citealp citealt citeauthor citeyear nocite parencite textcite autocite footcite ref eqref "
    "autoref cref Cref pageref nameref vref label bibliography bibliographystyle includegraphics include usepackage "
    "documentclass vspace hspace index thanks author date affiliation affil address email institute keywords "
    "pagestyle thispagestyle input graphicspath hypersetup footnotemark color pacs urlstyle geometry title".split(),
    1,
) | dict.fromkeys("newcommand renewcommand providecommand setlength addtolength setcounter newtheorem def".split(), 2)
SECOND_STAYS = frozenset("href textcolor colorbox scalebox raisebox parbox".split())
SIZED = frozenset("minipage multicols subfigure wrapfigure adjustbox".split())  # environments with a size in braces
GONE = frozenset(
    "equation align alignat eqnarray gather multline displaymath math flalign split tabular tabularx array tikzpicture "
    "picture thebibliography verbatim lstlisting minted algorithm algorithmic algorithmicx comment filecontents".split()
)
ACCENTS = {"`": 768, "'": 769, "^": 770, "~": 771, "=": 772, "u": 774, ".": 775, '"': 776, "r": 778, "H": 779, "v": 780}
ACCENTS |= {"d": 803, "c": 807, "k": 808, "b": 817}  # code points of combining marks
SIGNS = {
    "ss": "ß", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł",
    "i": "i", "j": "j", "LaTeX": "LaTeX", "TeX": "TeX", "ldots": "…", "dots": "…", "textendash": "–", "textemdash": "—",
    "textbackslash": "\\", "S": "§", "copyright": "©", "pounds": "£", "textquoteright": "’", "textquoteleft": "‘",
    "par": "\n\n", "item": "\n\n", "newline": "\n", "quad": " ", "qquad": " ",
}  # fmt: skip
OTHERS = {"~": " ", "--": "–", "---": "—", "``": "“", "''": "”"}


def read_latex(source: str) -> tuple[str | None, str]:
    r"""Return the title of a source, None where it has none, and its text.

    >>> read_latex("\\title{A \\emph{note}}\\begin{document}\\section{One} So $n$ is~small \\cite{k}.\\end{document}")
    ('A note', 'A note\n\nOne\n\nSo n is small.')
    """
    bare = "".join(_without_comments(source))
    start, stop = bare.find("\\begin{document}"), bare.find("\\end{document}")
    body = bare[start + len("\\begin{document}") if start >= 0 else 0 : stop if stop > start else len(bare)]
    title = _tidy("".join(_Prose(_argument(bare, "\\title")).pieces()))
    text = _tidy("".join(_Prose(body).pieces()))
    return title or None, "\n\n".join(filter(None, (title, text)))


def _without_comments(source: str) -> Iterator[str]:
    for match in re.finditer(r"(?P<keep>\\.|[^\\%]+)|%[^\n]*(?:\n[ \t]*)?|\\", source, re.DOTALL):
        yield match["keep"] or ""


def _argument(text: str, command: str) -> str:
    """What is in the braces after the first use of a command; "" where they do not close."""
    match = re.search(re.escape(command) + r"\*?\s*(?:\[[^\]]{0,2000}\]\s*)?\{", text)
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text[match.end() :] if match else "", re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if match and not depth:
            return text[match.end() : match.end() + brace.start()]
    return ""


def _tidy(text: str) -> str:
    """Paragraphs with single spaces, none before a mark that closes."""
    parts = (re.sub(r"\s+([.,;:)])", r"\1", " ".join(part.split())) for part in re.split(r"\n[ \t]*\n\s*", text))
    return unicodedata.normalize("NFC", "\n\n".join(part for part in parts if re.search(r"\w", part)))


class _Prose:
    """The prose of a text, read once. Each open brace or environment notes whether it is left out, and its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[tuple[bool, str, list[tuple[bool, str]]]] = []  # left out, what follows, what waited
        self._out = 0  # how many of them are left out
        self._waiting: list[tuple[bool, str]] = []  # the same for the arguments that come next

    def pieces(self) -> Iterator[str]:
        """Yield what stays."""
        while self._at < len(self._text):
            match = TOKEN.match(self._text, self._at)
            assert match is not None, "every character is a token"
            self._at = match.end()
            piece = self._piece(match)
            if piece and not self._out:
                yield piece

    def _piece(self, match: "re.Match[str]") -> str:
        if match["brace"]:
            return self._brace(match["brace"])
        if match["text"] and match["text"].isspace():
            return match["text"]
        self._waiting = []
        if match["edge"]:
            return self._environment(match["edge"], match["name"].rstrip("*"))
        if match["command"]:
            return self._command(match["command"])
        if match["sign"]:
            return self._sign(match["sign"])
        if match["math"]:
            return self._formula(match["math"], match["math"])
        return OTHERS.get(match["other"] or "", match["text"] or match["other"] or "")

    def _brace(self, brace: str) -> str:
        if brace == "{":
            left_out, end = self._waiting.pop(0) if self._waiting else (False, "")
            return self._begin(left_out, end)
        return self._end()

    def _begin(self, left_out: bool, end: str) -> str:
        self._open.append((left_out, end, self._waiting))
        self._out += left_out
        self._waiting = []
        return ""

    def _end(self) -> str:
        left_out, end, self._waiting = self._open.pop() if self._open else (False, "", [])
        self._out -= left_out
        return end

    def _environment(self, edge: str, name: str) -> str:
        if edge == "end":
            return self._end() or "\n\n"
        if name in GONE:
            stop = self._text.find("\\end{" + name, self._at)
            self._at = len(self._text) if stop < 0 else self._text.find("}", stop) + 1 or len(self._text)
            return " "
        self._skip_option()
        self._begin(False, "\n\n")
        self._waiting = [(True, "")] if name in SIZED else []
        return "\n\n"

    def _command(self, name: str) -> str:
        self._skip_option()
        if name in HEADINGS:
            self._waiting = [(False, "\n\n")]
            return "\n\n"
        if name == "footnote":
            self._waiting = [(False, ")")]
            return " ("
        if name in LEFT_OUT:
            self._waiting = [(True, "")] * LEFT_OUT[name]
        elif name in SECOND_STAYS:
            self._waiting = [(True, ""), (False, "")]
        if name in ACCENTS:
            return self._accented(chr(ACCENTS[name]))
        return SIGNS.get(name, "")

    def _sign(self, sign: str) -> str:
        if sign in "[(":
            return self._formula("\\" + sign, "\\]" if sign == "[" else "\\)")
        if sign in ACCENTS:
            return self._accented(chr(ACCENTS[sign]))
        return sign if sign in "%&#_${}" else " "

    def _accented(self, accent: str) -> str:
        match = ACCENTED.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return (match[1] or match[2]) + accent

    def _formula(self, begin: str, end: str) -> str:
        stop = self._text.find(end, self._at, self._at + MOST_FORMULA)
        inner = self._text[self._at : stop]
        if stop < 0 or "\n\n" in inner:
            return ""  # a sign that is not paired
        self._at = stop + len(end)
        if begin in ("$$", "\\["):
            return " "
        return FORMULA if "\\" in inner else inner.strip()

    def _skip_option(self) -> None:
        match = OPTION.match(self._text, self._at)
        self._at = match.end() if match else self._at
