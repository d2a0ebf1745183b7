"""The help: groups, the ten commands to know first, examples that each command takes, and what is typed first."""

import shlex
from pathlib import Path

import pytest
from rich.console import Console

from flows.command.cli import app, run_command_line
from flows.command.help import EXAMPLES, GROUPS, find_command, get_summary, list_command_names

NAMES = list_command_names(app)


def shown(*arguments: str) -> str:
    """The help of a command on a terminal of 80 columns."""
    terminal = Console(width=80)
    with terminal.capture() as captured:
        app.help_print([*arguments], console=terminal)
    return captured.get()


def test_all_commands_fit_one_screen_and_a_half() -> None:
    """Fails if a command is in no group, or takes more than a line, or the ten are not first."""
    lines = shown().splitlines()
    assert len(lines) <= 60 and all(len(line.rstrip()) <= 80 for line in lines)
    in_groups = [name for names in GROUPS.values() for name in names.split() if not name.startswith("-")]
    assert sorted(in_groups) == sorted({name.split()[0] for name in NAMES})
    listed = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("  --")]
    assert listed == in_groups
    assert len(GROUPS["Ten to know first"].split()) == 10


def test_the_command_alone_says_what_to_type_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a newcomer gets an error, or a command that does not exist."""
    assert run_command_line([], Path()) == 0
    lines = [
        line.split("   ")[0].split() for line in capsys.readouterr().out.splitlines() if line.startswith("  cloze")
    ]
    assert len(lines) > 3
    for _, *arguments in lines:
        app.parse_args(arguments, exit_on_error=False, print_error=False)


def arguments_of(name: str) -> list[list[str]]:
    """The arguments of a command's examples, without variables before, and where its output goes to."""
    lines = [shlex.split(line.partition(" >> ")[0], comments=True) for line in EXAMPLES[name].splitlines()]
    return [words[words.index("cloze") + 1 :] for words in lines if words]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_two_examples_that_it_takes(name: str) -> None:
    """Fails if an option of an example was renamed, an example is of another command, or the help lacks it."""
    assert get_summary(find_command(app, name)).endswith(".")
    helped = shown(*name.split())
    assert all(len(line) < 78 and line in helped for line in EXAMPLES[name].splitlines())
    examples = arguments_of(name)
    assert len(examples) == 2
    for arguments in examples:
        assert arguments[: len(name.split())] == name.split()
        app.parse_args(arguments, exit_on_error=False, print_error=False)
