"""The ledger drawn: what flows into a node and out of it is the count that it shows, and all of it is seen."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Parent, Part
from flows.report.flow_picture import (
    MAX_COLUMN_HEIGHT,
    MAX_DROPPED,
    MAX_SOURCES,
    MIN_BAND_WIDTH,
    Flow,
    build_flow,
    draw_flow,
)

REASONS = [f"parse: reason {number}" for number in range(MAX_DROPPED + 6)]
counts = st.integers(0, 10**9)
fates = st.dictionaries(st.sampled_from(["documents", *(f"dropped: {reason}" for reason in REASONS)]), counts)


def manifest(
    kind: str,
    name: str,
    accounts: list[Account],
    *,
    parents: tuple[Parent, ...] = (),
    settings: Mapping[str, object] | None = None,
    figures: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    """An artifact of one part without files: what its ledger says is all there is."""
    ledger = Ledger(accounts=tuple(accounts), figures=figures or {})
    part = Part(name="part", fingerprint=name, files=(), ledger=ledger, labels=labels or {})
    return Manifest(
        kind=kind, name=name, build_version=1, fingerprint=f"{kind}-{name}", settings=settings or {},
        parents=parents, libraries={}, parts=(part,),
    )  # fmt: skip


def account(unit: str, outcomes: Mapping[str, int]) -> Account:
    return Account(unit=unit, total=sum(outcomes.values()), outcomes=outcomes)


def parsed(name: str, outcomes: Mapping[str, int]) -> Manifest:
    return manifest("documents", name, [account("records", outcomes)])


def judged(kept: int, removed: int) -> Manifest:
    outcomes = {"kept": kept, "removed: near duplicate": removed}
    return manifest("verdicts", "small", [account("documents", outcomes)])


def balance(flow: Flow) -> None:
    """Every unit that comes into a node leaves it, but for nodes where units end."""
    arriving, leaving = Counter[str](), Counter[str]()
    for link in flow.links:
        arriving[link.end] += link.count
        leaving[link.start] += link.count
    assert {node.key for node in flow.nodes} >= {*arriving, *leaving}
    for node in flow.nodes:
        assert node.column == 0 or arriving[node.key] == node.count, node
        assert node.is_lost or not leaving[node.key] or leaving[node.key] == node.count, node


@given(st.lists(fates, min_size=1, max_size=MAX_SOURCES + 6), st.floats(0, 1))
def test_every_record_flows_to_one_end(sources: list[dict[str, int]], share: float) -> None:
    documents = sum(outcomes.get("documents", 0) for outcomes in sources)
    verdicts = judged(int(documents * share), documents - int(documents * share))
    flow = build_flow([*(parsed(f"s{n}", outcomes) for n, outcomes in enumerate(sources)), verdicts])
    assert flow is not None
    balance(flow)
    ends = sum(node.count for node in flow.nodes if node.is_lost or node.key == "kept")
    assert ends == sum(sum(outcomes.values()) for outcomes in sources)
    assert sum(node.column == 0 for node in flow.nodes) <= MAX_SOURCES
    assert sum(node.is_lost and node.column == 1 for node in flow.nodes) <= MAX_DROPPED


@given(st.lists(fates, min_size=1, max_size=8))
def test_the_drawing_shows_every_band_and_no_label_on_another(sources: list[dict[str, int]]) -> None:
    flow = build_flow([parsed(f"s{n}", outcomes) for n, outcomes in enumerate(sources)])
    assert flow is not None
    svg = etree.fromstring(str(draw_flow(flow)))
    rows: dict[str, list[float]] = {}
    for text in svg.iter("text"):
        if text.get("class") == "head":
            continue
        rows.setdefault(text.get("x"), []).append(float(text.get("y")))
    for lines in rows.values():
        assert all(below - above >= 16.5 for above, below in zip(sorted(lines), sorted(lines)[1:], strict=False))
    assert len(list(svg.iter("path"))) == sum(link.count > 0 for link in flow.links)
    heights = [float(rect.get("height")) for rect in svg.iter("rect")]
    assert all(height >= MIN_BAND_WIDTH for height in heights)
    bottom = max(float(rect.get("y")) + float(rect.get("height")) for rect in svg.iter("rect"))
    assert bottom <= float(svg.get("viewBox").split()[3]) <= 3 * MAX_COLUMN_HEIGHT + 40 * MIN_BAND_WIDTH * len(heights)


def test_widths_are_the_numbers_on_one_scale() -> None:
    flow = build_flow([parsed("big", {"documents": 30_000, "dropped: parse: short": 10_000}), judged(20_000, 10_000)])
    assert flow is not None
    svg = etree.fromstring(str(draw_flow(flow)))
    heights = {path[0].text: band_width(path.get("d")) for path in svg.iter("path")}
    assert heights == {
        "big → documents: 30,000": pytest.approx(MAX_COLUMN_HEIGHT * 3 / 4, abs=0.2),
        "big → dropped: parse: short: 10,000": pytest.approx(MAX_COLUMN_HEIGHT / 4, abs=0.2),
        "documents → kept: 20,000": pytest.approx(MAX_COLUMN_HEIGHT / 2, abs=0.2),
        "documents → removed: near duplicate: 10,000": pytest.approx(MAX_COLUMN_HEIGHT / 4, abs=0.2),
    }


def band_width(path: str) -> float:
    upper, lower = re.match(r"M\S+ (\S+)C.* (\S+)Z$", path).groups()  # type: ignore[union-attr]
    return float(lower) - float(upper)


def test_bands_of_a_source_leave_it_in_the_order_in_which_they_arrive() -> None:
    flow = build_flow([parsed("a", {"dropped: parse: b": 5, "dropped: parse: a": 9, "documents": 3})])
    assert flow is not None
    assert [link.end for link in flow.links] == [node.key for node in flow.nodes if node.column == 1]
    assert [link.count for link in flow.links] == [3, 9, 5]


def test_generations_of_a_source_are_one_and_the_same_run_is_drawn_alike() -> None:
    second = parsed("notes", {"documents": 4, "dropped: parse: empty": 1})
    twice = [parsed("notes", {"documents": 3}), replace(second, fingerprint="of the second generation")]
    flow = build_flow(twice)
    assert flow is not None
    assert [(node.key, node.count) for node in flow.nodes] == [
        ("from notes", 8), ("documents", 7), ("dropped: parse: empty", 1),
    ]  # fmt: skip
    again = build_flow(twice)
    assert again is not None and draw_flow(again) == draw_flow(flow)


def test_names_are_text_and_never_markup() -> None:
    flow = build_flow([parsed("<script>\u202e", {"documents": 3})])
    assert flow is not None
    svg = str(draw_flow(flow))
    assert "&lt;script&gt;\ufffd" in svg and "<script" not in svg


def token_manifests(sources: object = None) -> list[Manifest]:
    figures = {"train tokens": 90, "held-out tokens": 10}
    tokens = manifest("tokens", "small-a", [], figures=figures, labels={"source": "notes"})
    parent = (Parent(role="tokens", name="small-a", fingerprint=tokens.fingerprint),)
    copies = [account(f"tokens of copy {copy}", {"placed": 80, "truncated": 15, "left_over": 5}) for copy in (0, 1)]
    one = manifest("shards", "small-one", copies, parents=parent)
    two = manifest("shards", "small-two", copies[:1], parents=parent)
    other = manifest("tokens", "small-b", [], figures=figures, labels={"source": "notes"})
    chosen = {"sources": sources} if sources else {}
    parent = (Parent(role="tokens", name="small-b", fingerprint=other.fingerprint),)
    third = manifest("shards", "small-three", copies[:1], parents=parent, settings=chosen)
    before = [parsed("notes", {"documents": 9, "dropped: parse: short": 3}), judged(8, 1)]
    return [*before, manifest("corpora", "small", []), tokens, other, one, two, third]


def test_tokens_flow_to_every_set_and_copy_that_takes_them() -> None:
    """Fails if a set's tokens are another's, or two copies are drawn as twice the tokens that were written."""
    flow = build_flow(token_manifests())
    assert flow is not None
    nodes = {node.key: node for node in flow.nodes}
    assert nodes["tokens a"].count == nodes["tokens b"].count == 100  # written once, taken three times
    placed = {key: node.count for key, node in nodes.items() if key.startswith("examples")}
    assert placed == {"examples one": 160, "examples two": 80, "examples three": 80}
    assert nodes["tokens: truncated"].count == 60 and nodes["tokens: left over"].is_lost
    svg = etree.fromstring(str(draw_flow(flow)))
    heights = {path[0].text: band_width(path.get("d")) for path in svg.iter("path")}
    one, two = (heights[f"tokens a → examples {name}: {count}"] for name, count in (("one", 160), ("two", 80)))
    assert one == pytest.approx(two, abs=0.2)
    words = svg.find("desc").text
    assert words.startswith(
        "12 raw records, then 9 documents, then 8 kept, then tokens of 2 vocabularies, then examples"
    )
    assert "Lost on the way: 3 parse: short, 1 near duplicate, 60 truncated, 20 left over." in words


def test_tokens_of_sources_in_no_shards_are_not_hidden() -> None:
    flow = build_flow(token_manifests(sources=["letters"]))
    assert flow is not None
    [unused] = [node for node in flow.nodes if node.label == "of sources in no shards"]
    assert (unused.count, unused.is_lost) == (100, True)


def test_nothing_is_drawn_of_nothing() -> None:
    assert build_flow([]) is None
    flow = build_flow([parsed("empty", {}), judged(0, 0)])
    assert flow is not None
    etree.fromstring(str(draw_flow(flow)))
