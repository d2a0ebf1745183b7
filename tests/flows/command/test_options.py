"""Every option at its edges, over the whole command line: exit code 2 and one paragraph, or it works.

The law: what a command is given is judged where it is given. A number has a kind with bounds
(`corpora.store.settings`), whichever door it comes through; what the system refuses of a path that was named is a
paragraph about that path; nothing is a traceback, a hang or exit code 1.
"""

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from cyclopts import CycloptsError
from recorded_run import record
from small_recipe import Run, World
from tiers import a_few

import cloze
from corpora.errors import InputError
from corpora.store.settings import COUNT, DAYS, EPOCH, PORT, POSITION, PROCESSES, SECONDS, SHARE, NumberRange
from flows.command.cli import app, run_command_line
from flows.command.help import find_command, list_command_names
from flows.orchestration.scheduled_run import build_schedule, check_deployable
from flows.orchestration.steps import prepare_run

NEVER = (str(10**12), str(10**20), "-1000000000000", "nan", "inf", "-inf", "x", "1.5.2")  # of no option
NEGATIVE = {"embed --layers"}  # counted from the last; how many there are is known from the model alone
KINDS = (COUNT, DAYS, EPOCH, PORT, POSITION, PROCESSES, SECONDS, SHARE)


def is_numeric(hint: Any) -> bool:
    """Whether an option takes numbers, and no switch."""
    return hint in (int, float) or any(map(is_numeric, get_args(hint)))


def arguments_of(command: str) -> list[Any]:
    every = find_command(app, command).assemble_argument_collection()
    return [each for each in every if each.parse and not each.children]


def numbers() -> Iterator[tuple[str, str, Any]]:
    """Each option that takes a number: its command, its name, and what it is."""
    for command in list_command_names(app):
        yield from ((command, each.names[0], each) for each in arguments_of(command) if is_numeric(each.hint))


def line_with(command: str, name: str, value: str) -> list[str]:
    """A command that has what it needs, in words that mean nothing, and one option with a value."""
    line = command.split()
    for each in arguments_of(command):
        if each.required and name not in each.names:
            given = "1" if is_numeric(each.hint) else "x"
            line += [each.names[0], given] if each.names else [given, given]
    return [*line, f"{name}={value}"]


def parsed(line: list[str]) -> Any:
    """The arguments that a line means. Raises as the command does."""
    _, bound, _ = app.parse_args(line, exit_on_error=False, print_error=False)
    return bound.arguments


def test_every_option_that_takes_a_number_has_bounds() -> None:
    """Fails if a new option takes any number: -1 workers, 10**20 seconds, nan days. 1 is a number of each."""
    seen = list(numbers())
    assert len(seen) > 35
    for command, name, _ in seen:
        never = ["-1", *a_few(NEVER, 3, f"{command} {name}")]
        if f"{command} {name}" in NEGATIVE:
            never = ["nan", "x"]
        elif takes_any_place(command, name):
            never = [each for each in never if each != str(10**12)]
        for value in never:
            with pytest.raises((CycloptsError, InputError)) as refused:
                parsed(line_with(command, name, value))
            assert name.lstrip("-").replace("-", "_") in str(refused.value).replace("-", "_"), (command, name, value)
        assert parsed(line_with(command, name, "1")), (command, name)


def takes_any_place(command: str, name: str) -> bool:
    """Whether an option takes the place of one of many, for which nothing is reserved: it may be far."""
    try:
        parsed(line_with(command, name, str(1 << 62)))
    except (CycloptsError, InputError):
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_number_holds_its_bounds_and_nothing_else(kind: NumberRange) -> None:
    """Fails if a bound is not one, or nan, a text, a truth or nothing is a number."""
    for value in (kind.low, kind.high):
        kind.check("it", value)
    for value in (kind.low - 1, kind.high + 1, 10**30, math.nan, math.inf, -math.inf, "1", "", True, None, [1]):
        with pytest.raises(InputError, match=r"^it = .* is out of range: it must be a (whole )?number from "):
            kind.check("it", value)


WRONG = (-3, 0, 10**12, 10**20, math.nan, math.inf, "", "text", 1.5, True)


@pytest.mark.parametrize("workers", WRONG)
def test_the_doors_of_python_and_of_schedules_have_the_same_bounds(workers: Any, built: World) -> None:
    """Fails if a number that the command refuses comes in through Python, a deployment or its parameters."""
    recipe, _ = built.resolved()
    for door in (
        lambda: cloze.run(built.folder / "small.toml", workers=workers),
        lambda: cloze.read(built.folder / "raw", workers=workers),
        lambda: check_deployable(recipe, workers),
        lambda: prepare_run(recipe, built.folder, print, workers),
        lambda: build_schedule(None, workers),
    ):
        with pytest.raises(InputError, match=r"must be a whole number from 1 to "):
            door()


# What is named.

TEXT = "raw/pages/*.jsonl"
LINES = (
    *("plan {}", "plan small.toml --quick --store {}", "plan --quick --source {}", "plan small.toml --engine {}"),
    *("plan small.toml --quick --set {}", "preview {} --recipe small.toml", "preview pages --recipe {}", "new {}"),
    *("new another --template {}", "fetch {}", "fetch small.toml --source {}", "inspect {}", "trace {} 0"),
    *("trace store --document {}", "trace store 0 --split {}", "verify {}", "report {}", "report store --run {}"),
    *("report store --output {}", "vocabulary show {}", "vocabulary show small {}", "vocabulary show small --store {}"),
    *("vocabulary compare small {}", "vocabulary compare small small --text {}"),
    *("vocabulary adapt small --corpus {} --output new", "vocabulary adapt {} --corpus raw/pages --output new"),
    *("shards materialise {} --epoch 0 --to new", "shards materialise store --epoch 0 --to {}"),
    *("shards materialise store --epoch 0 --to new --split {}", "runs {}", "status {}", "gc {}", "diff {}"),
    *("diff store {}", "diff store store --store {}", "dedup {} new", f"dedup {TEXT} {{}} --text body"),
    *(f"dedup {TEXT} new --text {{}}", f"dedup {TEXT} new --text body --against {{}}"),
    *(f"dedup {TEXT} new --text body --{option} {{}}" for option in ("rule", "keep", "id", "within", "parts")),
    *("dedup store --similar {}", "dedup {} --similar text", "release {} --name a", "release small.toml --name {}"),
    *("releases {}", "releases store --name {}", "rollback {}", "deploy {} --pool a --output new.yaml"),
    *("deploy small.toml --pool {} --output new.yaml", "deploy small.toml --pool a --cron {} --output new.yaml"),
    *("deploy small.toml --pool a --output {}", "export {} new", "export store {} --kind shards"),
    *("export store new --kind {}", "export store new --kind shards --name {}"),
    *("export store new --kind shards --split {}", "serve {} --every 9", "serve small.toml --cron {}", "train {}"),
    *("check {} --task classes", "check labels.csv --task {}", "check labels.csv --task classes --column {}"),
    *(f"check labels.csv --task classes --{option} {{}}" for option in ("format", "set", "accept")),
)
THINGS = (
    *("missing", "missing/deeper", "folder", "file", "file/x", "/dev/null", "", ".", " ", "x" * 5_000, "line\nbreak"),
    *(os.fsdecode(b"\xff\xfe"), "s3://", "https://127.0.0.1:9/x", "file:///nonexistent/x", "~nobody9/x", "-x"),
)


@pytest.mark.slow
def test_whatever_is_named_is_refused_in_a_paragraph_or_works(
    first: Run, built: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails if a path, an address or a word that cannot be meant is a traceback, or a command made anything of it
    in a folder of that name.
    """
    monkeypatch.chdir(built.folder)
    monkeypatch.setenv("CLOZE_HOME", str(built.folder))
    record(first, "20260101T000000772041-small")
    (built.folder / "labels.csv").write_text("text,label\n" + "one,a\ntwo,b\n" * 5)
    (built.folder / "folder").mkdir()
    (built.folder / "file").write_text("x")
    worked = 0
    for line, thing in a_few([(line, thing) for line in LINES for thing in THINGS], 120, "named"):
        if "/dev/null" in thing and line.endswith("--output {}"):
            continue  # as root, a file would take its place
        try:
            worked += run_command_line([part.replace("{}", thing) for part in line.split()], built.folder) in (0, 1)
        except InputError as refused:
            text = str(refused)
            assert text and "Traceback" not in text and "\n\n" not in text, (line, thing)
        assert not (built.folder / "https:").exists() and not (built.folder / "s3:").exists(), line
    assert worked
    capfd.readouterr()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("new a --template bokks", "did you mean 'books'"),
        ("trace store 0 --split trian", "did you mean 'train'"),
        ("export store new --kind shard", "did you mean 'shards'"),
        ("export store new --split trian --kind shards", "did you mean 'train'"),
        ("dedup raw new --rule contain", "did you mean 'contained'"),
        ("dedup raw new --keep longst", "did you mean 'longest'"),
        ("dedup raw new --parts line", "did you mean 'lines'"),
        ("preview page --recipe small.toml", "did you mean 'pages'"),
        ("check labels.csv --task clases", "did you mean 'classes'"),
        ("check labels.csv --task classes --format cvs", "did you mean 'csv'"),
        ("check labels.csv --task classes --accept leek", "did you mean 'leak'"),
        ("check labels.csv --task classes --set labls=1", "did you mean 'labels'"),
        ("check labels.csv --task classes --column lable=a", "did you mean 'label'"),
        ("embed model text.txt --by texts", "did you mean 'text'"),
        ("embed model text.txt --combine meen", "did you mean 'mean'"),
        ("runn", 'Did you mean "run"'),
        ("runs --limt 3", "Did you mean --limit"),
    ],
)
def test_a_wrong_word_of_a_few_is_answered_with_the_nearest(
    line: str, said: str, finished: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fails if a choice is refused without the word that was nearly given."""
    assert finished.recipe.path is not None
    (tmp_path / "labels.csv").write_text("text,label\n" + "one,a\ntwo,b\n" * 5)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("one text")
    for name in ("store", "small.toml"):
        (tmp_path / name).symlink_to(finished.recipe.path.parent / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(said)):
        run_command_line(line.split(), tmp_path)
