"""Nothing is lost silently: every edge of a run counted again, from the tables themselves and from the raw files."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from small_recipe import Run, World, fill, live_texts, new_world, note, page, prose

from corpora.errors import InputError
from corpora.schema import compute_keyed_id
from corpora.sources.files.source import FilesSource
from corpora.store.ledger import LedgerError
from corpora.store.manifest import Manifest
from corpora.store.tables import read_table


def rows(run: Run, manifest: Manifest, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table as they are in its files."""
    for batch in read_table(run.place, manifest, table):
        yield from batch.to_pylist()


def newest(run: Run, kind: str) -> Manifest:
    return run.of(kind)[-1].manifest


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Run]:
    """Two generations, so that older rows are deleted and revived too."""
    world = fill(new_world(tmp_path_factory.mktemp("ledger") / "world"))
    first = live_texts(world.run())
    survivor = (
        "5" if compute_keyed_id("pages", "5") in first else "101"
    )  # of two pages of one text; the other comes back
    revised = [page(n, prose(900 + int(n)), revision=2) for n in ("3", survivor, "9")]
    world.put("pages", "pages-9", [*revised, *(page(str(n), prose(n)) for n in range(200, 210))])
    return world, world.run()


def test_records_are_documents_or_dropped(grown: tuple[World, Run]) -> None:
    """Fails if a line of a raw file is neither a document nor a drop, or is counted under another name."""
    world, run = grown
    lines: Counter[str] = Counter()
    for path in sorted((world.folder / "raw").rglob("*.jsonl")):
        lines[path.parent.name] += len(path.read_text().splitlines())
    counted: Counter[str] = Counter()
    dropped = 0
    for manifest in run.every("documents"):
        account = manifest.ledger.find_account("records")
        reasons = Counter(f"dropped: {row['step']}: {row['reason']}" for row in rows(run, manifest, "dropped"))
        documents = sum(1 for _ in rows(run, manifest, "documents"))
        assert account.outcomes == {"documents": documents, **reasons}
        counted[manifest.name] += account.total
        dropped += reasons.total()
    assert counted == lines
    assert dropped == 2


def test_every_record_is_somewhere_with_its_bytes(grown: tuple[World, Run]) -> None:
    """Fails if a row's locator does not lead back to a record, or two rows claim one record."""
    world, run = grown
    claimed: Counter[tuple[str, int]] = Counter()
    for manifest in run.every("documents"):
        source = FilesSource(name=manifest.name, path=str(world.folder / "raw" / manifest.name))
        for table in ("documents", "dropped"):
            for row in rows(run, manifest, table):
                locator = row["locator"]
                file = world.folder / "raw" / manifest.name / locator["file"]
                data = file.read_bytes()[locator["offset"] : locator["offset"] + locator["length"]]
                claimed[str(file), locator["offset"]] += 1
                assert json.loads(data).get("title") == row["title"] or row["reason"] == "damaged"
                assert source.name == row["source"]
    assert set(claimed.values()) == {1}
    assert len(claimed) == sum(len(path.read_text().splitlines()) for path in (world.folder / "raw").rglob("*.jsonl"))


def test_documents_are_sketched_and_judged(grown: tuple[World, Run]) -> None:
    """Fails if a document is lost between two stages, or judged under another's id."""
    _, run = grown
    documents = [row for manifest in run.every("documents") for row in rows(run, manifest, "documents")]
    sketches = [row for manifest in run.every("signatures") for row in rows(run, manifest, "signatures")]
    assert [row["id"] for row in sketches] == [row["id"] for row in documents]
    verdicts = list(rows(run, newest(run, "verdicts"), "verdicts"))
    assert len(verdicts) == len(documents)
    # Records without a key get ids of their own where their bytes come twice; every other id is the document's.
    changed = [v["id"] != d["id"] for v, d in zip(verdicts, documents, strict=True)]
    assert [d["title"] for d, new in zip(documents, changed, strict=True) if new] == ["Note 51"]
    outcomes = Counter("kept" if row["reason"] is None else f"removed: {row['reason']}" for row in verdicts)
    account = newest(run, "verdicts").ledger.find_account("documents")
    assert (account.total, account.outcomes) == (len(documents), outcomes)
    assert {"kept", "removed: superseded", "removed: exact duplicate", "removed: near duplicate"} == set(outcomes)


def test_verdicts_are_what_the_corpus_holds(grown: tuple[World, Run]) -> None:
    """Fails if the corpus' parts, its delete list and its revived rows do not add up to the verdicts."""
    _, run = grown
    verdicts = {(r["id"], r["revision"]): r["reason"] for r in rows(run, newest(run, "verdicts"), "verdicts")}
    corpus = run.outcome.corpus
    written = list(rows(run, corpus, "documents"))
    gone = {(r["id"], r["revision"], r["generation"]) for r in rows(run, corpus, "deleted")}
    held = {(r["id"], r["revision"], r["generation"]) for r in written}
    assert gone and gone < held and len(held) == len(written)
    live = {key[:2] for key in held - gone}
    assert len(live) == len(held) - len(gone)
    assert live == {key for key, reason in verdicts.items() if reason is None}
    accounts = corpus.ledger
    total = sum(manifest.count_rows("documents") for manifest in run.every("documents"))
    assert accounts.find_account("documents").total == total
    kept = accounts.find_account("documents").outcomes["kept"]
    revived = accounts.figures["revived documents"]
    assert (revived, kept + revived) == (1, len(written))
    older = accounts.find_account("older documents")
    assert older.sum_outcomes("deleted") == len(gone)
    first = run.every("corpora")[0]
    assert older.total == sum(1 for _ in rows(run, first, "documents"))
    removed = Counter(f"removed: {r['reason']}" for r in rows(run, corpus, "removed"))
    assert {"kept": kept, **removed} == accounts.find_account("documents").outcomes


def test_the_corpus_is_tokenised(grown: tuple[World, Run]) -> None:
    """Fails if a kept document is not tokenised, or a figure is not the number of tokens in the rows."""
    _, run = grown
    tokens = newest(run, "tokens")
    account = tokens.ledger.find_account("documents")
    written = list(rows(run, run.outcome.corpus, "documents"))
    assert account.total == len(written) == run.outcome.corpus.count_rows("documents")
    found = list(rows(run, tokens, "tokens"))
    assert account.outcomes == {"tokenised": len(found), "without tokens": 0}
    assert Counter((r["id"], r["revision"]) for r in found) == Counter((r["id"], r["revision"]) for r in written)
    for split, held_out in (("train", False), ("held-out", True)):
        mine = [row for row in found if row["held_out"] == held_out]
        figures = tokens.ledger.figures
        assert figures[f"{split} documents"] == len(mine) > 0
        assert figures[f"{split} tokens"] == sum(len(row["ids"]) for row in mine)
        assert figures[f"{split} sentences"] == sum(len(row["sentence_lengths"]) for row in mine)
    for row in found:
        assert sum(row["sentence_lengths"]) == len(row["ids"]) == len(row["word_starts"])
        assert min(row["sentence_lengths"]) > 0


def test_tokens_are_placed_truncated_or_left_over(grown: tuple[World, Run]) -> None:
    """Fails if a shard's account is of other tokens than the tokens stage wrote, in any copy."""
    _, run = grown
    shards, figures = run.outcome.shards, newest(run, "tokens").ledger.figures
    total = figures["train tokens"] + figures["held-out tokens"]
    accounts = {account.unit: account for account in shards.ledger.accounts if account.unit.startswith("tokens of")}
    assert set(accounts) == {"tokens of copy 0", "tokens of copy 1"}
    assert {account.total for account in accounts.values()} == {total}
    examples = list(rows(run, shards, "examples"))
    assert shards.ledger.figures["examples"] == len(examples)
    assert shards.ledger.figures["documents"] == figures["train documents"] + figures["held-out documents"]
    lengths = [len(row["ids"]) for row in examples]
    assert shards.ledger.figures["example tokens"] == sum(lengths)
    assert max(lengths) <= 64
    # Three tokens of every example are its specials; of the others some are the borrowed ones of random neighbours.
    placed = sum(account.outcomes["placed"] for account in accounts.values())
    assert placed + shards.ledger.figures["borrowed"] == sum(lengths) - 3 * len(examples)


def test_counts_are_of_what_trains(grown: tuple[World, Run]) -> None:
    """Fails if a held-out document teaches the vocabulary, or a training one does not."""
    _, run = grown
    first = run.every("corpora")[0]
    account = newest(run, "counts").ledger.find_account("documents")
    sides = Counter("held out" if row["held_out"] else "counted" for row in rows(run, first, "documents"))
    assert account.outcomes == {**sides, "deleted": 0}
    words = sum(pc.sum(b.column("count")).as_py() for b in read_table(run.place, newest(run, "counts"), "counts"))
    assert newest(run, "counts").ledger.figures["words"] == words > 1000


def test_a_lost_row_fails_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the accounts above are made of the same number twice: one record vanishes, and it shows."""
    records = FilesSource.records

    def leaky(self: FilesSource, *args: Any) -> Iterator[Any]:
        return (record for record in records(self, *args) if record.title != "Page 7")

    monkeypatch.setattr(FilesSource, "records", leaky)
    with pytest.raises(LedgerError, match="9 records came in and 8 are accounted for"):
        world.run()


def test_files_in_another_encoding_stop_a_run_that_says_how_to_name_it(tmp_path: Path) -> None:
    """Fails if somebody with files in Shift JIS is told of bytes, and not of the setting that reads them."""
    world = new_world(tmp_path)
    world.put("pages", "a", [page("1", prose(1))])
    path = world.put("notes", "n", [note(n, prose(n)) for n in range(2, 12)])
    path.write_bytes(path.read_bytes().replace(b"the ", "\u6771\u4eac ".encode("shift_jis")))
    with pytest.raises(
        InputError, match=r'Say which encoding the files have, as in source\.notes\.encoding = "shift_jis"'
    ):
        world.run()
