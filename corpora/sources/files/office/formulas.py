"""Formulas of Office Open XML (`m:oMath`), which Word and PowerPoint write alike: their text as they pass.

A formula of runs only is the text of these; one with fractions, powers or roots is the sign that all sources have.
"""

from corpora.sources.formulas import FORMULA, show_formula

MATH_SPACES = (
    "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "http://purl.oclc.org/ooxml/officeDocument/math",
)
IN_LINE = frozenset("oMath oMathPara oMathParaPr jc r rPr t nor sty scr lit aln brk ctrlPr".split())


class FormulaReader:
    """Collects the text of a formula from XML events. `end` returns the text when the formula ends."""

    def __init__(self) -> None:
        self._depth = 0  # of `oMath` in one another; 0: there is none
        self._in_line = self._in_text = False
        self._texts: list[str] = []

    def begin(self, space: str, name: str, attributes: dict[str, str]) -> bool:
        """Process the start of an element of a document.

        Args:
            space: Namespace of the element.
            name: Name of the element.
            attributes: Not used.

        Returns:
            True if the element starts a formula or is inside one.
        """
        if space not in MATH_SPACES:
            self._in_text = self._in_text or (bool(self._depth) and name == "t")
            return bool(self._depth)
        if name == "oMath":
            self._depth += 1
            if self._depth == 1:
                self._in_line, self._texts = True, []
        self._in_line = self._in_line and name in IN_LINE
        self._in_text = name == "t"
        return True

    def end(self, space: str, name: str) -> str | None:
        """Process the end of an element of a document. `space` is the element's namespace, `name` its name.

        Returns:
            If a formula ends with this element, its readable text, or "[formula]" if it is too complex; otherwise None.
        """
        if not self._depth:
            return None
        self._in_text = False
        if space in MATH_SPACES and name == "oMath":
            self._depth -= 1
            if not self._depth:
                text = "".join(self._texts)
                return show_formula(text) if self._in_line else FORMULA
        return None

    def add_text(self, data: str) -> bool:
        """Process characters of a document. Return True if they are inside a formula."""
        if self._depth and self._in_text:
            self._texts.append(data)
        return bool(self._depth)
