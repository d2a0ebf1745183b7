"""Steps that need more than a document to judge it: lines that are in many, evaluation sets, a share kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import Run, World, live_texts, new_world, note, page, prose

from corpora.errors import InputError
from corpora.store.tables import read_part_table
from flows.run.record.ledger_balance import list_edits

NOTICE = "By reading on you agree to the keeping of small files on your machine."
REPEATED = "\n[repeated_lines]\nenabled = true\nmin_documents = 20\nmin_share = 0.01\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Forty pages, each under a notice, and twelve notes without it."""
    world = new_world(tmp_path)
    world.put("pages", "a", [page(str(n), f"{NOTICE}\n{prose(n)}\nPage {n} ends here.") for n in range(40)])
    world.put("notes", "n", [note(n, prose(1000 + n)) for n in range(12)])
    return world


def fits(run: Run) -> list[str]:
    return [stage.stage.name for stage in run.of("fits")]


def test_lines_of_many_documents_are_taken_out(world: World) -> None:
    """Fails if the notice stays, another line goes, or the fit does not say what it found."""
    before = live_texts(world.run())
    run = replace(world, text=world.text + REPEATED).run()
    after = live_texts(run)
    assert {text.replace(f"{NOTICE}\n", "") for text in before.values()} == {*after.values()}
    assert sum(NOTICE in text for text in before.values()) > 30
    assert fits(run) == ["pages", "notes"]
    [rows] = read_part_table(run.place, "fits/pages", run.of("fits")[0].manifest.parts[0], "lines")
    assert rows.select(["documents", "line"]).to_pylist() == [{"documents": 40, "line": NOTICE}]
    figures = run.of("documents")[0].manifest.ledger.figures
    assert figures["lines removed: repeated"] == 40


def test_a_fit_holds_for_later_generations(world: World) -> None:
    """Fails if a new generation is fitted again, or its documents are judged without the fit."""
    world = replace(world, text=world.text + REPEATED)
    first = world.run()
    world.put("pages", "b", [page("100", f"{NOTICE}\n{prose(100)}")])
    second = world.run()
    assert [stage.reused for stage in second.of("fits")] == [True, True]
    assert [stage.manifest.fingerprint for stage in second.of("fits")] == [
        stage.manifest.fingerprint for stage in first.of("fits")
    ]
    assert prose(100) in live_texts(second).values()


def test_a_fit_is_kept_when_its_raw_files_are_gone(world: World) -> None:
    world = replace(world, text=world.text + REPEATED)
    contents = world.run().contents()
    world.put("pages", "b", [page("100", prose(100))])
    world.run()
    (world.folder / "raw" / "pages" / "a.jsonl").unlink()
    assert world.run().of("fits")[0].reused and contents


def test_what_meets_an_evaluation_set_is_dropped_and_says_what_it_met(world: World) -> None:
    """Fails if an item is missed that is written in other lines and case, or the drop does not name it."""
    items = ["Nobody ever wrote this long sentence about the blue whale and the tax on windows of 1696 there.", ""]
    items[1] = prose(7).split(". ")[1].upper().replace(" ", "  \n")
    (world.folder / "items.jsonl").write_text("".join(json.dumps({"question": item}) + "\n" for item in items))
    run = replace(world, text=world.text + '\n[contamination]\nsets = ["items.jsonl"]\n').run()
    [dropped] = read_part_table(run.place, "documents/pages", run.of("documents")[0].manifest.parts[0], "dropped")
    [row] = dropped.to_pylist()
    assert (row["step"], row["reason"], row["title"]) == ("contamination", "items.jsonl", "Page 7")
    assert row["detail"].startswith("items.jsonl, item 2: ")
    again = replace(world, text=world.text + '\n[contamination]\nsets = ["items.jsonl"]\n').run()
    assert again.of("documents")[0].reused
    (world.folder / "items.jsonl").write_text(json.dumps({"question": items[0]}) + "\n")
    changed = replace(world, text=world.text + '\n[contamination]\nsets = ["items.jsonl"]\n').run()
    assert not changed.of("documents")[0].reused and "evaluation_items" in changed.of("documents")[0].reason


def test_the_share_nearest_to_the_questions_is_kept(world: World) -> None:
    """Fails if selection keeps another share, or not the documents that share most with the questions."""
    (world.folder / "questions.txt").write_text("\n".join(prose(n, 3) for n in range(4)) + "\n")
    own = 'name = "pages"\nselection = { questions = ["questions.txt"], share = 0.1 }\n'
    run = replace(world, text=world.text.replace('name = "pages"\n', own)).run()
    kept = [document.title for document in run.corpus.iter_documents() if document.source == "pages"]
    assert sorted(kept) == [f"Page {n}" for n in range(4)]
    assert (
        run.of("documents")[0].manifest.ledger.find_account("records").outcomes["dropped: selection: low score"] == 36
    )
    assert fits(run) == ["pages"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[contamination]\nsets = ["gone.jsonl"]', "gone.jsonl"),
        ('[contamination]\nsets = ["items.doc"]', "endings"),
        ('[selection]\nquestions = ["gone.txt"]', "gone.txt"),
        ("[selection]\nshare = 2.0", "selection.share"),
        ("[repeated_lines]\nmin_documents = 1", "repeated_lines.min_documents"),
        ('[[step]]\nkind = "shouting"', "cloze.steps"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_built(world: World, table: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(world, text=f"{world.text}\n{table}\n").run()
    assert not list((world.folder / "store").glob("documents/*/*/manifest.json"))


def test_the_report_says_what_steps_changed(world: World) -> None:
    """Fails if lines that were taken out, or addresses that were masked, are nowhere on the page."""
    text = world.text + REPEATED + "\n[personal_data]\nemail = true\n"
    world.put("notes", "more", [note(50, f"{prose(50)} Write to ada.byron@analytical.org for more.")])
    run = replace(world, text=text).run()
    told = [list_edits(manifest) for manifest in (stage.manifest for stage in run.of("documents"))]
    assert told == [[("lines removed: repeated", 40)], [("masked: email", 1)]]
    assert not any("ada.byron" in text for text in live_texts(run).values())
