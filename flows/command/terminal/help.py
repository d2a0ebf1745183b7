"""The help of the command: its groups, the ten commands to know first, and two examples of each command.

`arrange` puts them into the program, so `cloze --help`, `cloze COMMAND --help` and the reference say the same.
Cost: negligible; rich is imported when help is printed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cyclopts import App, Group

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

Example = tuple[str, str]  # the command, and what it does

NAMES = 12  # characters of the column of names in `cloze --help`
WIDTH = 77  # of an example

WELCOME = """\
Cloze turns raw text into trained BERT-family encoders. Type one of these first:

  cloze demo                   raw files to a small model, here, without network
  cloze run --source FOLDER    build your own folder of text
  cloze new NAME               write a recipe that you keep
  cloze doctor                 check this machine

`cloze --help` lists all commands; `cloze COMMAND --help` explains one."""

GROUPS: Mapping[str, str] = {
    "Ten to know first": "demo run new preview plan status report trace finetune serve",
    "Start": "doctor prepare fetch",
    "Look": "inspect runs diff verify ui",
    "Operate": "deploy release releases rollback gc export lineage",
    "Train": "train grid import shards",
    "Tasks": "predict evaluate fill generate embed search onnx",
    "Vocabularies": "vocabulary",
    "Options": "--help --version --install-completion",
}

EXAMPLES: Mapping[str, tuple[Example, Example]] = {
    "demo": (
        ("cloze demo", "a recipe that comes with Cloze, to the end"),
        ("cloze demo --workers 2", "with two processes"),
    ),
    "run": (
        ("cloze run --source FOLDER", "a folder of text, built into ./store"),
        ("cloze run news.toml --set shards.length=256", "a recipe, with one setting changed"),
    ),
    "new": (
        ("cloze new notes", "writes notes.toml"),
        ("cloze new mine --template bert-base", "the recipe of a published model"),
    ),
    "preview": (
        ("cloze preview FOLDER -n 3", "three documents of a folder"),
        ("cloze preview wikipedia --recipe demo", "a source of a recipe"),
    ),
    "plan": (
        ("cloze plan news.toml", "with estimates from a sample"),
        ("cloze plan news.toml --quick --json", "without a sample, for scripts"),
    ),
    "status": (
        ("cloze status", "of ./store"),
        ("cloze status s3://bucket/store --json", "of another store, for scripts"),
    ),
    "report": (
        ("cloze report", "of the newest run in ./store"),
        ("cloze report store --run 483910 --output run.html", "of one run, to a file"),
    ),
    "trace": (
        ("cloze trace store 0", "the first example of the newest shards"),
        ("cloze trace store 7 --split held-out --json", "for scripts"),
    ),
    "finetune": (
        ("cloze finetune glue/sst2 store --data SST-2 --output sst2", "a published set"),
        ("cloze finetune classes store --train a.csv --evaluate b.csv --output c", "your own"),
    ),
    "serve": (
        ('cloze serve news.toml --cron "0 3 * * *"', "every night at three"),
        ("cloze serve news.toml --every 3600 --run-now >> serve.log", "hourly, with a log"),
    ),
    "doctor": (
        ("cloze doctor", "this machine"),
        ("cloze doctor news.toml --json", "and what a recipe needs, for scripts"),
    ),
    "prepare": (
        ("cloze prepare", "once, before the first run"),
        ("CLOZE_HOME=/data/cloze cloze prepare", "with another folder for caches"),
    ),
    "fetch": (
        ("cloze fetch news.toml", "all files of all sources"),
        ("cloze fetch news.toml --source wikipedia --limit 1", "one file of one source"),
    ),
    "inspect": (
        ("cloze inspect store", "everything in a store"),
        ("cloze inspect store/shards --json", "of one kind, for scripts"),
    ),
    "runs": (
        ("cloze runs", "of ./store"),
        ("cloze runs news.toml --limit 0 --json", "all of a recipe, for scripts"),
    ),
    "diff": (
        ("cloze diff", "the newest run and the one before it"),
        ("cloze diff 483910 772041 --all", "two runs, what is the same too"),
    ),
    "verify": (
        ("cloze verify store", "reads every file"),
        ("cloze verify store --repair", "and rebuilds what is damaged"),
    ),
    "ui": (
        ("cloze ui", "on http://127.0.0.1:4200"),
        ("cloze ui --port 4201", "on another port"),
    ),
    "deploy": (
        ("cloze deploy news.toml --pool main", "writes prefect.yaml"),
        ('cloze deploy news.toml --pool main --cron "0 3 * * *" --force', "with a schedule"),
    ),
    "release": (
        ("cloze release news.toml --name prod", "its newest complete run"),
        ("cloze release 483910 --name prod --reason 'less spam'", "a run of ./store"),
    ),
    "releases": (
        ("cloze releases", "of ./store"),
        ("cloze releases store --name prod --json", "one name, for scripts"),
    ),
    "rollback": (
        ("cloze rollback prod", "to what the name meant before"),
        ("cloze rollback prod --to 2 --reason 'too many tables'", "to one entry"),
    ),
    "gc": (
        ("cloze gc", "shows what would go"),
        ("cloze gc --keep 5 --delete", "keeps five runs of each recipe"),
    ),
    "export": (
        ("cloze export store out --kind corpora", "a corpus as Parquet"),
        ("cloze export store/models/news model --step 1000", "a checkpoint"),
    ),
    "lineage": (
        ("cloze lineage store events.json", "the newest run of ./store"),
        ("cloze lineage 483910 events.ndjson --namespace news", "one run, an event a line"),
    ),
    "train": (
        ("cloze train work/job.json", "here"),
        ("cloze train work/job.json --nodes 2 --node-rank 1 --rendezvous a:29500", "on two machines"),
    ),
    "grid": (
        ("cloze grid masking news.toml --output grid", "three rates of masking"),
        ("cloze grid masking news.toml --output grid --suite glue --data GLUE", "evaluated as well"),
    ),
    "import": (
        ("cloze import old-bert new-bert", "a folder with pytorch_model.bin"),
        ("cloze import old new --family roberta --no-lowercase", "where files do not show it"),
    ),
    "shards materialise": (
        ("cloze shards materialise store --epoch 0 --to epoch-0", "in the order of the shards"),
        ("cloze shards materialise store --epoch 1 --to epoch-1 --seed 42", "as a training reads it"),
    ),
    "predict": (
        ("cloze predict sst2 new.csv --output answers.jsonl", "an answer a record"),
        ("cloze predict sst2 test.csv --output answers.jsonl --labelled", "with scores"),
    ),
    "evaluate": (
        ("cloze evaluate store glue --data GLUE", "the newest model of ./store"),
        ("cloze evaluate store glue --data GLUE --compare bert --json", "against another model"),
    ),
    "fill": (
        ('cloze fill store "The [MASK] rose."', "the newest model of ./store"),
        ('cloze fill store@prod "The [MASK] rose." --top 3 --json', "a released one, for scripts"),
    ),
    "generate": (
        ('cloze generate model "Once upon"', "one text"),
        ('cloze generate model "Once" "Then" --tokens 20 --temperature 0', "the most probable words"),
    ),
    "embed": (
        ("cloze embed store texts.jsonl --output vectors.parquet", "a vector a text"),
        ("cloze embed store texts.jsonl --output words.parquet --by word", "a vector a word"),
    ),
    "search": (
        ('cloze search notes.jsonl "wing flutter" --model store', "one query"),
        ("cloze search docs.tsv queries.tsv --model m --judgements qrels", "many, with scores"),
    ),
    "onnx": (
        ("cloze onnx sst2 sst2-onnx", "for machines without torch"),
        ("cloze onnx sst2 sst2-onnx --int8 --evaluate dev.csv", "smaller as well, and judged"),
    ),
    "vocabulary show": (
        ("cloze vocabulary show news", "a vocabulary of ./store"),
        ('cloze vocabulary show bert/vocab.txt "unbelievable" --json', "a file, and a text cut by it"),
    ),
    "vocabulary compare": (
        ("cloze vocabulary compare news bert/vocab.txt", "on a story"),
        ("cloze vocabulary compare news legal --text law.txt", "on your own text"),
    ),
    "vocabulary adapt": (
        ("cloze vocabulary adapt bert --corpus FOLDER --output bert-law", "to a folder of text"),
        ("cloze vocabulary adapt bert --corpus law --fill --output bert-law", "to a corpus of ./store"),
    ),
}


# The keys of the document that `--json` prints; "each:" where it is a list of objects. Keys may be added, none goes.
JSON_KEYS: Mapping[str, str] = {
    "preview": "each: title where parsed steps verdict",
    "plan": "inputs stages estimates engine",
    "status": "running lost schedules waiting quarantine",
    "report": "report",
    "trace": "shards split example tokens documents; with --document: shards document examples",
    "doctor": "each: name ok fact remedy",
    "inspect": "each: kind name fingerprint content settings parents tables ledger parts",
    "runs": "each: run_id recipe state started seconds workers new_parts cpu_seconds bytes_written peak_bytes",
    "diff": "before after figures",
    "verify": "whole faults left files artifacts runs releases unnamed rebuilt",
    "release": "store current name number action recipe run artifacts who when reason",
    "releases": "each: store current name number action recipe run artifacts who when reason",
    "rollback": "store current name number action recipe run artifacts who when reason back_to",
    "gc": "deleted artifacts files runs unknown size_bytes",
    "export": "artifact folder splits",
    "grid": "grid source caveat rows",
    "shards materialise": "shards split epoch examples deleted files folder",
    "predict": "task ledger scores output",
    "evaluate": "suite model rows comparison",
    "fill": "text masks",
    "generate": "each: text more",
    "search": "queries documents indexed unjudged scores before_reranking results",
    "vocabulary show": "size algorithm words special_tokens ordinary longest",
    "vocabulary compare": "vocabularies overlap paragraph disagreement cut_apart",
    "vocabulary adapt": "size wanted filled appended model_rows before after tokens",
}


def command_names(program: App) -> list[str]:
    """Return the commands of a program in the order of its help: `run`, `vocabulary show`, ..."""
    names = []
    for name in sorted((name for name in program if not name.startswith("-")), key=_rank):
        inner = command_names(program[name])
        names += [f"{name} {below}" for below in inner] or [name]
    return names


def command_of(program: App, name: str) -> App:
    """Return the command of a name as `command_names` has it."""
    for part in name.split():
        program = program[part]
    return program


def summary_of(command: App) -> str:
    """Return the line that says what a command does."""
    return command.help.partition("\n")[0]


def _rank(name: str) -> int:
    """Return a command's place in the order of the groups; those of a group's command keep their own order."""
    ordered = " ".join(GROUPS.values()).split()
    return ordered.index(name) if name in ordered else 0


def arrange(program: App) -> None:
    """Put the commands of a program into their groups, and examples into their help."""
    for number, (title, names) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number, help_formatter=show_group)
        for name in names.split():
            program[name].group = (group,)
            program[name].sort_key = _rank(name)
    for name, examples in EXAMPLES.items():
        command_of(program, name).help_epilogue = f"Examples:\n\n```text\n{example_text(examples)}\n```\n"


def example_text(examples: tuple[Example, Example]) -> str:
    """Return two examples as lines: what each does is to the right of it, or above where lines would be too long."""
    wide = max(len(command) for command, _ in examples)
    if wide + max(len(what) for _, what in examples) + 4 > WIDTH:
        return "\n".join(f"# {what}\n{command}" for command, what in examples)
    return "\n".join(f"{command:{wide}}  # {what}" for command, what in examples)


def show_group(console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
    """Print a group of commands, a line each: name and summary, in columns that are the same for all groups."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=NAMES, no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for entry in panel.entries:
        table.add_row(f"  {entry.display_labels[0]}", entry.description)
    console.print(f"[bold]{panel.title}[/bold]", table, sep="\n")
