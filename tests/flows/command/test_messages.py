"""Every message to a user is a whole sentence, whatever it is filled with.

All templates are found in the source: what InputError and its kind are raised with. Each is rendered with its slots
filled, and once more with those slots empty that can be.
"""

import ast
import re
from collections.abc import Iterator

from checkout import ROOT
from parsed_sources import nodes_of, sources

FILLED = "x1"
TORN = {
    "a double space": re.compile(r"(?<=\S)  +(?=\S)"),
    "a space before a mark": re.compile(r" [.,;:](?=\s|$)"),
    "two full stops": re.compile(r"(?<![.`])\.\.(?![./`])"),
    "an empty slot": re.compile(r"''|\(\s*\)"),  # "" is what some settings are set to
    "None": re.compile(r"\bNone\b"),
}


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


def faults(said: str) -> list[str]:
    """Return the ways in which a message is torn."""
    found = [name for name, pattern in TORN.items() if pattern.search(said)]
    for opening, closing in ("()", "[]"):
        if said.count(opening) != said.count(closing):
            found.append(f"unbalanced {opening}{closing}")
    if said.count("`") % 2:
        found.append("an open backquote")
    return found


def test_no_message_is_torn() -> None:
    """Fails where a slot that may be empty leaves two spaces, or a sentence is cut, doubled or quoted by half."""
    checked, torn = 0, {}
    for where, template in messages():
        for empty in (False, True):
            said = rendered(template, empty)
            if said is None:
                continue
            checked += 1
            if found := faults(said):
                torn[where] = (found, said)
    assert torn == {}
    assert checked > 300
    for said in ("In  it.", "At ..", "It is (None).", "Source '' is it.", "Set `path to it.", "The file (x is gone."):
        assert faults(said), "nothing would be torn"
    slot = ast.parse("f'There is no run {run or \"\"} in {place}.'", mode="eval").body
    assert faults(rendered(slot, True) or "") and not faults(rendered(slot, False) or "")


def test_messages_to_users_end_as_sentences() -> None:
    """Fails where a message of some words, which the command prints as it is, ends without its full stop."""
    open_ended = {}
    for where, template in messages():
        said = rendered(template, False)
        if said is not None and where.startswith("flows/command") and not re.search(r"[.?!]$|x1$", said):
            open_ended[where] = said
    assert open_ended == {}
