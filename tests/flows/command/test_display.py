"""The terminal shows right numbers, bounded, inert, and legible without color."""

import io
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from small_recipe import LETTERS, Run, letters_world, notes_and_letters

from corpora.build import Corpus
from corpora.schema import DroppedDocument, Locator
from corpora.store.ledger import Account, Ledger
from flows.command import run as summary
from flows.command.inspect import MAX_ROWS, render_dropped, render_manifest
from flows.command.preview import RecordPreview, StepEffect, render_preview
from flows.command.run import find_ui_command, render_ledger
from flows.command.trace import MAX_RAW_BYTES, MAX_RAW_LINES, RawRecord, render_document, render_example
from flows.orchestration.embedded_server import is_port_free
from flows.report.masked_example import get_stored_masks
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary

EVIL = "[red]not markup[/red] \x1b[2J\u202e"
LOCATOR = Locator(file="a.jsonl", sha256="0" * 64, offset=5, length=10)
ROW = DroppedDocument(
    id=b"\1" * 16, keyed=True, revision=None, source="notes", locator=LOCATOR, title="A title", step="rules",
    reason="gopher.min_words", detail="12 < 50", survivor=None, similarity=None, excerpt="It begins.",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Run:
    text = LETTERS.replace("dynamic", "static")
    return letters_world(tmp_path_factory.mktemp("display"), notes_and_letters(), text).run()


def shown(renderable: RenderableType) -> str:
    """Return what a pipe gets, as the command line's console writes it."""
    console = Console(file=io.StringIO(), width=100, soft_wrap=True)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_ledger_in_a_few_lines(store: Run) -> None:
    examples = store.outcome.shards.count_rows("examples")
    lines = shown(render_ledger(store.manifests)).splitlines()
    assert re.fullmatch(rf"40 raw records → 39 documents → 37 kept → [\d,]+ tokens → {examples} examples", lines[0])
    assert [line.split("█")[0].split() for line in lines[1:-1]] == [
        ["dropped:", "rules:", "gopher.min_words", "1"],
        ["removed:", "exact", "duplicate", "1"],
        ["removed:", "near", "duplicate", "1"],
    ]
    assert lines[-1] == "✓ nothing is unaccounted for"
    assert "unaccounted" not in shown(render_ledger([]))


def test_ledger_that_does_not_balance_is_told(store: Run) -> None:
    verdicts = store.manifest("verdicts")
    ledger = Ledger(accounts=(Account(unit="documents", total=5, outcomes={"kept": 5}),))
    wrong = verdicts.with_parts((replace(verdicts.parts[0], ledger=ledger),))
    text = shown(render_ledger([wrong if m is verdicts else m for m in store.manifests]))
    assert "✗ Documents parsed and judged: 39 ≠ 5 documents" in text and "✓" not in text


def test_manifest_tells_its_names_rows_and_settings(store: Run) -> None:
    manifest = store.documents()["notes"]
    text = shown(render_manifest(manifest))
    for fact in (manifest.folder, manifest.content, "raw/1 file ", "rules.gopher.min_words", "ftfy"):
        assert fact in text
    assert re.search(r"records +33\n", text) and re.search(r"documents +32 ", text)
    assert re.search(r"rules.gopher.min_words +20 *\n", text)
    cut = shown(render_manifest(replace(manifest, settings={f"key{n}": EVIL for n in range(500)})))
    assert "… 440 more settings" in cut and "[red]not markup[/red] \ufffd[2J\ufffd" in cut and "\x1b" not in cut
    lines = [shown(render_manifest(manifest)).splitlines() for manifest in store.manifests]
    assert max(map(len, lines)) < 100 and max(len(line) for each in lines for line in each) <= 120


def test_example_without_colour_still_tells_everything(store: Run) -> None:
    words = read_vocabulary(store.place, store.outcome.vocabulary)
    texts = set()
    for example in ShardSet(store.place, store.outcome.shards).iter_live_examples():
        label, a, b = shown(render_example(example, words)).rstrip("\n").split("\n")
        assert label.startswith(("B follows A;", "B is from another document;")[example.label])
        pieces = [*a.removeprefix("A: ").split(), *b.removeprefix("B: ").split()]
        assert len(a.removeprefix("A: ").split()) == example.boundary
        split = [re.fullmatch(r"(.+?)(?:→(.+))?", piece) for piece in pieces]
        seen = example.ids.copy()
        seen[example.mask_positions] = example.mask_ids
        assert [words.find_id(match[1]) for match in split] == seen.tolist()
        guessed = {place: match[2] for place, match in enumerate(split) if match[2]}
        assert list(guessed) == example.mask_positions.tolist()
        for place, token in guessed.items():
            assert words.tokens[example.ids[place]] == (split[place][1] if token == "=" else token)
        texts |= {token == "=" for token in guessed.values()}
        bare = replace(example, mask_positions=example.mask_positions[:0], mask_ids=example.mask_ids[:0])
        assert shown(render_example(bare, words, get_stored_masks(example))) == shown(render_example(example, words))
    assert texts == {True, False}


def test_trace_shows_the_document_and_its_raw_bytes_to_a_bound(store: Run) -> None:
    document = next(Corpus(store.place, store.outcome.corpus).iter_documents())
    raw = ('{"id": 1}\n' + EVIL + "\n" + "y" * 5_000).encode()
    text = shown(render_document("anchor", document, RawRecord(data=raw)))
    for fact in (document.id.hex(), str(document.locator), document.title, "CC0", '{"id": 1}', f"{len(raw):,} bytes"):
        assert str(fact) in text
    assert f"cut here; {len(raw) - MAX_RAW_BYTES:,} more bytes" in text and "\x1b" not in text
    assert text.count("y" * 100) and len(text) < 3_000
    lines = shown(render_document("anchor", document, RawRecord(data=b"z\n" * 500)))
    assert lines.count("│ z") == MAX_RAW_LINES and f"cut here; {1_000 - 2 * MAX_RAW_LINES} more bytes" in lines
    short = shown(render_document("anchor", document, RawRecord(data=b"all of it")))
    assert "all of it" in short and "cut here" not in short
    assert "  it is\ufffd gone" in shown(render_document("anchor", document, RawRecord(absence="it is\x1b gone")))


def test_dropped_rows_are_inert_and_bounded() -> None:
    evil = replace(ROW, title=EVIL, detail=EVIL, excerpt=EVIL, survivor=b"\2" * 16, similarity=0.91)
    text = shown(render_dropped([evil]))
    assert text.count("[red]not markup[/red] \ufffd[2J\ufffd") == 3 and "\x1b" not in text
    assert "02020202" in text and "similarity 0.910" in text and "more" not in text
    many = shown(render_dropped(replace(ROW, title=f"Title {n}.") for n in range(1_000)))
    assert f"Title {MAX_ROWS - 1}." in many and f"Title {MAX_ROWS}." not in many and "… and more" in many


def test_preview_shows_every_step_and_the_verdict() -> None:
    steps = (
        StepEffect(step="clean", text="After"),
        StepEffect(step="language"),
        StepEffect(step="rules", drop=f"rules: {EVIL}"),
    )
    preview = RecordPreview(
        title=EVIL, where="a.txt: bytes 0-3", parsed="Before", steps=steps, verdict="dropped: rules"
    )
    text = shown(render_preview(preview))
    words = ("Before", "After", "language as it was", "dropped: rules", "a.txt: bytes 0-3")
    assert all(word in text for word in words) and "\x1b" not in text


def test_the_demo_says_where_the_ui_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the tour names a port that is taken, or not the one on which a UI of this home runs."""
    running = {Path("home"): "http://127.0.0.1:4321/api"}
    monkeypatch.setattr(summary, "find_server_of_home", lambda home: running.get(home, ""))
    assert find_ui_command("cloze", Path("home")).startswith("cloze ui --port 4321    # ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(summary, "UI_PORT", port)
        line = re.fullmatch(
            r"cloze ui --port (\d+)    # .*, on http://127\.0\.0\.1:(\d+)", find_ui_command("cloze", Path("none"))
        )
        assert line is not None and line[1] == line[2]
        assert int(line[1]) > port and is_port_free(int(line[1]))
    assert (
        find_ui_command("cloze", tmp_path / "other")
        == f"cloze ui    # the run in the orchestration UI, on http://127.0.0.1:{port}"
    )
