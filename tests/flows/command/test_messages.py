"""Every message to a user is a whole sentence, whatever it is filled with.

All templates are found in the source: what InputError and its kind are raised with. Each is rendered with its slots
filled, and once more with those slots empty that can be.
"""

import ast
import re

from message_templates import messages, rendered

TORN = {
    "a double space": re.compile(r"(?<=\S)  +(?=\S)"),
    "a space before a mark": re.compile(r" [.,;:](?=\s|$)"),
    "two full stops": re.compile(r"(?<![.`])\.\.(?![./`])"),
    "an empty slot": re.compile(r"''|\(\s*\)"),  # "" is what some settings are set to
    "None": re.compile(r"\bNone\b"),
}


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
    """Fails if a slot that may be empty leaves two spaces, or a sentence is cut, doubled or quoted by half."""
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
    """Fails if a message of some words, which the command prints as it is, ends without its full stop."""
    open_ended = {}
    for where, template in messages():
        said = rendered(template, False)
        if said is not None and where.startswith("flows/command") and not re.search(r"[.?!]$|x1$", said):
            open_ended[where] = said
    assert open_ended == {}
