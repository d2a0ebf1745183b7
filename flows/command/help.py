"""The help of the command: its groups, the ten commands to know first, and two examples of each command.

The texts are in `help.toml`. `add_commands` puts them into the program, so `cloze --help`, `cloze COMMAND --help` and
the reference say the same. Cost: a small file is read; for `cloze --help`, the files of all commands are parsed.
"""

import ast
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, Group

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

NAME_COLUMNS = 12  # characters of the column of names in `cloze --help`

WELCOME = """\
Cloze turns raw text into trained BERT-family encoders. Type one of these first:

  cloze demo                   raw files to a small model, here, without network
  cloze run --source FOLDER    build your own folder of text
  cloze new NAME               write a recipe that you keep
  cloze doctor                 check this machine

`cloze --help` lists all commands; `cloze COMMAND --help` explains one."""

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
GROUPS: Mapping[str, str] = _TEXTS["groups"]  # the names of commands by the title of their group
JSON_KEYS: Mapping[str, str] = _TEXTS["json"]  # by the name of a command
EXAMPLES: Mapping[str, str] = _TEXTS["examples"]  # the same


def list_command_names(program: App) -> list[str]:
    """List the names of a program's commands, such as "run" or "vocabulary show", in the order of its help."""
    names = []
    for name in sorted((name for name in program if not name.startswith("-")), key=get_rank):
        inner = list_command_names(program[name])
        names += [f"{name} {below}" for below in inner] or [name]
    return names


def find_command(program: App, name: str) -> App:
    """Return the command with a given name, such as "run" or "vocabulary show".

    Raises:
        KeyError: If the program has no such command.
    """
    for part in name.split():
        program = program[part]
    return program


def get_summary(command: App) -> str:
    """Return the first line of a command's help."""
    return command.help.partition("\n")[0]


def get_rank(name: str) -> int:
    """Return the zero-based position of a command in `cloze --help`, or 0 if it belongs to no group."""
    ordered = " ".join(GROUPS.values()).split()
    return ordered.index(name) if name in ordered else 0


def add_commands(program: App, commands: Mapping[str, str]) -> None:
    """Add the commands that have separate files to a program, and assign a help group and examples to every command.

    A file is only imported when one of its commands is called.

    Args:
        program: The program, which may already have commands.
        commands: The function names of each file's commands, separated by spaces, keyed by the file's name in this
            folder.
    """
    files = {name: file for file, names in commands.items() for name in names.split()}
    groups: dict[str, Group] = {}
    for number, (title, names) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number, help_formatter=partial(show_group, files))
        groups |= dict.fromkeys(names.split(), group)
    for name, file in files.items():
        examples = {"help_epilogue": text} if (text := format_examples(name)) is not None else {}
        where = f"flows.command.{file}:{name}"
        program.command(where, name=name, group=groups.get(name), sort_key=get_rank(name), **examples)
    for name in groups.keys() - files.keys():
        program[name].group = (groups[name],)
        program[name].sort_key = get_rank(name)
        program[name].help_epilogue = format_examples(name)


def format_examples(name: str) -> str | None:
    """Format the examples of a command, as Markdown for the end of its help. Returns None if it has none.

    Args:
        name: The name of the command.
    """
    return f"Examples:\n\n```text\n{EXAMPLES[name]}```\n" if name in EXAMPLES else None


def show_group(files: Mapping[str, str], console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
    """Print a group of commands, one per line, in columns that are aligned across groups.

    Args:
        files: The name of each command's file, by command. Summaries are read from the source if a file is not imported
            yet.
        console: Where to print.
        options: Not used; required by cyclopts.
        panel: The group.
    """
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=NAME_COLUMNS, no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for entry in panel.entries:
        name = entry.display_labels[0]
        table.add_row(f"  {name}", _read_summary(files[name], name) if name in files else entry.description)
    console.print(f"[bold]{panel.title}[/bold]", table, sep="\n")


def _read_summary(file: str, name: str) -> str:
    """Read the first line of a command's help from the source code, without importing the file.

    Args:
        file: The name of the file in this folder, without `.py`.
        name: The name of the command.

    Raises:
        LookupError: If the file does not define the command.
    """
    for node in ast.parse(Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and isinstance(node.value, ast.Call):
            return str(next(ast.literal_eval(each.value) for each in node.value.keywords if each.arg == "help"))
    raise LookupError(name)
