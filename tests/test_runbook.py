"""The runbook is in step with the program: what it quotes is said there, what it tells to type is a command.

So are the outputs of the guides that no test makes again: their lines still have the words of the program.
"""

import ast
import re
import shlex
from collections import Counter
from functools import cache

import pytest
from checkout import ROOT
from page_blocks import PRINTING, WALKED, all_blocks
from parsed_sources import nodes_of, sources

from flows.command import reference
from flows.command.cli import app
from flows.command.help import list_command_names
from flows.run.record.run_status import END_STATES

PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
SLOT = "…"
DRAWN = {"architecture.md", "index.md", "performance.md", "reference.md"}  # drawings, tables, and what is generated
SAID = {  # by page: lines of its outputs with two words of the program or more; the others are data and names
    "README.md": 3,
    "demo.md": 23,
    "guide-data-for-others.md": 4,
    "guide-finetuning.md": 3,
    "guide-new-domain.md": 21,
    "guide-schedules.md": 3,
    "guide-sources.md": 1,
    "guide-vocabularies.md": 5,
    "guide-your-own-text.md": 13,
}
# Exceptions that never leave the module or the process that raises them.
INNER = {"Stopped", "TransientFault", "Mismatch", "TaskCancelled", "Incomplete", "Misfit"}


@cache
def said() -> str:
    """Every text of the packages that is no docstring, with a slot for each value that is filled in."""
    found = []
    for path in sources():
        bare = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
        for node in nodes_of(path):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else SLOT for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
                found.append(node.value)
    return "\n".join(" ".join(text.split()) for text in found)


def is_said(quote: str) -> bool:
    """True if a text of the program has these words in their order."""
    pieces = [re.escape(piece.strip()) for piece in quote.split(SLOT) if piece.strip(" .,:;")]
    return bool(pieces) and re.search("[^\n]*?".join(pieces), said()) is not None


def entries() -> dict[str, str]:
    """Return what the page says of each failure, by its title."""
    page = PAGE.partition("## What the program calls them")[0]
    found = re.split(r"^### (.+)$", page, flags=re.MULTILINE)[1:]
    return {
        title: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for title, text in zip(found[::2], found[1::2], strict=True)
    }


def quotes(text: str) -> list[str]:
    return re.findall(r"^    (.+)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("title", entries())
def test_an_entry_quotes_the_program_and_says_what_to_do(title: str) -> None:
    """Fails if a message was changed and the page still has the old one, or an entry is half written."""
    text = entries()[title]
    assert quotes(text), title
    assert [quote for quote in quotes(text) if not is_said(quote)] == []
    assert re.findall(r"^- \*\*(\w+)\*\*", text, flags=re.MULTILINE) == ["State", "Kept", "Do"]


def test_a_quote_that_lags_is_noticed() -> None:
    """Fails if the search above finds anything."""
    assert is_said("The embedded Prefect server did not start; its log is ….")
    assert not is_said("The embedded Prefect server did not begin; its log is ….")
    assert not is_said("its log is …. The embedded Prefect server did not start")
    assert not is_said("…")


def words_of(text: str) -> list[str]:
    """Return what a text of the program has around its values, if that is two words or more."""
    pieces = [piece.strip() for piece in text.split(SLOT) if piece.strip(" .,:;")]
    words = re.findall(r"[A-Za-z]{2,}", " ".join(pieces))
    return pieces if len(words) > 1 and len("".join(words)) > 8 else []


def has_words(line: str, texts: list[list[str]]) -> bool:
    """True if a line that is printed has all words of one of these texts in their order."""
    plain = " ".join(line.split())
    likely = (pieces for pieces in texts if pieces[0] in plain)
    printed = not line.startswith("$ ") and "──" not in line and "─►" not in line
    return printed and any(re.search(".*?".join(map(re.escape, pieces)), plain) for pieces in likely)


def test_outputs_of_the_guides_have_the_words_of_the_program() -> None:
    """Fails if a message was changed and a page still shows the old one, or a page gets an output; count it then."""
    pages = {*PRINTING, *WALKED, *DRAWN}
    shown = [block for block in all_blocks() if block.language in ("text", "console") and block.page not in pages]
    texts = [pieces for text in said().split("\n") if (pieces := words_of(text))]
    counts = Counter(block.page for block in shown for line in block.text.splitlines() if has_words(line, texts))
    assert counts == SAID


def test_every_command_of_the_page_is_one() -> None:
    """Fails if the page tells to type what the program does not take."""
    ours = re.sub(r"^    .+$", "", PAGE, flags=re.MULTILINE)
    shown = [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", ours) if text.startswith("cloze ")]
    assert len(shown) > 20
    for text in shown:
        name, *arguments = shlex.split(text)[1:]
        if arguments or name in ("runs", "status", "doctor"):
            app.parse_args([name, *arguments], exit_on_error=False, print_error=False)
        assert name in {command.split()[0] for command in list_command_names(app)}


def test_every_class_of_failure_is_listed() -> None:
    """Fails if an exception that can end a run is added and the page does not name it."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    }

    def ends_runs(name: str) -> bool:
        return name in ("InputError", "Exception") or any(map(ends_runs, bases.get(name, ())))

    classes = {name for name in bases if not name.startswith("_") and ends_runs(name)} - INNER
    assert len(classes) > 10
    named = set(re.findall(r"`(\w+)`", PAGE.partition("## What the program calls them")[2]))
    assert classes == {name for name in named if name in bases}


def test_every_state_and_exit_code_is_listed() -> None:
    """Fails if a run can end in a state or with a code that the table does not have."""
    makers = {"Completed", "Failed", "Cancelled", "Crashed"}
    calls = [node for path in sources() for node in nodes_of(path) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in makers]
    named = {
        key.value.value
        for call in made
        for key in call.keywords
        if key.arg == "name"
        if isinstance(key.value, ast.Constant)
    }
    constants = {"Drifted", "Merged", "Reused"}
    assert len(made) > 8 and all(is_said(name) for name in constants)
    table = PAGE.partition("## States and exit codes")[2].partition("\n## ")[0]
    codes = {code for codes, _ in reference.EXIT_CODES for code in codes.split(", ")}
    words = set(re.findall(r"\w+", table))
    assert {*makers, *map(str, named), *constants, *END_STATES, "running", "lost", *codes} - words == set()


def test_links_inside_of_the_page_lead_somewhere() -> None:
    """Fails if an entry was given another title and the tables still point to the old one."""
    heads = {
        re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert len(links) > 15 and links - heads == set()
