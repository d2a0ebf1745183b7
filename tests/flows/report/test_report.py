"""The report of a run: its numbers by independent counts, and what the page must never do."""

import hashlib
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import LETTERS, Run, keyed_note, letters_world, notes_and_letters, prose
from tokenizers import Tokenizer

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from flows.report.masked_example import get_example_masks, get_stored_masks, list_shown_tokens
from flows.report.page import build_page
from flows.report.plots import compute_bin_edges
from flows.report.texts import list_reasons, read_removals, select_pairs, summarize_missing
from flows.run.record.ledger_balance import Edge, StepAccount, spread
from shards.masks.masking import MaskSettings, ShardVocabulary, build_mask_vocabulary
from shards.masks.plain import draw_masks_plain
from shards.reading.files.shard_set import ShardSet
from tokenizers_train.build import read_vocabulary

SCRIPT = "<script>alert('title')</script>"
SECRET = "Zanzibarquux"


class Page(HTMLParser):
    """A page as a browser would see it: tags with their attributes, and the text between them, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())


def raw_with_traps() -> tuple[list[dict[str, object]], list[str]]:
    """The usual sources, and records with titles and texts that a careless page would stumble over."""
    notes, letters = notes_and_letters()
    notes.append(keyed_note(200, prose(77, 8), title=SCRIPT))
    notes.append(keyed_note(201, f"{SCRIPT} {SECRET} is short.", title=f"{SECRET} {'x' * 100_000}"))
    notes.append(keyed_note(202, "Short too.", title="turned \u202e round \x1b[31m <img src=http://example.org/y.png>"))
    notes.append({"id": "n203", "title": SECRET})
    return notes, letters


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return letters_world(tmp_path_factory.mktemp("report"), raw_with_traps()).run()


@pytest.fixture(scope="module")
def static_store(tmp_path_factory: pytest.TempPathFactory) -> Run:
    text = LETTERS.replace("dynamic", "static")
    return letters_world(tmp_path_factory.mktemp("static"), notes_and_letters(), text).run()


@pytest.fixture(scope="module")
def html(store: Run) -> str:
    return build_page(store.place, store.record, "text")


def test_headline_is_what_one_counts_by_hand(store: Run, html: str) -> None:
    notes, letters = raw_with_traps()
    bodies = [record["body"] for record in notes if "body" in record] + letters
    documents = [str(body) for body in bodies if len(str(body).split()) >= 20]
    live = [document.text for document in Corpus(store.place, store.outcome.corpus).iter_documents()]
    assert len(live) == len(documents) - 2  # an exact copy and a near one
    folder = Path(store.place.to_full_path(store.outcome.vocabulary.folder))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in live)
    examples = sum(len(ShardSet(store.place, store.outcome.shards, split)) for split in ("train", "held-out"))
    assert min(tokens, examples) > 100
    tiles = (
        f"{len(notes) + len(letters):,} raw records {len(documents):,} documents {len(live):,} kept "
        f"{tokens:,} tokens {examples:,} examples 300 tokens in the vocabulary"
    )
    assert tiles in Page(html).text


def test_every_drop_is_on_the_page_with_its_count_and_place(store: Run, html: str) -> None:
    text = Page(html).text
    for reason in ("dropped: rules: gopher.min_words 3", "dropped: parse: damaged 1", "removed: near duplicate 1"):
        assert reason in text
    [damaged] = [r for r in list_reasons(store.place, store.documents()["notes"], "dropped", 3) if "damaged" in r.name]
    [row] = damaged.rows
    assert str(row.locator) in text and "no field 'body' (text)" in text
    assert row.id is not None and row.id.hex() in text
    [few] = [r for r in list_reasons(store.place, store.documents()["notes"], "dropped", 2) if "min_words" in r.name]
    assert (few.count, len(few.rows)) == (3, 2)


def test_a_duplicate_stands_beside_its_survivor(store: Run, html: str) -> None:
    removals = read_removals(store.place, store.manifest("verdicts"))
    assert removals is not None
    near, exact = select_pairs(store.place, removals, 5, 5)
    assert (near.reason, exact.reason) == ("near duplicate", "exact duplicate")
    left, right = (shingles(document.text) for document in (near.removed, near.survivor))
    assert near.similarity == pytest.approx(len(left & right) / len(left | right), abs=1e-6)
    assert near.missing == pytest.approx(len(left - right) / len(left), abs=1e-6)
    [row] = summarize_missing(removals)
    assert (row["source"], row["removed"], row["whole"]) == ("letters", 1, 0)
    assert row["median"] == row["p99"] == f"{100 * near.missing:.1f}%"
    assert (near.removed.source, near.survivor.title) == ("letters", "The first telling")
    assert exact.removed.text == exact.survivor.text and exact.removed.id != exact.survivor.id
    text = Page(html).text
    more = len(near.removed.text.split()) - len(near.survivor.text.split())  # a sentence at the end
    assert more == 14
    figures = f"similarity {near.similarity:.3f}, missing {row['median']}"
    assert f"near duplicate , {figures}; 14 words only in the one that was removed, 0" in text
    marked = re.findall(r'<mark class="(gone|stays)">([^<]*)</mark>', html)
    assert marked == [("gone", " ".join(near.removed.text.split()[-more:]))]
    assert "exact duplicate , similarity 1.000, missing 0.0%; word for word the same" in text
    assert "removed, of letters …" in text
    assert "stays, of notes The first telling" in text


def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[start:] for start in range(5)), strict=False))


def test_the_page_needs_nothing_from_anywhere(html: str) -> None:
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in page.tags:
        for name in ("src", "srcset", "href", "xlink:href", "action", "data", "poster"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, name)
    assert not re.search(r"url\(\s*[\"']?[^#\"']", html) and "@import" not in html
    policy = {attributes.get("http-equiv"): attributes.get("content") for tag, attributes in page.tags if tag == "meta"}
    assert policy["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_text_of_documents_is_text_and_never_markup(html: str) -> None:
    text = Page(html).text
    assert SCRIPT in text and "<img src=http://example.org/y.png>" in text
    assert "\u202e" not in html and "\x1b" not in html and "turned \ufffd round \ufffd[31m" in text


def test_a_huge_title_is_bounded(html: str) -> None:
    assert "x" * 50 in html and "x" * 121 not in html
    assert len(html) < 200_000


@pytest.mark.parametrize("mode", ["hashed", "none"])
def test_no_text_leaks_where_it_may_not_be_shown(store: Run, html: str, mode: str) -> None:
    hidden = build_page(store.place, store.record, mode, store.lock)
    words = (SECRET, "alert", "Short too", "Note 100", "The first telling", "no field", "letter-6.txt")
    for word in words:
        assert word.lower() in html.lower(), f"the page never shows {word}: the test tests nothing"
        assert word.lower() not in hidden.lower()
    assert "gopher.min_words" in hidden and "[MASK]" in hidden


def test_hashes_are_of_the_whole_text(store: Run, html: str) -> None:
    digest = hashlib.sha256(b"Note 100").hexdigest()[:12]
    assert digest in build_page(store.place, store.record, "hashed")
    assert digest not in build_page(store.place, store.record, "none") and digest not in html


def test_an_unknown_privacy_is_refused(store: Run) -> None:
    with pytest.raises(InputError, match=r"privacy\.samples = 'texts'"):
        build_page(store.place, store.record, "texts")


def test_artifacts_are_named_by_fingerprint_and_content(store: Run, html: str) -> None:
    text = Page(html).text
    assert len(store.manifests) == 11
    for manifest in store.manifests:
        assert f"{manifest.stage_folder} {manifest.fingerprint} {manifest.content}" in text
    for stage in store.record.stages:
        assert f"{stage.kind}/{stage.name} built {stage.parts} of {stage.parts} {stage.seconds:.1f}" in text


def test_an_edge_that_does_not_balance_is_told(store: Run, html: str, tmp_path: Path) -> None:
    shutil.copytree(store.place.to_full_path(""), tmp_path / "store")
    place, verdicts = Place(str(tmp_path / "store")), store.manifest("verdicts")
    place.write(f"{verdicts.folder}/manifest.json", with_one_more_document(verdicts).to_bytes())
    page = Page(build_page(place, store.record, "text"))
    given = sum(manifest.count_rows("documents") for manifest in store.documents().values())
    assert f"✗ Documents parsed and judged: {given} ≠ {given + 1} documents" in page.text
    assert "The ledger does not balance" in page.text and "Nothing is unaccounted for" not in page.text
    assert "Nothing is unaccounted for" in Page(html).text


def with_one_more_document(verdicts: Manifest) -> Manifest:
    [part] = verdicts.parts
    account = part.ledger.find_account("documents")
    outcomes = {**account.outcomes, "kept": account.outcomes["kept"] + 1}
    ledger = Ledger(accounts=(Account(unit="documents", total=account.total + 1, outcomes=outcomes),))
    return verdicts.with_parts((replace(part, ledger=ledger),))


def test_steps_and_edges_that_do_not_add_up_say_so() -> None:
    step = StepAccount(title="Parse", unit="records", total=3, outcomes={"documents": 2})
    assert not step.balances and str(step) == "3 records ≠ 2 documents"
    assert replace(step, outcomes={"documents": 2, "dropped: empty": 1}).balances
    assert not Edge(title="a", unit="documents", given=2, received=1).balances


def test_shown_masks_are_those_that_training_sees(store: Run, static_store: Run) -> None:
    shards = store.outcome.shards
    words = build_mask_vocabulary(ShardVocabulary(shards.facts["vocab_size"], shards.facts["special_ids"]))
    drawn = 0
    shard_set = ShardSet(store.place, shards)
    for example in list(shard_set.iter_live_examples())[:20]:
        offsets, id = np.array([0, len(example.ids)]), np.array([example.example_id], np.uint64)
        starts = example.word_starts.astype(np.uint8)
        plain = draw_masks_plain(example.ids, offsets, starts, id, 0, MaskSettings(), words)
        shown = get_example_masks(shard_set, example)
        assert shown.positions.tolist() == plain.positions.tolist()
        assert shown.replacements.tolist() == plain.replacements.tolist()
        drawn += len(plain.positions)
    assert drawn > 20
    static_set = ShardSet(static_store.place, static_store.outcome.shards)
    stored = static_set[0]
    assert get_example_masks(static_set, stored).positions.tolist() == stored.mask_positions.tolist()
    assert len(stored.mask_positions)


def test_shown_tokens_tell_what_the_model_sees_and_must_guess(static_store: Run) -> None:
    words = read_vocabulary(static_store.place, static_store.outcome.vocabulary)
    kinds = set()
    for example in ShardSet(static_store.place, static_store.outcome.shards).iter_live_examples():
        tokens = list_shown_tokens(example, words, get_stored_masks(example))
        assert [words.find_id(token.text) for token in tokens] == example.ids.tolist()
        seen = example.ids.copy()
        seen[example.mask_positions] = example.mask_ids
        assert [words.find_id(token.seen) for token in tokens] == seen.tolist()
        assert [token.segment for token in tokens].index(1) == example.boundary
        guessed = [place for place, token in enumerate(tokens) if token.kind not in ("plain", "special")]
        assert guessed == example.mask_positions.tolist()
        kinds |= {token.kind for token in tokens}
    assert kinds == {"plain", "special", "masked", "swapped", "kept"}


@given(st.lists(st.integers(1, 1 << 24), min_size=1, max_size=60))
def test_bins_hold_every_length(lengths: list[int]) -> None:
    edges = compute_bin_edges(np.array(lengths))
    assert (np.diff(edges) > 0).all() and len(edges) <= 35
    assert np.histogram(lengths, edges)[0].sum() == len(lengths)


def test_parts_are_spread_over_the_whole() -> None:
    parts = [Part(name=str(number), fingerprint="", files=(), ledger=Ledger()) for number in range(100)]
    assert [part.name for part in spread(parts, 4)] == ["0", "25", "50", "75"]
    assert spread(parts, 100) == parts
