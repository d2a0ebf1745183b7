"""Notifications of a run: of failures, of standing still, and of recipes that cannot be read."""

import json
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from launched import PATIENCE
from recorded_run import of_recipe
from small_recipe import RECIPE

from corpora.errors import InputError
from flows.orchestration.notifications import (
    ActivityMonitor,
    Notifier,
    read_recipe_or_notify,
    report_failure,
    report_stalls,
)
from flows.recipes.recipe import Recipe, parse_recipe


def told(tmp_path: Path, more: str = "") -> Recipe:
    """A recipe that has everything written to the file `heard`, an object a line."""
    heard = shlex.quote(str(tmp_path / "heard"))
    script = f"cat >> {heard}; echo >> {heard}"
    notify = f'[notify]\ncommand = ["sh", "-c", {json.dumps(script)}]\n{more}'
    path = tmp_path / "small.toml"
    path.write_text(f"{RECIPE}\n{notify}\n")
    return parse_recipe(path.read_text(), path, {})


def heard(tmp_path: Path) -> list[dict[str, str]]:
    path = tmp_path / "heard"
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def test_a_failure_is_told_and_raised_on(tmp_path: Path) -> None:
    """Fails if an error is swallowed, told without its reason, or an end without one is told as a failure."""
    said: list[str] = []
    with report_failure(told(tmp_path), said.append):
        pass
    assert heard(tmp_path) == []
    for error in (InputError("No raw file."), ZeroDivisionError("by zero")):
        with pytest.raises(type(error)), report_failure(told(tmp_path), said.append) as notifier:
            notifier.run_id = "r1"
            raise error
    assert [(one["event"], one["run"], one["text"]) for one in heard(tmp_path)] == [
        ("failure", "r1", "The run of small failed. No raw file."),
        ("failure", "r1", "The run of small failed. ZeroDivisionError: by zero"),
    ]
    assert said == []


def test_a_notice_that_fails_leaves_the_error_as_it_is(tmp_path: Path) -> None:
    """Fails if a command that is not there hides why a run failed."""
    recipe, said = told(tmp_path), list[str]()
    recipe = parse_recipe(recipe.text, tmp_path / "small.toml", {"notify.command": '["no-such-program"]'})
    with pytest.raises(InputError, match="No raw file"), report_failure(recipe, said.append):
        raise InputError("No raw file.")
    assert len(said) == 1 and said[0].startswith("This notice could not be sent (failure) by the command no-such")


@pytest.mark.parametrize(
    ("right", "wrong", "why", "hears"),
    [
        ("[shards]", "[shrads]", "did you mean 'shards'", "heard"),
        ("[shards]", "[shards", "is not TOML", "heard"),
        ("[shards]", "[shards", "is not TOML", "other"),
        ("command =", "comand =", "did you mean 'command'", ""),
    ],
)
def test_a_recipe_that_cannot_be_read_tells_by_what_can_be(
    tmp_path: Path, right: str, wrong: str, why: str, hears: str
) -> None:
    """Fails if a mistake in a recipe on a schedule fails every night and nobody hears of it, or `--set` is lost."""
    path, other = tmp_path / "small.toml", shlex.quote(str(tmp_path / "other"))
    overrides = {"notify.command": json.dumps(["sh", "-c", f"cat > {other}"])} if hears == "other" else {}
    told(tmp_path)
    assert read_recipe_or_notify(path, overrides, print).name == "small" and not (tmp_path / "heard").exists()
    path.write_text(path.read_text().replace(right, wrong))
    with pytest.raises(InputError, match=why):
        read_recipe_or_notify(path, overrides, print)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted({hears, "small.toml"} - {""})
    if hears:
        notice = json.loads((tmp_path / hears).read_text())
        assert notice["recipe"] == "small" and notice["text"].startswith("The run of small failed. ")
        assert why in notice["text"]


def test_standing_still_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if signs of workers or of stages do not count, or the same stall is told again and again."""
    recipe, said, advanced = told(tmp_path, "stall_seconds = 1.0"), list[str](), list[int]()
    signs = ActivityMonitor(lambda stage, built, parts: advanced.append(built))
    clock, works, looks = [0.0], [0], [0]
    monkeypatch.setattr("flows.orchestration.notifications.time", SimpleNamespace(monotonic=lambda: clock[0]))

    def workers() -> tuple[int, ...]:
        looks[0] += 1
        return tuple(works)

    def pass_time(seconds: float) -> None:
        clock[0] += seconds
        before = looks[0]
        assert wait_for(lambda: looks[0] >= before + 2)  # the first may have begun before

    signs.get_workers_progress = workers
    with report_failure(recipe, said.append) as notifier, report_stalls(notifier, signs):
        pass_time(0.0)
        for number in range(4):  # signs come, of one kind or the other
            works[0] += 1
            pass_time(0.9)
            signs.advance("documents/a", number, 100)
            pass_time(0.9)
        assert said == []
        pass_time(1.1)
        assert wait_for(lambda: heard(tmp_path))
        pass_time(1.1)
    assert advanced == [0, 1, 2, 3]
    [notice] = heard(tmp_path)
    assert notice["event"] == "stall" and notice["text"] == said[0]
    assert said[0].startswith("The run of small has shown no progress for ")
    assert wait_for(lambda: not any(thread.name == "stalls" for thread in threading.enumerate()))


def judged(recipe: Recipe, *crossed: str) -> list[str]:
    """Report that a run crosses some bounds; what is printed."""
    said = list[str]()
    Notifier(recipe, said.append).notify_of_result(of_recipe("r", recipe, crossed=crossed), "report.html")
    return said


def test_an_unchanged_bound_is_named_once_and_a_day_later(tmp_path: Path) -> None:
    """Fails if eight runs of a schedule send eight notices, or a bound that was held in between is not named."""
    recipe = told(tmp_path, "[bounds]\ndocuments = { max = 1 }")
    path = Path(recipe.store) / "notices" / "small.json"
    first, second = (f"documents is {number} documents: the bound is max = 1" for number in (5, 6))
    other = "dropped share is 40 % of the records: the bound is max = 0.3"
    assert judged(recipe) == [] and not path.exists()
    assert judged(recipe, first) == []
    [line] = judged(recipe, second)
    assert line.startswith("No notice: the one of 20") and len(heard(tmp_path)) == 1
    assert judged(recipe, second, other) == []
    assert heard(tmp_path)[-1]["bounds"] == [second, other]
    assert judged(recipe, other) != [] and len(heard(tmp_path)) == 2
    assert judged(recipe) == [] and json.loads(path.read_text()) == {}
    assert judged(recipe, other) == [] and len(heard(tmp_path)) == 3
    before = {"dropped share: max = 0.3": "2026-01-01T00:00:00+00:00"}
    for text in (json.dumps(before), "{", "[1]", '{"dropped share: max = 0.3": 7}'):
        path.write_text(text)
        number = len(heard(tmp_path))
        assert judged(recipe, other) == [] and len(heard(tmp_path)) == number + 1, text


def test_a_notice_that_nobody_got_does_not_count(tmp_path: Path) -> None:
    """Fails if a dead receiver at the wrong moment hides a bound for a day."""
    recipe = told(tmp_path, "[bounds]\ndocuments = { max = 1 }")
    dead = parse_recipe(recipe.text, tmp_path / "small.toml", {"notify.command": '["no-such-program"]'})
    crossing = "documents is 5 documents: the bound is max = 1"
    for _ in range(2):
        [line] = judged(dead, crossing)
        assert line.startswith("This notice could not be sent (bounds)")
    assert judged(recipe, crossing) == [] and len(heard(tmp_path)) == 1


def wait_for(true: Callable[[], object]) -> bool:
    """Wait until something is true, which takes a moment; on a busy machine some more."""
    deadline = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(true())
