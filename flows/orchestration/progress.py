"""Where a run is: a line for each group of its stages, the first artifact on its page.

    group        state       stages            parts      now
    data         done        14                22 of 22
    vocabulary   under way   3, 1 reused       4 of 6     measures/demo: 0 of 1 parts
    shards       next
    train        waits
    tasks        waits

If the run fails, the line in which it did says why, and so does the text above.
Cost: a request at most every PROGRESS_SECONDS, and one when a group begins or the run ends.
"""

import time
from dataclasses import dataclass, field

from corpora.store.stage import Stage
from flows.orchestration.pages import Living
from flows.recipes.recipe import Recipe
from flows.run.policies import PROGRESS_SECONDS
from flows.run.record.counts_text import progress_text
from flows.run.record.run_status import StageProgress
from flows.run.stage_kinds import STAGES


@dataclass(slots=True)
class _Group:
    """The stages of a group so far, by their folders. missing, built: numbers of parts"""

    missing: dict[str, int] = field(default_factory=dict)
    built: dict[str, int] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)  # to their state
    now: str = ""
    failed: bool = False


class Progress:
    """Follows the stages of a run, and shows where it is. Called by one thread at a time."""

    def __init__(self, recipe: Recipe) -> None:
        self._name = recipe.name
        self._artifact = Living(key=f"progress-{recipe.name}")
        self._groups = {kind.group: _Group() for kind in STAGES.values() if kind.artifact_names(recipe, {})}
        self._shown, self._is_over = 0.0, False

    def begin(self, stage: Stage, missing: int) -> None:
        """Note that a stage is to be built or found."""
        group = self._groups.setdefault(STAGES[stage.kind].group, _Group())
        is_first = not group.missing
        group.missing[stage.stage_folder], group.built[stage.stage_folder] = missing, 0
        group.ended.pop(stage.stage_folder, None)
        if is_first:
            self.show()

    def advance(self, what: str, built: int, pace: StageProgress) -> None:
        """Note that parts of a stage are built, or steps of its training are done. what: as in a heartbeat"""
        if self._is_over:  # it failed, and other tasks go on to their end
            return
        folder, now = what.removesuffix(" steps"), time.monotonic()
        group = self._groups[STAGES[folder.partition("/")[0]].group]
        if folder == what:
            group.built[folder] = built
        group.now = f"{folder}: {progress_text(what, pace.said(now))}"
        if now - self._shown >= PROGRESS_SECONDS:
            self.show()

    def finish(self, folder: str, state: str) -> None:
        """Note that a stage is whole. folder: kind and name; state: built, reused, or another of `StageRecord`"""
        self._groups[STAGES[folder.partition("/")[0]].group].ended[folder] = state

    def fail(self, why: str) -> None:
        """Show in the group that is under way that the run failed, and why."""
        begun = [name for name, group in self._groups.items() if group.missing]
        is_open = [name for name in begun if len(self._groups[name].ended) < len(self._groups[name].missing)]
        [failed] = (is_open or begun)[-1:] or [next(iter(self._groups))]
        self._groups[failed].failed, self._groups[failed].now = True, why
        self._is_over = True
        self.show(f"failed in {failed}. {why}")

    def end(self, text: str) -> None:
        """Show that the run has ended. text: what it came to"""
        self._is_over = True
        self.show(text)

    def show(self, text: str = "") -> None:
        """Show where the run is by now. text: what it came to, if it has ended"""
        self._shown, rows = time.monotonic(), self.rows()
        now = [row["group"] for row in rows if row["state"] == "under way"]
        self._artifact.show(rows, f"{self._name}: {text or ', '.join(now) or 'begins'}")

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each group of the recipe."""
        last = next((group for group in reversed(self._groups.values()) if group.missing), None)
        coming = next((group for group in self._groups.values() if not group.missing and not self._is_over), None)
        return [
            {"group": name, **_cells(group, self._is_over or group is not last, group is coming)}
            for name, group in self._groups.items()
        ]


def _cells(group: _Group, is_past: bool, is_next: bool) -> dict[str, str]:
    """Return what is shown of a group. is_past: whether no more of its stages can begin"""
    is_open, reused = len(group.ended) < len(group.missing), list(group.ended.values()).count("reused")
    waits = "next" if is_next else "waits"
    states = {"failed": group.failed, waits: not group.missing, "done": is_past and not is_open, "under way": True}
    state = next(state for state, holds in states.items() if holds)
    built, missing = sum(group.built.values()), sum(group.missing.values())
    return {
        "state": state,
        "stages": f"{len(group.ended)}{f', {reused} reused' if reused else ''}" if group.missing else "",
        "parts": f"{built:,} of {missing:,}" if missing else "",
        "now": group.now if state in ("failed", "under way") else "",
    }
