"""The messages of the program as templates: what InputError is raised with, found in the source."""

import ast
from collections.abc import Iterator

from checkout import ROOT
from parsed_sources import nodes_of, sources

FILLED = "x1"


def messages() -> Iterator[tuple[str, ast.expr]]:
    """The first argument of every InputError, and where it is."""
    for path in sources():
        calls = (node for node in nodes_of(path) if isinstance(node, ast.Call) and node.args)
        for call in calls:
            if isinstance(call.func, ast.Name) and call.func.id == "InputError":
                yield f"{path.relative_to(ROOT)}:{call.lineno}", call.args[0]


def may_be_empty(slot: ast.expr) -> bool:
    """True if an expression itself shows that it may be empty: `x or ''`, `"..." if x else ""`."""
    if isinstance(slot, ast.BoolOp):
        return may_be_empty(slot.values[-1])
    if isinstance(slot, ast.IfExp):
        return may_be_empty(slot.body) or may_be_empty(slot.orelse)
    return isinstance(slot, ast.Constant) and slot.value == ""


def rendered(template: ast.expr, empty: bool) -> str | None:
    """A message with its slots filled. empty: those that can be are; None where it is made elsewhere"""
    if isinstance(template, ast.Constant) and isinstance(template.value, str):
        return template.value
    if isinstance(template, ast.JoinedStr):
        pieces = [_piece(value, empty) for value in template.values]
        return "".join(pieces)
    if isinstance(template, ast.BinOp) and isinstance(template.op, ast.Add):
        sides = rendered(template.left, empty), rendered(template.right, empty)
        return None if None in sides else "".join(side for side in sides if side is not None)
    return None


def _piece(value: ast.expr, empty: bool) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    assert isinstance(value, ast.FormattedValue)
    slot = value.value
    if may_be_empty(slot):
        inner = [slot.body, slot.orelse] if isinstance(slot, ast.IfExp) else []
        said = [text for part in inner if (text := rendered(part, empty))]
        return "" if empty else (said or [FILLED])[0]
    if isinstance(slot, ast.IfExp):
        return rendered(slot.body, empty) or FILLED
    return FILLED
