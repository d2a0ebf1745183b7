"""A release that waits for a person: a flow run that is paused, with what crosses the bounds on its page and a form.

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
from flows.maintenance.release import PersonsWord, Promotion
from flows.orchestration.embedded_server import adopt_password
from flows.orchestration.flow_end import close_when_stopped
from flows.orchestration.notifications import Notifier
from flows.orchestration.pages import escape_braces, in_row, show_once, ui_of
from flows.orchestration.scheduled_run import shown_in_status
from flows.orchestration.serve import answering_profile, api_at_work
from flows.run.record.run_record import format_now
from flows.run.record.run_status import get_waiting_path

POLL_SECONDS = 2


class Decision(RunInput):
    """The fields of the form."""

    decision: Literal["approve", "reject"] = "reject"
    reason: str = ""
    who: str = ""


def ask_a_person(promotion: Promotion, home: Path, port: int, seconds: int, tell: Tell) -> PersonsWord:
    """Ask a person in the UI for a decision on a release. seconds: to wait; then it is rejected"""
    adopt_password(home, port)
    with api_at_work(answering_profile(tell), home, port, tell) as api:
        return _pause(promotion, ui_of(api) or api, seconds, tell)


def _pause(promotion: Promotion, ui: str, seconds: int, tell: Tell) -> PersonsWord:
    verdicts: list[PersonsWord] = []
    title = f"release {promotion.name} of {promotion.record.recipe}"

    @flow(name="cloze release", flow_run_name=escape_braces(title), persist_result=False)
    def release(name: str, run: str) -> State[Any]:
        """A release that a person approves or rejects."""
        with close_when_stopped():
            url = f"{ui}/runs/flow-run/{flow_run.id}"
            show_once(f"release-{name}", crossed_lines(promotion), f"{title}: what crosses its bounds")
            tell(f"Waiting for approval: {url} (Resume there; rejected after {seconds} s without an answer)")
            _tell_person(promotion, url, tell)
            place, waiting = promotion.place, says_who_waits(promotion, url)
            with shown_in_status(place, get_waiting_path(promotion.name), lambda: waiting, "release", tell):
                verdict = _answer(promotion, seconds)
            verdicts.append(verdict)
            by = f" by {verdict.who}" if verdict.who else ""
            why = f": {verdict.reason}" if verdict.reason else ""
            if verdict.approved:
                return Completed(name="Released", message=f"Approved{by}{why}.")
            return Cancelled(name="Rejected", message=f"Rejected{by}{why}.")

    release(promotion.name, promotion.record.run_id, return_state=True)
    return verdicts[0] if verdicts else PersonsWord(approved=False, reason="the flow run ended without an answer")


def says_who_waits(promotion: Promotion, url: str) -> dict[str, str]:
    """Return what `cloze status` reports of the store while a release waits for a person."""
    run = promotion.record
    return {"release": promotion.name, "recipe": run.recipe, "run": run.run_id, "since": format_now(), "url": url}


def _answer(promotion: Promotion, seconds: int) -> PersonsWord:
    form = Decision.with_initial_data(description=crossed_lines(promotion))
    try:
        given = pause_flow_run(wait_for_input=form, timeout=seconds, poll_interval=POLL_SECONDS)
    except FlowPauseTimeout:
        return PersonsWord(approved=False, reason=f"nobody answered within {seconds} s")
    return PersonsWord(approved=given.decision == "approve", reason=given.reason, who=given.who)


def crossed_lines(promotion: Promotion) -> str:
    """Return the figures that cross the bounds, as a Markdown list."""
    head = f"The run {in_row(promotion.record.run_id)} against {in_row(promotion.against)}."
    return "\n".join([head, "", *(f"- {in_row(line)}" for line in promotion.crossed)])


def _tell_person(promotion: Promotion, url: str, tell: Tell) -> None:
    notifier = Notifier(promotion.recipe, tell)
    notifier.run_id = promotion.record.run_id
    text = f"The release {promotion.name} of {promotion.record.recipe} waits for approval: {url}"
    notifier.send("approval", text, url=url, bounds=promotion.crossed)
