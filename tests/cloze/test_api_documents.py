"""Documents of the Python API: they are those of a run, and nothing that a caller gives ends in a traceback of ours."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import new_world, note, page, prose
from strange_text import TEXTS
from tiers import examples

import cloze
from corpora.judging.steps.clean import CleanSettings, clean_text

RULES: dict[str, Any] = {"repetition": {"enabled": False}}
TICKETS = """
name = "tickets"
store = "store"

[[source]]
kind = "files"
name = "tickets"
path = "raw/tickets"
fields = { text = "body", key = "id", revision = "revision", title = "title" }

[rules]
repetition.enabled = false

[held_out]
share = 0.2

[vocabulary]
size = 300

[shards]
length = 64
masking = { kind = "dynamic" }
"""


def artifacts(store: Path) -> set[str]:
    """The artifacts of a store."""
    return {path.parent.relative_to(store).as_posix() for path in store.glob("*/*/*/manifest.json")}


def test_what_a_run_built_is_reused_and_the_other_way_round(tmp_path: Path) -> None:
    """Fails if a function of the API asks for another artifact than a run of the same settings."""
    world = new_world(tmp_path, TICKETS)
    world.put("tickets", "a", [page(str(n), prose(n)) for n in range(20)] + [page("copy", prose(3))])
    run = world.run()
    store = tmp_path / "store"
    before = artifacts(store)
    fields = {"text": "body", "key": "id", "revision": "revision", "title": "title"}
    asked: dict[str, Any] = {"name": "tickets", "fields": fields, "encoding": "utf-8", "progress": False}
    docs = cloze.read(tmp_path / "raw" / "tickets", store=store, **asked)
    docs = cloze.deduplicate(cloze.judge(docs, rules=RULES), held_out=0.2)
    assert [row["text"] for row in docs] == [document.text for document in run.corpus.iter_documents()]
    assert docs.dropped == {"exact duplicate": 1}
    vocab = cloze.train_vocabulary(docs, size=300)
    shards = cloze.build_shards(docs, vocab, 64, masking="dynamic")
    assert artifacts(store) == before
    assert shards.artifact == str(store / run.outcome.shards.folder)
    elsewhere = cloze.read(tmp_path / "raw" / "tickets", **asked)
    other = cloze.deduplicate(cloze.judge(elsewhere, rules=RULES), held_out=0.2)
    assert other.to_arrow().equals(docs.to_arrow())


def test_each_step_does_its_own_work_and_no_more() -> None:
    """Fails if reading cleans, cleaning drops, or judging leaves a text as it was read."""
    raw = "Dont\u00e2\u20ac\u2122t   stop. "
    docs = cloze.read([raw, "Ein kurzer Text."], progress=False)
    assert docs["text"] == [raw, "Ein kurzer Text."]
    cleaned = cloze.clean(docs)
    assert cleaned["text"] == [clean_text(raw, CleanSettings()), "Ein kurzer Text."]
    judged = cloze.judge(docs, rules={**RULES, "gopher": {"enabled": False}, "c4": {"enabled": False}}, language=[])
    assert judged["text"] == cleaned["text"]
    assert cloze.judge(cleaned, language="de").dropped == {"rules: gopher.min_words": 2}
    assert docs["text"] == [raw, "Ein kurzer Text."]


@given(st.lists(TEXTS, max_size=6))
@examples(30)
def test_any_text_comes_back_or_is_counted(texts: list[str]) -> None:
    """Fails if a text is lost, or another one than `clean_text` makes of it."""
    docs = cloze.clean(cloze.read(texts, progress=False))
    assert len(docs) + sum(docs.dropped.values()) == len(texts)
    expected = [clean_text(text, CleanSettings()) for text in texts]
    assert docs["text"] == [text for text in expected if text]


@pytest.mark.parametrize(
    ("texts", "kept"),
    [([], 0), (["half \ud800 a character"], 0), (["\0 nothing"], 1), (["x" * 6_000_000], 0), (["<b>&amp;</b>"], 1)],
)
def test_hostile_texts_are_counted(texts: list[str], kept: int) -> None:
    """Fails if a text that no file can hold, or one that is too large, ends the process or is lost."""
    docs = cloze.read(texts, progress=False)
    assert (len(docs), sum(docs.dropped.values())) == (kept, len(texts) - kept)
    assert "<b>" not in docs._repr_html_()
    assert len(docs.dropped_rows()) == len(texts) - kept


def test_records_keep_their_fields() -> None:
    """Fails if a record's key, group or title is lost, or an unusable record is not counted."""
    rows = [{"body": "One.", "id": "a", "who": "me"}, {"id": "b"}, {"body": "Three.", "id": "c", "who": None}]
    docs = cloze.read(rows, fields={"text": "body", "key": "id", "group": "who"}, progress=False)
    assert [(row["text"], row["keyed"], row["group"]) for row in docs] == [("One.", True, "me"), ("Three.", True, None)]
    assert sum(docs.dropped.values()) == 1
    assert docs[-1]["text"] == "Three."
    with pytest.raises(IndexError):
        _ = docs[2]
    with pytest.raises(KeyError):
        _ = docs["body"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cloze.read("no/such/folder", progress=False), "there is no .*no/such/folder"),
        (lambda: cloze.read(["a"], encodign="utf-8"), "encoding"),
        (lambda: cloze.read(["a"], kind="flies"), "flies"),
        (lambda: cloze.read(["a"], workers=0), "workers"),
        (lambda: cloze.read(["a"], name="a/b"), "without slashes"),
        (lambda: cloze.clean(["a"], profil="cased"), "profile"),
        (lambda: cloze.judge(["a"], rules={"gofer": {}}), "gopher"),
        (lambda: cloze.judge(["a"], languages="de"), "judge"),
        (lambda: cloze.judge(["a"], language="xx"), "xx"),
        (lambda: cloze.deduplicate(["a"], threshold=2.0), "threshold"),
        (
            lambda: cloze.clean("a text"),
            r"docs: there is no file or folder .a text.\. A text is given in a list: \[text\]",
        ),
    ],
)
def test_mistakes_are_input_errors_that_name_them(call: Any, message: str) -> None:
    """Fails if a mistake of the caller is accepted, or told without the name of what is wrong."""
    with pytest.raises(cloze.InputError, match=message):
        call()


def test_a_damaged_artifact_is_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a flipped bit in a store reaches the caller, or ends the call."""
    texts = [prose(n) for n in range(4)]
    docs = cloze.deduplicate(cloze.read(texts, store=tmp_path), held_out=0.0)
    assert docs["text"] == texts
    [file] = tmp_path.glob("documents/texts/*/*.documents.arrow")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    for corpus in tmp_path.glob("corpora/*/*"):
        (corpus / "manifest.json").unlink()
        for part in corpus.glob("**/*.*"):
            part.unlink()
    again = cloze.deduplicate(cloze.read(texts, store=tmp_path), held_out=0.0)
    assert again["text"] == texts
    assert "is damaged" in capsys.readouterr().err


def test_a_temporary_store_goes_with_its_documents() -> None:
    """Fails if a folder is left behind, or goes while documents that came of it can still be asked."""
    docs = cloze.read([prose(1)], progress=False)
    folder = docs._workspace.folder
    docs = cloze.clean(docs)
    gc.collect()
    assert folder.is_dir() and docs["text"] == [prose(1)]
    del docs
    gc.collect()
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.long
def test_workers_change_nothing(tmp_path: Path) -> None:
    """Fails if parts that other processes build have other rows, or their bars end the call."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(4):
        lines = (json.dumps(note(n, prose(100 * number + n))) for n in range(20))
        (raw / f"{number}.jsonl").write_text("\n".join(lines))
    asked: dict[str, Any] = {"rules": RULES, "documents": {"part_bytes": 2_000}}
    tables = [
        cloze.deduplicate(cloze.judge(cloze.read(raw, fields={"text": "body"}, workers=workers), **asked)).to_arrow()
        for workers in (1, 2)
    ]
    assert tables[0].num_rows > 60
    assert tables[0].equals(tables[1])
