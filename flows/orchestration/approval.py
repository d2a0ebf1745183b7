"""A release that waits for a person: a paused Prefect flow run. Its page has the exceeded limits and a form.

The form asks to approve or reject, for a reason, and who decided. If nobody answers in time, it is rejected. The run
ends as Released or Rejected, and says by whom.
"""

from pathlib import Path
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed

from corpora.generic_types import Tell
from flows.maintenance.release import ApprovalDecision, ReleaseCandidate
from flows.orchestration.embedded_server import restore_password
from flows.orchestration.flow_end import close_when_stopped
from flows.orchestration.notifications import Notifier
from flows.orchestration.pages import escape_braces, escape_cell, find_ui, show_artifact
from flows.orchestration.scheduled_run import show_in_status
from flows.orchestration.serve import find_profile, open_api
from flows.run.record.run_record import format_now
from flows.run.record.run_status import get_waiting_path

POLL_SECONDS = 2


class Decision(RunInput):
    """The form in Prefect's UI in which a person approves or rejects a release."""

    decision: Literal["approve", "reject"] = "reject"
    reason: str = ""
    who: str = ""


def ask_person(candidate: ReleaseCandidate, home: Path, port: int, seconds: int, tell: Tell) -> ApprovalDecision:
    """Ask a person in Prefect's UI whether to add a release, and wait for the decision.

    Args:
        candidate: The candidate for release. Its run exceeds limits in its recipe.
        home: CLOZE_HOME, the folder of this installation's caches and server.
        port: The port for that server. It is used if the Prefect API in the user's profile does not answer.
        seconds: How long to wait.
        tell: Called with the URL of the page.

    Returns:
        The decision; a rejection if nobody answers in time.

    Raises:
        ServerFailed: If the server of this CLOZE_HOME does not start.
    """
    restore_password(home, port)
    with open_api(find_profile(tell), home, port, tell) as api:
        return _pause_for_answer(candidate, find_ui(api) or api, seconds, tell)


def _pause_for_answer(candidate: ReleaseCandidate, ui: str, seconds: int, tell: Tell) -> ApprovalDecision:
    """Run the Prefect flow that waits for a person's decision, and return it. If nobody decides, it is a rejection.

    Args:
        candidate: The candidate for release. Its run exceeds limits in its recipe.
        ui: The URL of Prefect's UI.
        seconds: How long to wait.
        tell: Called with the URL of the flow run's page.
    """
    decisions: list[ApprovalDecision] = []
    title = f"release {candidate.name} of {candidate.record.recipe}"

    @flow(name="cloze release", flow_run_name=escape_braces(title), persist_result=False)
    def release(name: str, run: str) -> State[Any]:
        """A release that a person approves or rejects."""
        with close_when_stopped():
            url = f"{ui}/runs/flow-run/{flow_run.id}"
            show_artifact(f"release-{name}", format_crossed_bounds(candidate), f"{title}: what crosses its bounds")
            tell(f"Waiting for approval: {url} (Resume there; rejected after {seconds} s without an answer)")
            _notify_person(candidate, url, tell)
            place, waiting = candidate.place, describe_waiting_release(candidate, url)
            with show_in_status(place, get_waiting_path(candidate.name), lambda: waiting, "release", tell):
                verdict = _wait_for_answer(candidate, seconds)
            decisions.append(verdict)
            by = f" by {verdict.who}" if verdict.who else ""
            why = f": {verdict.reason}" if verdict.reason else ""
            if verdict.approved:
                return Completed(name="Released", message=f"Approved{by}{why}.")
            return Cancelled(name="Rejected", message=f"Rejected{by}{why}.")

    release(candidate.name, candidate.record.run_id, return_state=True)
    unanswered = ApprovalDecision(approved=False, reason="the flow run ended without an answer")
    return decisions[0] if decisions else unanswered


def describe_waiting_release(candidate: ReleaseCandidate, url: str) -> dict[str, str]:
    """Build the entry of `cloze status` for a release that waits for a person's approval.

    Args:
        candidate: The release.
        url: The URL of the flow run's page.

    Returns:
        A dict with the keys "release", "recipe", "run", "since" (when the waiting began) and "url".
    """
    run = candidate.record
    return {"release": candidate.name, "recipe": run.recipe, "run": run.run_id, "since": format_now(), "url": url}


def _wait_for_answer(candidate: ReleaseCandidate, seconds: int) -> ApprovalDecision:
    """Pause the current Prefect flow run until a person has filled in the form, and return the decision.

    Args:
        candidate: The release to decide on.
        seconds: How long to wait. After that, the release is rejected.
    """
    form = Decision.with_initial_data(description=format_crossed_bounds(candidate))
    try:
        answer = pause_flow_run(wait_for_input=form, timeout=seconds, poll_interval=POLL_SECONDS)
    except FlowPauseTimeout:
        return ApprovalDecision(approved=False, reason=f"nobody answered within {seconds} s")
    return ApprovalDecision(approved=answer.decision == "approve", reason=answer.reason, who=answer.who)


def format_crossed_bounds(candidate: ReleaseCandidate) -> str:
    """Format the limits that a run exceeds as Markdown, with the run and the earlier run that it was compared with.

    Args:
        candidate: The release that waits for approval.
    """
    head = f"The run {escape_cell(candidate.record.run_id)} against {escape_cell(candidate.compared_with)}."
    return "\n".join([head, "", *(f"- {escape_cell(line)}" for line in candidate.crossed)])


def _notify_person(candidate: ReleaseCandidate, url: str, tell: Tell) -> None:
    notifier = Notifier(candidate.recipe, tell)
    notifier.run_id = candidate.record.run_id
    text = f"The release {candidate.name} of {candidate.record.recipe} waits for approval: {url}"
    notifier.send("approval", text, url=url, bounds=candidate.crossed)
