"""Every block of the README and the site is held by a test: run, parsed by the program, or compared with it.

Python blocks run in test_docs.py, the shell blocks of the tutorial and the how-tos in test_walkthroughs.py; what other
pages quote of the program's output is compared with its texts in test_runbook.py, the reference in test_help.py.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from checkout import ROOT
from cyclopts import CycloptsError
from page_blocks import PRINTING, WALKED, Block, all_blocks, blocks, blocks_of, commands

import cloze
from corpora.errors import InputError
from flows.command.cli import app, run_command_line
from flows.recipes.recipe import parse_recipe
from trainer.tasks.suites.suite import read_suite

LANGUAGES = {"python", "text", "console", "sh", "toml", "json", "yaml", "{toctree}", "{eval-rst}"}
INDENTED = {"runbook.md", "architecture.md", "releasing.md"}  # quotes, by test_runbook.py; drawings; two commands
PROGRAMS = {*"cloze crontab cd dask git gzip huggingface-cli make mktemp pip prefect python python3.12 source".split()}
FINETUNING = ("guide-finetuning.md", "guide-onnx.md")  # test_next_word.py, test_span_answers.py, test_onnx.py
CONVERTING = {  # a page whose Python converts texts: a file, its text, and what is printed or written
    "guide-inputs.md": ("raw/letters/a.txt", "The boat came. It was late.", "The boat came.\nIt was late.\n\n"),
    "guide-your-own-text.md": (
        "a.pubtator",
        "7|t|Gout\n7|a|It hurts.\n\n",
        '{"key": "7", "text": "Gout\\n\\nIt hurts."}\n',
    ),
}
REFERENCE = "reference.md"  # generated: test_help.py has its commands
SHELL = [block for block in all_blocks() if block.language in ("sh", "console") and block.page != REFERENCE]
HEAD = 'name = "text"\nstore = "store"'
SOURCE = '[[source]]\nkind = "files"\npath = "raw"\nname = "{}"'
VOCABULARY = "[vocabulary]\nsize = 1000"
SHARDS = '[[shards]]\nlength = 64\nname = "{}"'
MODEL = '[model]\nfamily = "bert"\nsize = "tiny"'
PHASE = "[[training.phase]]\nsteps = 1\nbatch = 1"


def unheld(block: Block) -> bool:
    """True for a block that no test of this suite would look at."""
    if block.language == "python":
        return block.page not in (*PRINTING, *CONVERTING, *FINETUNING)
    return block.page not in INDENTED if block.language == "" else block.language not in LANGUAGES


def test_every_block_is_in_a_language_that_a_test_holds() -> None:
    """Fails if a page gets a block that nothing runs, parses or compares."""
    assert len(all_blocks()) > 200
    assert [f"{block}: {block.language}" for block in all_blocks() if unheld(block)] == []
    made = blocks_of(
        "new.md", "```ruby\n1\n```\n\n    indented\n\n- item\n\n  ```python\n  1\n  ```\n\n```text\n1\n```\n"
    )
    assert [block.line for block in made if unheld(block)] == [1, 5, 9]


@pytest.mark.parametrize("page", CONVERTING)
def test_python_that_converts_texts_does_so(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file, text, made = CONVERTING[page]
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")
    [block] = blocks(page, "python")
    exec(compile(block.text, page, "exec"), {"cloze": cloze, "json": json, "re": re, "Path": Path})
    written = Path("input.txt")
    assert (written.read_text(encoding="utf-8") if written.is_file() else capsys.readouterr().out) == made


def completed(fragment: str) -> str:
    """Return a recipe with the least that a fragment lacks; its first keys without a table belong to a source."""
    has = tomllib.loads(fragment)
    shards, training = has.get("shards", ()), has.get("training", {})
    read = {name for each in shards if isinstance(each, dict) for name in each["sources"]} or {"text"}
    mixed = {name for phase in training.get("phase", ()) for name in phase.get("mixture", ())} or {"text"}
    lines = [HEAD] if "store" not in has else []
    lines += [SOURCE.format(name) for name in sorted(read)] if "source" not in has and lines else []
    lines += [fragment]
    if "path" not in has.get("vocabulary", {}) and "start" not in has.get("model", {}):
        lines += [VOCABULARY] if "vocabulary" not in has else []
    lines += [SHARDS.format(name) for name in sorted(mixed)] if not shards else []
    if {"model", "training", "bounds"} & has.keys():
        lines += ([MODEL] if "model" not in has else []) + ([PHASE] if "training" not in has else [])
    return "\n".join(lines)


def refusal(text: str, folder: Path) -> str:
    """Return why the program refuses a recipe; empty: it takes it."""
    try:
        parse_recipe(text, folder / "text.toml", {})
    except InputError as error:
        return str(error)
    return ""


def misspelt(text: str) -> list[str]:
    """Return a text once for each key and table, with its last letter twice there; figures to bound are of a run."""
    lines, inner = r"^\[*[\w.]+(?=\s*=|\]+\s*(?:#|$))", r"(?<=[{,] )\w+(?= = )"
    keys = [*re.finditer(inner if text.startswith("[bounds]") else f"{lines}|{inner}", text, re.MULTILINE)]
    return [text[: key.end()] + key[0][-1] + text[key.end() :] for key in keys]


RECIPES = [block for block in all_blocks() if block.language == "toml" and block.page != "own-task.md"]


@pytest.mark.parametrize("block", [block for block in RECIPES if "seeds" not in block.text], ids=str)
def test_a_recipe_shown_is_one(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a page shows a key or a value that the program refuses, or where another key would pass."""
    shutil.copytree(ROOT / "examples" / "shouting_step", tmp_path / "site")
    (tmp_path / "site" / "shouting-1.dist-info").mkdir()
    declared = tomllib.loads((tmp_path / "site" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = declared["entry-points"]["cloze.steps"].items()
    (tmp_path / "site" / "shouting-1.dist-info" / "METADATA").write_text("Name: shouting\nVersion: 1\n")
    (tmp_path / "site" / "shouting-1.dist-info" / "entry_points.txt").write_text(f"[cloze.steps]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    whole, changed = completed(block.text), misspelt(block.text)
    assert refusal(whole, tmp_path) == ""
    assert changed and [text for text in changed if not refusal(whole.replace(block.text, text), tmp_path)] == []


def test_a_suite_and_an_entry_point_shown_are_real(tmp_path: Path) -> None:
    """Fails if the suite on a page is refused or takes any key, or the entry point is not the example's."""
    [suite] = [block.text for block in all_blocks() if block.language == "toml" and "average" in block.text]
    (tmp_path / "mine.toml").write_text(suite, encoding="utf-8")
    (tmp_path / "reviews").mkdir()
    for name in ("train.tsv", "dev.tsv", "dev_matched.tsv", "dev_mismatched.tsv", "diagnostic.tsv"):
        (tmp_path / name).touch()
        (tmp_path / "reviews" / name).touch()
    assert [task.name for task in read_suite(str(tmp_path / "mine.toml")).tasks] == [
        "glue/cola",
        "glue/mnli",
        "reviews",
    ]
    (tmp_path / "mine.toml").write_text(suite.replace("seeds", "seedz"), encoding="utf-8")
    with pytest.raises(InputError, match="seeds"):
        read_suite(str(tmp_path / "mine.toml"))
    [shown] = [tomllib.loads(block.text) for block in blocks("own-task.md", "toml")]
    example = (ROOT / "examples" / "ordered_classes" / "pyproject.toml").read_text(encoding="utf-8")
    assert shown["project"]["entry-points"] == tomllib.loads(example)["project"]["entry-points"]


def test_lines_of_json_are_json() -> None:
    """Fails if a line shown as JSON cannot be read as such, or is no object."""
    lines = [line for block in all_blocks() if block.language == "json" for line in block.text.splitlines()]
    assert len(lines) > 3 and all(isinstance(json.loads(line), dict) for line in lines)


@pytest.mark.slow
def test_the_automation_shown_is_one() -> None:
    """Fails if Prefect would refuse it, or takes a trigger of another kind."""
    yaml = pytest.importorskip("yaml")
    from prefect.events.schemas.automations import AutomationCore

    [block] = [block for block in all_blocks() if block.language == "yaml"]
    automation = yaml.safe_load(block.text)
    assert AutomationCore.model_validate(automation).name == automation["name"]
    with pytest.raises(ValueError, match="posture"):
        AutomationCore.model_validate({**automation, "trigger": {**automation["trigger"], "posture": "Reactiv"}})


def refused(block: Block) -> list[str]:
    """Return the commands of a block that their program would refuse, or whose program is not expected."""
    return [f"{block}: {' '.join(words)}" for words in commands(block) if not is_taken(block, *words)]


def is_taken(block: Block, program: str, *arguments: str) -> bool:
    """True if a command, a target of make or a module is there, or another program may be shown."""
    name = Path(program).name
    if name == "cloze" and "..." not in arguments:
        try:
            filled = ["/dev/stdin" if word == "-" else word for word in arguments if not word.startswith("$")]
            app.parse_args(filled, exit_on_error=False, print_error=False)
        except CycloptsError:
            return False
    elif name == "make":
        return f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    elif name == "python" and arguments[0] == "-m":
        return importlib.util.find_spec(arguments[1]) is not None
    return block.page in WALKED or name in PROGRAMS


def test_commands_shown_are_understood() -> None:
    """Fails if a page shows a command, an option or a target that is not there, or what no shell reads."""
    assert sum(len([*commands(block)]) for block in SHELL) > 150
    assert [line for block in SHELL for line in refused(block)] == []
    scripts = "".join(f"{{\n{block.text}}}\n" for block in SHELL if block.language == "sh")
    subprocess.run(["bash", "-n"], input=scripts, text=True, check=True)


@pytest.mark.parametrize(
    "text",
    [
        "cloze runn my.toml",
        "cd x && .venv/bin/cloze trace store 0 --spilt held-out > x",
        "make tset",
        "python -m benchmarks.nothing",
        "rubi x",
        "cd <<'END' | cloze run x\ncloze nothing\nEND\ncloze plan \\\n  --strore x",
    ],
)
def test_a_command_that_is_not_there_is_noticed(text: str) -> None:
    """Fails if the check above takes anything."""
    assert len(refused(Block(page="x.md", line=1, language="sh", text=text))) == 1


def test_recipes_are_started_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a `cloze new` of a page does not work, or prints anything else."""
    monkeypatch.chdir(tmp_path)
    started = [(block, words[1:]) for block in SHELL for words in commands(block) if "new" in words[1:2]]
    assert len(started) > 2
    for block, arguments in started:
        assert run_command_line(arguments, tmp_path) == 0
        shown, printed = block.text.partition("\n")[2], capsys.readouterr().out
        assert not shown or shown == printed, block
