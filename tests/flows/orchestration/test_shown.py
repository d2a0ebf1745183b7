"""The orchestrator's pages are given these values to show: no server, no browser."""

import json
import re
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hostile_texts import HOSTILE
from small_recipe import SHARED_KINDS, Run

from corpora.store.places.place import Place
from flows.environment import prepare_environment
from flows.orchestration import pages, training_task
from flows.orchestration.pages import (
    JOINER,
    describe_flow_run,
    escape_alt,
    escape_cell,
    escape_markdown,
    find_arrows,
    format_report_command,
    render_lineage,
    run_tags,
)
from flows.orchestration.pages import render_lineage_picture as lineage_picture
from flows.orchestration.training_task import (
    build_metric_rows,
    describe_training,
    format_event,
    read_earlier_events,
    render_curves,
)
from flows.report.lineage_picture import BOXES_PER_ROW, WIDTH, Box, draw_lineage


def step(number: int, **more: Any) -> dict[str, Any]:
    loss = 9 - number / 1000
    return {"event": "step", "step": number, "phase": 0, "loss": loss, "masked_loss": loss, "tokens": 8, **more}


def evaluation(number: int) -> dict[str, Any]:
    losses = {"loss": 7.0, "masked_loss": 7.0, "unigram_loss": 6.0, "unigram_entropy": 5.5}
    return {"event": "evaluation", "step": number, "phase": 0, **losses}


def test_links_lead_to_the_ui_that_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fails if a link leads to an API, to a server without a UI, or past the UI that the user's profile names."""
    api, own = "http://prefect.example:4200/api", "http://127.0.0.1:4200/api"
    (tmp_path / ".prefect").mkdir()
    profile = f'active = "a"\n[profiles.a]\nPREFECT_API_URL = "{api}"\nPREFECT_UI_URL = "https://ui.example/"\n'
    (tmp_path / ".prefect" / "profiles.toml").write_text(profile)
    environment = {"HOME": str(tmp_path), "CLOZE_HOME": str(tmp_path / "home")}
    prepare_environment(environment)
    for name in ("CLOZE_PREFECT_API", "CLOZE_PREFECT_UI"):
        monkeypatch.setenv(name, environment[name])
    assert describe_flow_run(api, "1").page == "https://ui.example/runs/flow-run/1"
    assert describe_flow_run(own, "1").page == "http://127.0.0.1:4200/runs/flow-run/1"
    assert describe_flow_run(own, "1", embedded=True).page == ""
    assert describe_flow_run("https://service.example/v4", "1").page == ""
    monkeypatch.delenv("CLOZE_PREFECT_UI")
    assert describe_flow_run(api, "1").page == "http://prefect.example:4200/runs/flow-run/1"


def test_the_table_of_metrics_has_one_set_of_columns() -> None:
    """Fails if the first row, whose columns the UI shows, lacks one, or the newest figures do not come first."""
    events = [step(1), evaluation(1), step(2, learning_rate=0.5)]
    rows = build_metric_rows(events)
    assert [(row["step"], row["of"]) for row in rows] == [("2", "training"), ("1", "held out"), ("1", "training")]
    assert {tuple(row) for row in rows} == {("step", "of", "loss", "masked loss", "unigram loss", "learning rate")}
    assert [row["learning rate"] for row in rows] == ["0.5", "", ""]


def test_a_long_training_is_thinned_but_for_its_evaluations() -> None:
    """Fails if a run of a week fills the memory or the page, or loses an evaluation or its newest step."""
    events = [event for n in range(1, 5001) for event in ([step(n), evaluation(n)] if n % 100 == 0 else [step(n)])]
    of = Counter(row["of"] for row in build_metric_rows(events))
    assert of["held out"] == 50 and 100 <= of["training"] <= 102 and build_metric_rows(events)[1]["step"] == "5000"
    assert Counter(event["event"] for event in training_task.drop_every_other_step(events)) == {
        "evaluation": 50,
        "step": 2500,
    }


def test_everything_that_a_page_shows_goes_out_at_one_place() -> None:
    """Fails if another module makes artifacts, with text that is not made plain."""
    made = re.compile(r"create_\w+_artifact|\.update_artifact\(|/artifacts/")
    modules = Path(pages.__file__).parents[1].rglob("*.py")
    assert [path.name for path in modules if made.search(path.read_text())] == ["pages.py"]


def test_a_training_that_goes_on_shows_what_was_before(tmp_path: Path) -> None:
    """Fails if the curve of a resumed run begins at its checkpoint, or draws steps that were cut off twice."""
    path = tmp_path / "metrics.jsonl"
    resume = {"event": "resume", "step": 2, "phase": 0}
    path.write_text("".join(json.dumps(event) + "\n" for event in (step(1), step(2), resume, step(3))))
    assert [(e["event"], e["step"]) for e in read_earlier_events(resume, path)] == [
        ("step", 1),
        ("step", 2),
        ("resume", 2),
    ]
    assert list(read_earlier_events(step(4), path)) == []


def test_a_text_stays_what_it_says() -> None:
    """Fails if text of documents is changed to the eye, or what is harmless is touched at all."""
    for text in HOSTILE:
        assert escape_markdown(text).replace(JOINER, "") == " ".join(text.split())
        assert escape_markdown(text) != " ".join(text.split())
    for text in ("notes.jsonl: bytes 0 to 120", "12,690", "rules: gopher.min_words", "5 > 3 (so it is), a_b and $x$"):
        assert escape_markdown(text) == text
    assert escape_cell("a|b") == r"a\|b" and escape_alt("[a]") == f"a{JOINER}"


def test_what_is_no_number_is_said() -> None:
    """Fails if a loss that overflowed breaks the watching of a training."""
    sick = step(2, gradient_norm=None) | {"masked_loss": None}
    assert describe_training([step(1), sick], 10) == "step 2 of 10, masked loss not finite"
    assert format_event(sick, 10) == "step 2/10: loss 8.998, masked loss not finite"
    assert "data:image/svg+xml;base64," in render_curves([step(1), sick, evaluation(2)], "m")


def test_every_term_has_a_curve_and_its_caption() -> None:
    """Fails if a term is not shown, has a bound that is none of it, or a model without masks breaks the page."""
    masked = render_curves([step(1), step(2)], "models/small")
    assert masked.count("![loss curve") == 1 and "Masked loss, in nats a token. Dotted: the unigram" in masked
    of_pairs = render_curves([step(1) | {"pair_loss": 0.7}, step(2) | {"pair_loss": 0.6}], "models/small")
    assert of_pairs.count("![loss curve of models/small") == 1 and of_pairs.count("![pair loss curve") == 1
    assert of_pairs.count("Dotted") == 1 and "guessing costs 0.69" in of_pairs
    other: Any = {"event": "step", "step": 1, "phase": 0, "loss": 9.0, "other_loss": 8.5, "order_loss": 0.5}
    assert "Other loss." in render_curves([other], "m") and "Order loss." in render_curves([other], "m")
    assert describe_training([other], 10) == "step 1 of 10, other loss 8.5"
    assert build_metric_rows([other])[0] == {
        "step": "1",
        "of": "training",
        "loss": "9",
        "other loss": "8.5",
        "order loss": "0.5",
    }


def test_lineage_has_every_stage_and_its_parents(finished: Run) -> None:
    """Fails if the diagram lacks a stage, an arrow, or draws one that others say already."""
    drawn = find_arrows(finished.manifests)
    assert len({*drawn}) == len(drawn)
    one = {kind: (kind, "small") for kind in SHARED_KINDS}
    assert {*drawn} == {
        *((("documents", name), ("signatures", name)) for name in ("pages", "notes")),
        *((("signatures", name), one["verdicts"]) for name in ("pages", "notes")),
        (one["verdicts"], one["corpora"]),
        (one["corpora"], one["counts"]),
        (one["counts"], one["vocabularies"]),
        (one["vocabularies"], one["measures"]),  # by way of the counts
        (one["vocabularies"], one["tokens"]),  # by way of the corpus
        (one["tokens"], one["shards"]),
    }
    svg = drawn_in(lineage_picture(finished.manifests))
    assert svg.count('fill="none"') == len(drawn)
    assert svg.count("<text") > svg.count("<g ") == len(finished.manifests)
    for kind in SHARED_KINDS:
        assert f">{kind}</text>" in svg
    command = "cloze report 'a store' --run 2026-small"
    assert format_report_command(Place("/a store"), "2026-small") == command.replace("'a", "'/a")
    told = render_lineage(finished.manifests, command)
    assert f"| shards/small | `{finished.outcome.shards.fingerprint}` |" in told and f"\n    {command}\n" in told
    assert lineage_picture([*finished.manifests] * 2) == lineage_picture(finished.manifests), "a box a generation"
    assert run_tags(finished.recipe, "builds") == ["recipe: small", "builds", "source: pages", "source: notes"]


def drawn_in(address: str) -> str:
    """The picture that an address holds."""
    kind, _, data = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return b64decode(data).decode()


def test_a_picture_of_many_sources_is_no_wider_and_hostile_names_are_text(finished: Run) -> None:
    """Fails if 40 sources make a picture that nobody can read, or a name is an element of it."""
    [pages] = [manifest for manifest in finished.manifests if manifest.stage_folder == "documents/pages"]
    many = [replace(pages, name=f"s{number}", fingerprint=f"{number:024}") for number in range(40)]
    svg = drawn_in(lineage_picture(many))
    assert svg.count("<g ") == 8 and ">33 more</text>" in svg
    root = ElementTree.fromstring(svg)
    assert float(root.attrib["width"]) < (BOXES_PER_ROW + 1) * WIDTH
    boxes = [Box(key=("k", text), title=text, texts=(text,)) for text in [*HOSTILE, "x" * 500, "</text><script>"]]
    drawing = ElementTree.fromstring(draw_lineage(boxes, [(boxes[0].key, boxes[1].key)]))
    kinds = {element.tag.partition("}")[2] for element in drawing.iter()}
    assert kinds == {"svg", "rect", "path", "g", "text"}
