"""The report of a run with two vocabularies, three shard sets and a model: every number is a manifest's."""

import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest
import small_recipe
from rich.console import Console
from small_recipe import NOTES_AND_LETTERS, Run, keyed_note, letters_world, notes_and_letters, prose, text_of

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage
from corpora.store.tables import read_table
from flows.command.run import render_ledger
from flows.recipes.privacy import without_folders
from flows.report.models import build_result_view, compute_source_shares, with_judged_term
from flows.report.page import build_page
from flows.report.plots import CURVE_WIDTH, MAX_POINTS, draw_loss_curve, find_phase_spans, sample_steps
from flows.run.record.ledger_balance import build_accounts, count_tokens
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary
from trainer.build import METRICS_TABLE

RECIPE = f"""
held_out.share = 0.2
vocabulary = [{{ name = "pieces", size = 300 }}, {{ name = "bytes", algorithm = "byte-bpe", size = 400 }}]
shards = [
    {{ name = "first", vocabulary = "pieces", sources = ["letters"], length = 64, masking = {{ kind = "static" }} }},
    {{ name = "second", vocabulary = "pieces", length = 64 }},
    {{ name = "packed", vocabulary = "bytes", input = "full-sentences", length = 96, copies = 2 }},
]
{NOTES_AND_LETTERS}"""

MODEL = """
[model]
size = "tiny"
max_length = 64

[training]
warmup_steps = 3
learning_rate = 0.002
phase = [
    { shards = "first", steps = 6, batch = 4 },
    { mixture = { second = 0.75, first = 0.25 }, steps = 14, batch = 8 },
]
"""

SECRET = "Zanzibarquux"
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Nesting(HTMLParser):
    """Checks that every element that is opened is closed again, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "aria-labelledby") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def metric(event: str, step: int, phase: int, loss: float) -> dict[str, Any]:
    """One row of the metrics."""
    row: dict[str, Any] = dict.fromkeys(METRICS_TABLE.names)
    counts = {"masked_tokens": 31, "tokens": 200, "sequences": 5, "deleted": 0}
    losses = {
        "loss": loss + 0.69,
        "masked_loss": loss,
        "masked_accuracy": 0.125,
        "pair_loss": 0.69,
        "pair_accuracy": 0.75,
    }
    by_frequency = {"unigram_entropy": 4.5 + phase, "unigram_loss": 4.75 + phase}
    judged = {**by_frequency, "rare_word_accuracy": 0.0625} if event == "evaluation" else {}
    rates = {"learning_rate": 0.002 * step / 20, "gradient_norm": 1.5} if event == "step" else {}
    return row | {"event": event, "step": step, "phase": phase} | losses | judged | rates | counts


def metrics() -> list[dict[str, Any]]:
    """Return the events of a training of 20 steps in two phases; at one step the loss was not a number."""
    rows = [metric("step", step, int(step > 6), 8 - 0.25 * step) for step in range(1, 21)]
    rows[4]["masked_loss"] = rows[4]["loss"] = None
    parts = [metric("evaluation of small-first", 20, 1, 4.125), metric("evaluation of small-second", 20, 1, 2.625)]
    return [*rows[:6], metric("evaluation", 6, 0, 6.625), *rows[6:], *parts, metric("evaluation", 20, 1, 3.375)]


SEEN = {  # read, deleted, tokens, masked, examples of the set
    "of phase 1: small-first": (23, 1, 1_500, 225, 12),
    "of phase 2: small-first": (27, 1, 1_569, 235, 12),
    "of phase 2: small-second": (83, 1, 4_708, 651, 168),
}


def train(writer: PartWriter, plan: PartPlan) -> Ledger:
    """A model's part as a training leaves it, without the weights."""
    with writer.create_table("metrics", METRICS_TABLE) as sink:
        sink.write(pa.Table.from_pylist(metrics(), METRICS_TABLE))
    writer.write_file("config.json", b"{}")
    accounts = [Account(unit="slots", total=136, outcomes={"read": 133, "deleted": 3})]
    figures = {"steps": 20, "parameters": 987_654, "tokens": 7_777, "masked tokens": 1_111}
    for called, (read, deleted, *counts) in SEEN.items():
        outcomes = {"read": read, "deleted": deleted}
        accounts.append(Account(unit=f"slots {called}", total=read + deleted, outcomes=outcomes))
        names = (f"tokens {called}", f"masked tokens {called}", f"examples {called}")
        figures |= dict(zip(names, counts, strict=True))
    return Ledger(accounts=tuple(accounts), figures=figures)


def build_or_train(place: Place, stage: Stage, plans: Sequence[PartPlan]) -> None:
    """Build parts here, those of a model without a training."""
    small_recipe.build_here(place, replace(stage, build=train) if stage.kind == "models" else stage, plans)


def raw() -> tuple[list[dict[str, Any]], list[str]]:
    notes, letters = notes_and_letters()
    told = f"{SECRET} {prose(88, 8)}"
    return [*notes, keyed_note(300, told, title=SECRET), keyed_note(301, f"{told} And so on it went.")], letters


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("several")
    return letters_world(folder, raw(), RECIPE + MODEL).run(build_or_train)


@pytest.fixture(scope="module")
def html(store: Run) -> str:
    return build_page(store.place, store.record, "text", store.lock)


def named(store: Run, kind: str, name: str) -> Manifest:
    [found] = [m for m in store.manifests if m.kind == kind and m.name == f"small-{name}"]
    return found


def rows_of(store: Run, manifest: Manifest, table: str) -> list[dict[str, Any]]:
    return [row for batch in read_table(store.place, manifest, table) for row in batch.to_pylist()]


def test_the_page_is_whole_html_with_ids_that_are_unique(html: str) -> None:
    page = Nesting(html)
    page.links = [id for link in page.links for id in link.split()] + re.findall(r"url\(#([^)]+)", html)
    assert [id for id, count in Counter(page.ids).items() if count > 1] == [] and len(page.ids) > 10
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids) and len(page.links) > 10
    outside = re.findall(r"(?:src|href|url\(|@import)[\s\"'=(]*(https?:|//|data:)", html)
    assert not outside and "<script" not in html


def test_a_run_that_stopped_at_any_stage_has_a_page(store: Run) -> None:
    """Fails if the page of a run that failed needs what it did not build, or says that it has it."""
    kinds = [stage.kind for stage in store.record.stages]
    for number in range(kinds.index("shards") + 1):
        record = replace(store.record, state="failed", stages=store.record.stages[:number])
        page = build_page(store.place, record, "none")
        Nesting(page)
        assert "did not come to its end" in text_of(page) and "No example was built." in text_of(page)
        assert ("records in" in text_of(page)) == (number > 0)


def test_every_shard_set_stands_there_with_its_numbers(store: Run, html: str) -> None:
    text = text_of(html)
    for name, entry in store.outcome.shard_sets.items():
        for split in ("train", "held-out"):
            shard_set = ShardSet(store.place, entry, split)
            tokens = sum(len(example.ids) for example in shard_set.iter_live_examples())
            pairs = Counter(example.label for example in shard_set.iter_live_examples())
            labels = f"{pairs[0]:,} {pairs[1]:,} " if name != "packed" else ""
            pattern = rf"Shards {name} .*? {split} \d+ [\d,]+ {len(shard_set):,} {labels}{tokens:,} "
            assert re.search(pattern, text), (name, split)
        assert f"{entry.count_rows('examples'):,} {name}" in text
    assert "2 copies of all sources" in text and "1 copy of letters" in text


def test_every_edge_is_checked_under_its_name(store: Run, html: str) -> None:
    accounts = build_accounts(store.manifests)
    assert accounts.balances
    rows = rows_of(store, named(store, "tokens", "pieces"), "tokens")
    letters = sum(len(row["ids"]) for row in rows if row["source"] == "letters")
    tokens = {name: count_tokens(named(store, "tokens", name).parts) for name in ("pieces", "bytes")}
    assert 0 < letters < tokens["pieces"]
    titles = [str(edge) for edge in accounts.edges if edge.unit == "tokens"]
    assert titles == [
        f"Tokens written and taken up by copy 0 (first): {letters:,} = {letters:,} tokens",
        f"Tokens written and taken up by copy 0 (second): {tokens['pieces']:,} = {tokens['pieces']:,} tokens",
        f"Tokens written and taken up by copy 0 (packed): {tokens['bytes']:,} = {tokens['bytes']:,} tokens",
        f"Tokens written and taken up by copy 1 (packed): {tokens['bytes']:,} = {tokens['bytes']:,} tokens",
    ]
    assert all(title in text_of(html) for title in titles)
    assert [step.title for step in accounts.steps[-2:]] == [
        "Build examples (packed), copy 1", "Read examples in training",
    ]  # fmt: skip
    assert accounts.steps[-1].total == 136


def test_an_edge_of_one_set_that_does_not_balance_is_told_by_its_name(store: Run) -> None:
    tokens = named(store, "tokens", "bytes")
    part = tokens.parts[0]
    figures = {**part.ledger.figures, "train tokens": part.ledger.figures["train tokens"] + 1}
    wrong = tokens.with_parts((replace(part, ledger=replace(part.ledger, figures=figures)), *tokens.parts[1:]))
    accounts = build_accounts([wrong if manifest is tokens else manifest for manifest in store.manifests])
    assert len(accounts.wrong) == 2 and all("(packed)" in line and "≠" in line for line in accounts.wrong)


def test_parts_that_no_source_labels_may_hold_any(store: Run) -> None:
    tokens = named(store, "tokens", "pieces")
    bare = tokens.with_parts(tuple(replace(part, labels={"generation": "2"}) for part in tokens.parts))
    accounts = build_accounts([bare if manifest is tokens else manifest for manifest in store.manifests])
    [edge] = [edge for edge in accounts.edges if "(first)" in edge.title]
    assert edge.balances and edge.given == 0 < edge.received < edge.unlabelled == count_tokens(tokens.parts)
    assert "0 and up to" in str(edge)
    assert not replace(edge, received=edge.unlabelled + 1).balances


def test_vocabularies_stand_side_by_side(store: Run, html: str) -> None:
    page = text_of(html)
    for name, entry in store.outcome.vocabularies.items():
        rows = rows_of(store, named(store, "tokens", name), "tokens")
        tokens = sum(len(row["ids"]) for row in rows if not row["held_out"])
        assert 0 < tokens < sum(len(row["ids"]) for row in rows)
        words = sum(row["count"] for row in rows_of(store, named(store, "counts", name), "counts"))
        algorithm = "WordPiece, lower-case" if name == "pieces" else "byte-level BPE, cased"
        distinct = entry.ledger.figures["distinct words"]
        row = f"{name} {algorithm} {entry.count_rows('tokens'):,} {distinct:,} {tokens / words:,.3f} 0.000%"
        assert row in page
    assert page.count("Tokens a word by source: ") == 2


def test_tokens_of_bytes_are_readable(store: Run, html: str) -> None:
    assert "\u2423the" in html and "\u0120" not in html
    words = read_vocabulary(store.place, store.outcome.vocabularies["bytes"])
    example = ShardSet(store.place, store.outcome.shard_sets["packed"])[0]
    first = " ".join(words.format_token(id) for id in example.ids[:2].tolist())
    assert first.startswith("<s> ") and "&lt;s&gt;</span>" in html
    assert "&lt;mask&gt;" in html and "[MASK]" in html and "one segment; " in html


def test_the_training_is_told_with_its_entropy(html: str) -> None:
    text = text_of(html)
    assert "bert, tiny: 2 layers, hidden size 128, 2 attention heads, feed-forward size 512, 64 positions" in text
    assert (
        "987,654 parameters. In 20 steps it read 133 sequences of 7,777 tokens, of which 1,111 were to be guessed"
        in text
    )
    assert "learning rate 0.002, 3 steps of warm-up, float32" in text
    assert f"is 3.375 nats (perplexity {math.exp(3.375):,.1f}), 2.125 below their unigram entropy of 5.500" in text
    assert "To know that from the training text costs 5.750." in text
    assert "It guesses 12.5% of them, and for 75.0% of the pairs" in text
    assert "Of the hidden tokens that begin a word, the 100 commonest pieces apart, it guesses 6.2%" in text
    assert "1 first 6 4 7.750 6.500 6.625 4.500 4.750 12.5%" in text
    assert re.search(r"2 (first \+ second|second \+ first) 14 8 6\.250 3\.000 3\.375 5\.500 5\.750 12\.5%", text)
    assert "20 training steps 987,654 parameters 12.5% of held-out tokens guessed" in text
    assert "models/small" in text and 'id="training"' in html and 'href="#training"' in html


def test_what_was_seen_of_each_set_is_told(store: Run, html: str) -> None:
    """Fails if a set's counts are another's, its share is not of its own phase, or its sources are not its."""
    text = text_of(html)
    assert "1 first 24 23 1 2.00 1,500 100.0% 225 6.625 letters 100.0%" in text
    assert "2 first 28 27 1 2.33 1,569 25.0% 235 4.125 letters 100.0%" in text
    assert re.search(r"2 second 84 83 1 0\.50 4,708 75\.0% 651 2\.625 (notes|letters) [\d.]+%, (notes|letters) ", text)
    [tokens] = [m for m in store.manifests if m.kind == "tokens" and m.name == "small-pieces"]
    shares = dict(compute_source_shares(named(store, "shards", "second"), {"": tokens}))
    counts = Counter({part.labels["source"]: part.ledger.figures["train tokens"] for part in tokens.parts})
    assert shares == {source: count / counts.total() for source, count in counts.items()} and len(shares) == 2


def test_a_model_that_learnt_less_than_frequencies_is_told_so() -> None:
    result = build_result_view(with_judged_term([metric("evaluation", 5, 0, 4.75)]))
    assert result is not None and result["below"] == pytest.approx(-0.25)
    nothing = build_result_view(with_judged_term([{**metric("evaluation", 5, 0, 1.0), "masked_loss": None}]))
    assert nothing is not None and nothing["below"] is None and nothing["perplexity"] is None
    assert build_result_view([]) is None


def test_a_run_without_a_model_has_no_training(store: Run) -> None:
    stages = tuple(stage for stage in store.record.stages if stage.kind != "models")
    html = build_page(store.place, replace(store.record, stages=stages), "text")
    assert 'id="training"' not in html and 'href="#training"' not in html and "Shards packed" in html
    Nesting(html)


def test_the_same_run_gives_the_same_bytes(store: Run, html: str) -> None:
    assert build_page(Place(store.place.address), store.record, "text", store.lock) == html


def test_raw_files_are_named_where_the_lock_names_them(store: Run, html: str) -> None:
    size = sum(file.size_bytes for file in store.lock.generations[0]["letters"])
    told = rf" 7, {size / 1000:.1f} kB letter-0.txt, letter-1.txt, letter-2.txt and 4 more "
    assert re.search(rf"letters files 7 0 7 [\d.]+ kB{told}", text_of(html))
    assert "letter-1.txt, letter-2.txt" not in text_of(build_page(store.place, store.record, "text"))


def test_no_folder_of_this_machine_is_on_the_page(store: Run, html: str) -> None:
    assert store.place.address not in html and str(store.recipe.path) not in html
    recipe = 'path = "/data/ada/x/*.txt" # or \'/data/y/\'\nother = "a/b" and = ["/x"]'
    assert without_folders(recipe) == 'path = "…/*.txt" # or \'…/y\'\nother = "a/b" and = ["…/x"]'


def test_the_terminal_tells_each_artifact_by_its_name(store: Run) -> None:
    console = Console(file=io.StringIO(), width=400)
    console.print(render_ledger(store.manifests))
    assert isinstance(console.file, io.StringIO)
    first, *_, last = console.file.getvalue().splitlines()
    tokens = [f"{count_tokens(named(store, 'tokens', name).parts):,} ({name})" for name in ("pieces", "bytes")]
    examples = [f"{entry.count_rows('examples'):,} ({name})" for name, entry in store.outcome.shard_sets.items()]
    assert f"→ {' and '.join(tokens)} tokens → {' and '.join(examples)} examples → 20 training steps" in first
    assert last.rstrip() == "✓ nothing is unaccounted for"


def test_curves_have_both_phases_and_their_entropy() -> None:
    events: list[Mapping[str, Any]] = metrics()
    assert find_phase_spans(events) == {0: (1, 6), 1: (7, 20)}
    svg = draw_loss_curve(events, "loss")
    assert f'width="{CURVE_WIDTH}pt"' in svg and CURVE_WIDTH > 400  # growth has a narrower one
    assert svg == draw_loss_curve(events, "loss")
    assert all(said in svg for said in ("phase 1", "phase 2", "held out", "unigram entropy", "training", "var(--bar)"))
    assert svg.count(">held out<") == 1 and not re.search(r"#[0-9a-f]{6}\b", svg)
    assert "pair loss, nats" in (pairs := draw_loss_curve(events, "pairs", "pair")) and "unigram entropy" not in pairs
    alone = draw_loss_curve(events)
    assert alone.startswith("<?xml") and "var(--" not in alone
    assert "held out" not in draw_loss_curve(events[:4], "loss") and "phase 1" not in draw_loss_curve(
        events[:4], "loss"
    )
    assert "<svg" in draw_loss_curve([], "loss")
    short = [{**event, "phase": int(event["step"] > 1)} for event in events]
    assert ">1<" in draw_loss_curve(short, "loss") and "phase 1" not in draw_loss_curve(short, "loss")


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    events = [metric("step", step, 0, 1.0) for step in range(1, 5_002)]
    drawn = [event["step"] for event in sample_steps(events)]
    assert (drawn[0], drawn[-1]) == (1, 5_001) and MAX_POINTS / 2 < len(drawn) <= MAX_POINTS + 1
