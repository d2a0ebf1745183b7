"""`python -m flows.command.reference` writes docs/reference.md from the program itself; `--check` says if it lags.

Every command with its options comes from the command line's own description, every key of a recipe from the frozen
dataclass that checks it: name, type and default from its fields, the meaning from its docstring (or from the comment
after the field). So the page has exactly the commands, options and keys that exist; its descriptions are
their docstrings. The same program writes the same bytes. Cost: the import of the program, about two seconds.
"""

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from corpora.acquire.fetch_table import AcquireSettings
from corpora.judging.batches import STEP_TABLES
from corpora.judging.settings import DocumentsSettings
from corpora.sources.registry import SOURCES, load_source_class
from flows.command.cli import app
from flows.command.help import EXAMPLES, JSON_KEYS, find_command, get_rank, get_summary, list_command_names
from flows.environment import ROOT
from flows.recipes.meanings import SETTINGS, explain_by_name, read_meanings
from flows.recipes.recipe import SourceEntry
from shards.inputs import INPUTS
from shards.settings import ShardSettings
from tokenizers_train.vocabularies.settings import GivenVocabulary, VocabularySettings
from trainer.settings.phases import PhaseSettings, Schedule
from trainer.settings.training import TrainingSettings

PAGE = ROOT / "docs" / "reference.md"

OWN_TABLES = (*STEP_TABLES, "steps")  # nested in DocumentsSettings, tables of their own in a recipe

STEP_KEYS = (
    ("kind", "text", "required", "the name of the entry point"),
    ("after", "text", "`rules`", "the step directly after which it comes: parse, clean or rules"),
    ("sources", "list", "all", "names of the sources that it applies to"),
)
TOP_KEYS = (
    ("name", "text", "the file's name", "names the corpus, the vocabulary and the shards in the store"),
    ("store", "text", "`store`", "a folder, relative to the recipe, or `s3://bucket/prefix`"),
    ("seed", "whole number", "42", "the seed of every table that has none of its own"),
    ("engine", "text", "`local`", "where parts are built: here, or `tcp://HOST:PORT` of a Dask scheduler"),
)

EXIT_CODES = (
    ("0", "done"),
    ("1", "the run failed, or `doctor` and `verify` found something that is wrong"),
    ("2", "the user's input is wrong: one paragraph says what, where, and how to fix it"),
    ("130, 143, 129", "stopped by Ctrl-C, SIGTERM or SIGHUP; what is finished is kept"),
    ("141", "whoever read the output closed it"),
)

JSON_PROMISE = (
    "With `--json` a command prints one JSON document on standard output, and everything else on standard error. The "
    "keys below stay as they are; others may be added."
)

Row = tuple[str, str, str, str]
ROW = ("key", "type", "default", "meaning")


def main(arguments: Sequence[str], page: Path = PAGE) -> int:
    """Write docs/reference.md, or check that it is up to date if the argument is `--check`.

    Args:
        arguments: Command-line arguments.
        page: The file to write or check.

    Returns:
        The exit code: 0; 1 if the file is out of date; 2 for an unknown argument.
    """
    if [*arguments] not in ([], ["--check"]):
        print(
            f"flows.command.reference: {' '.join(arguments)} means nothing here; the one option is --check",
            file=sys.stderr,
        )
        return 2
    text = render_reference()
    if not arguments:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page.name} lags behind the program: run `python -m flows.command.reference`", file=sys.stderr)
    return 1


def render_reference() -> str:
    """Render the text of docs/reference.md."""
    blocks = [
        "# Reference",
        "Written by `python -m flows.command.reference` from the program itself; change the program, not this page.",
        "## Commands",
        render_commands_table(),
        _render_commands(),
        "## JSON",
        JSON_PROMISE,
        format_table(
            ("command", "keys"), [(f"`cloze {name}`", _format_keys(text)) for name, text in JSON_KEYS.items()]
        ),
        "## Exit codes",
        format_table(("code", "meaning"), EXIT_CODES),
        *_iter_recipe_blocks(),
    ]
    return "\n\n".join(blocks) + "\n"


# Commands


def _render_commands() -> str:
    """Render a Markdown section for each command, with its arguments and examples, in the order of `cloze --help`."""
    page = app.generate_docs(heading_level=3, max_heading_level=3, flatten_commands=True, usage_name="cloze")
    page = re.sub(r"(?m)^(cloze .*?) -m [\w.]+", r"\1", page)  # of the program that writes the page
    sections = page[page.index("### cloze ") + len("### cloze ") :].split("\n### cloze ")
    texts = {section.partition("\n")[0]: section for section in sections}
    order = sorted(texts, key=lambda name: get_rank(name.split()[0]))
    return "\n\n".join(f"### cloze {texts[name].strip()}{_format_examples(name)}" for name in order)


def _format_keys(text: str) -> str:
    """Format a description of a JSON document, taken from `help.toml`, with its keys as Markdown code.

    >>> _format_keys("each: run_id state; with --all: figures")
    'a list, of each: `run_id`, `state`; with --all: `figures`'
    """
    pieces = []
    for piece in text.split("; "):
        head, colon, keys = piece.rpartition(": ")
        pieces.append(f"{head}{colon}{', '.join(f'`{key}`' for key in keys.split())}")
    return "; ".join(pieces).replace("each: ", "a list, of each: ", 1)


def _format_examples(name: str) -> str:
    """Format the examples of a command as Markdown, for the end of its section. Returns "" if it has none."""
    return f"\n\nExamples:\n\n```console\n{EXAMPLES[name]}```" if name in EXAMPLES else ""


def render_commands_table() -> str:
    """Render the Markdown table of commands and their summaries, which the README also contains."""
    rows = [(f"`cloze {name}`", get_summary(find_command(app, name))) for name in list_command_names(app)]
    return format_table(("command", "what it does"), rows)


# Recipes


def _iter_recipe_blocks() -> Iterator[str]:
    """Yield the Markdown paragraphs and tables of the page's part about recipes."""
    yield "## The recipe"
    yield (
        "A recipe is a TOML file. An unknown key is an error that names the nearest valid one. Any key can be "
        "given as `--set table.key=value`."
    )
    yield format_table(ROW, TOP_KEYS)
    yield "### [[source]]"
    yield "One table for each source; `kind` says which. These keys every kind has:"
    own = ", ".join(f"`{name}`" for name in ("documents", *STEP_TABLES))
    common = list_setting_rows(SourceEntry, skip=("source", "documents", "fetch", "license"))
    common = [(key, kind, "its place in the recipe" if key == "`priority`" else d, m) for key, kind, d, m in common]
    overrides = (own, "table", "", "settings for this source alone, over those of the recipe's table")
    yield format_table(ROW, [*common, overrides])
    for kind in sorted(SOURCES):
        yield f'#### kind = "{kind}"'
        yield format_table(ROW, list_setting_rows(load_source_class(kind)))
    yield from _iter_section("#### fetch", AcquireSettings)
    yield "### [[step]]"
    yield "A step of your own, from an installed package (entry point `cloze.steps`). It also has keys of its own:"
    yield format_table(ROW, STEP_KEYS)
    for name, settings in SETTINGS.items():
        skip = {DocumentsSettings: OWN_TABLES, ShardSettings: ("own",), TrainingSettings: ("phase",)}.get(settings, ())
        yield from _iter_section(f"### [{name}]", settings, *_iter_nested_summaries(settings), skip=skip)
        if settings is ShardSettings:
            yield from _iter_inputs()
        if settings is VocabularySettings:
            yield f"{read_summary(GivenVocabulary)} Its keys, in place of those above:"
            yield format_table(ROW, list_setting_rows(GivenVocabulary))
        if settings is TrainingSettings:
            yield from _iter_section("#### [[training.phase]]", PhaseSettings)
            yield from _iter_section("#### schedule", Schedule)


def _iter_section(heading: str, settings: type, *paragraphs: str, skip: Sequence[str] = ()) -> Iterator[str]:
    """Yield the Markdown blocks of a section about a settings dataclass.

    These are a heading, the description of the dataclass, `paragraphs`, and the table of its keys.

    Args:
        heading: The heading.
        settings: The dataclass.
        paragraphs: Paragraphs to insert before the table.
        skip: The names of fields to omit.
    """
    yield from (heading, read_summary(settings), *paragraphs)
    yield format_table(ROW, list_setting_rows(settings, skip=skip))


def _iter_nested_summaries(settings: type) -> Iterator[str]:
    """Yield a paragraph about each nested settings dataclass that has no separate section."""
    for field in dataclasses.fields(settings):
        hint = get_type_hints(settings)[field.name]
        inner = next((argument for argument in get_args(hint) if dataclasses.is_dataclass(argument)), hint)
        if isinstance(inner, type) and dataclasses.is_dataclass(inner) and field.name not in OWN_TABLES:
            yield f"`{field.name}`: {read_summary(inner)}"


def _iter_inputs() -> Iterator[str]:
    """Yield a description of each kind of training input, followed by a table of its keys if it has any."""
    yield "Inputs, with the keys that each adds; more come with installed packages (entry point `cloze.inputs`)."
    for kind, own in INPUTS.items():
        yield f'`input = "{kind}"`: {read_summary(own)}'
        if rows := list_setting_rows(own):
            yield format_table(ROW, rows)


def list_setting_rows(settings: type, prefix: str = "", skip: Sequence[str] = ()) -> list[Row]:
    """List the fields of a settings dataclass as table rows with the cells key, type, default and meaning.

    Fields of nested dataclasses get dotted keys.

    Args:
        settings: The dataclass.
        prefix: String to put before each key.
        skip: The names of fields to omit.
    """
    hints, texts = get_type_hints(settings), read_meanings(settings)
    rows: list[Row] = []
    for field in dataclasses.fields(settings):
        hint = hints[field.name]
        if field.name in skip:
            continue
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            rows += list_setting_rows(hint, f"{prefix}{field.name}.")
            continue
        meaning = texts.get(field.name) or explain_by_name(field.name)
        rows.append((f"`{prefix}{field.name}`", describe_type(hint), format_default(field), meaning))
    return rows


def read_summary(settings: type) -> str:
    """Return the docstring of a settings dataclass without the field descriptions. Each paragraph becomes one line."""
    names = {field.name for field in dataclasses.fields(settings)}
    paragraphs = (inspect.getdoc(settings) or "").split("\n\n")
    plain = [text for text in paragraphs if text.partition(":")[0].split(", ")[0] not in names]
    return "\n\n".join(" ".join(text.split()) for text in plain)


def format_default(field: "dataclasses.Field[Any]") -> str:
    """Format a field's default in recipe syntax, or return "required" if it has none."""
    if field.name == "seed":
        return "the recipe's `seed`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{format_toml(field.default_factory())}`"
    if field.default is dataclasses.MISSING:
        return "required"
    return "none" if field.default is None else f"`{format_toml(field.default)}`"


def format_toml(value: Any) -> str:
    """Format a value as TOML.

    >>> format_toml(("en",)), format_toml({"text": "body"}), format_toml(True)
    ('["en"]', '{ text = "body" }', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {format_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(format_toml, value))}]"
    return f"{value:_}" if isinstance(value, int) and value >= 100_000 else str(value)


TYPE_NAMES: Mapping[object, str] = {
    str: "text",
    Path: "path",
    int: "whole number",
    float: "number",
    bool: "true or false",
}


def describe_type(hint: Any) -> str:
    """Describe the type of a setting in words, such as "whole number". `None` in a union is omitted.

    >>> describe_type(tuple[str, ...]), describe_type(int | str | None)
    ('list of text', 'whole number or text')
    """
    origin, arguments = get_origin(hint), [a for a in get_args(hint) if a not in (type(None), Ellipsis)]
    if origin in (tuple, list):
        return f"list of {describe_type(arguments[0])}"
    if origin is types.UnionType or (origin is not None and str(origin) == "typing.Union"):
        return " or ".join(dict.fromkeys(map(describe_type, arguments)))
    return "table" if origin is not None or dataclasses.is_dataclass(hint) else TYPE_NAMES[hint]


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table, escaping vertical bars in its cells.

    Args:
        head: The column headers.
        rows: The cells of each row, as many as there are headers.
    """
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
