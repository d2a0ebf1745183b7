"""`python docs/lines_of_code.py` counts lines of code by room, and writes the table of docs/architecture.md again.

A line of code is one that holds a token: no blank line, no comment, no docstring. A room may hold as many as `BUDGETS`
says; `tests/test_house.py` fails where one holds more. What adds lines takes out at least half as many elsewhere.
"""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- table of docs/lines_of_code.py -->\n", "<!-- end of that table -->\n"
PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows", "cloze")
PARTS = (*PACKAGES, "benchmarks", "docs", "examples", "bootstrap.py", "conftest.py")
BUDGETS = {
    "all code": 77_905,
    "corpora": 24_050,
    "tokenizers_train": 5_510,
    "shards": 5_780,
    "trainer": 16_720,
    "trainer/tasks": 9_775,
    "flows": 20_290,
    "flows/orchestration": 2_765,
    "cloze": 915,
    "benchmarks": 3_815,
    "tests": 54_700,
}
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_lines(text: str) -> int:
    r"""Return how many lines of a Python file are code.

    >>> count_lines('"' + '""A docstring."' + '""\n\nx = 1  # one\n# a comment\n')
    1
    """
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    return len(lines)


@cache
def count_file(path: Path) -> int:
    """Return the lines of code of a file."""
    return count_lines(path.read_text(encoding="utf-8"))


def count_room(room: str) -> int:
    """Return the lines of code of a folder with all below it, of a file, or of "all code" (without tests)."""
    if room == "all code":
        return sum(map(count_room, PARTS))
    path = ROOT / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return sum(map(count_file, files))


def table() -> str:
    """Return the table: each room's lines now, and its budget."""
    rows = [f"| {room} | {count_room(room):,} | {budget:,} |\n" for room, budget in BUDGETS.items()]
    return "| room | lines of code | budget |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
