"""The Python files of the checkout, parsed once for all rules that look at every one of them."""

import ast
from functools import cache
from pathlib import Path

from checkout import PACKAGES, files_below


@cache
def sources() -> list[Path]:
    """Every Python file of the packages."""
    return [path for package in PACKAGES for path in files_below(package, suffix=".py")]


@cache
def tree_of(path: Path) -> ast.Module:
    """A Python file, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a Python file."""
    return tuple(ast.walk(tree_of(path)))
