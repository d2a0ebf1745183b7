"""Small inputs after bug reports of other tools, which are next to the checkout: what a reader sees comes through."""

from pathlib import Path

import pytest
from source_reading import read, reasons

from corpora.sources.contract import Source
from corpora.sources.files.source import FilesSource
from corpora.sources.web.source import CcNewsSource
from corpora.sources.wiki.source import WikipediaSource

PILOTS = (
    "The harbour was dredged twice in that decade, and each time the pilots wrote down what the sea had brought in."
)
# Folder: (number of records, number of drops, what is in their texts, what is in none).
REPORTS: dict[str, tuple[int, int, tuple[str, ...], tuple[str, ...]]] = {
    "A01-docx-controls/in": (
        1,
        0,
        (
            "Ada Holm and she counts",
            "A block control holds",
            "Mill pond\tseven",
            "A table inside a control",
            "every control.",
        ),
        (),
    ),
    "A03-docx-hidden/in": (
        1,
        0,
        ("The bridge opened in May and the ferry stopped.", "Herons nest below the weir in spring."),
        ("DRAFT",),
    ),
    "A04-ruby/docx": (1, 0, ("私は東京に住んでいます。",), ("とうきょう",)),
    "A04-ruby/epub": (1, 0, ("私は東京に住んでいます。",), ("とうきょう",)),
    "A04-ruby/xlsx": (3, 0, ("東京の川は静かです。", "京都の橋は古い。", "奈良の鹿は多い。"), ()),
    "B01-html-nobr/in": (1, 0, ("The sixth AP-fund was closed in spring, and 12 000 letters",), ()),
    "B03-html-one-form/in": (
        1,
        0,
        (PILOTS, "Nobody asked the pilots", "The mayor read from it", "What was left of"),
        (),
    ),
    "B04-html-math/in": (
        1,
        0,
        ("mean error was [formula] over all runs, and the rate is k/n for each of them.",),
        ("times",),
    ),
    "B06-html-charset/in": (3, 0, ("家居", "Паром", "Brücke"), ()),
    "B07-html-endless/in": (
        1,
        0,
        (PILOTS, "What was left of the old pier"),
        ("theatre", "collector", "bicycles", "bills"),
    ),
    "B09-html-plain/in": (1, 0, ("The first point says", "The second point has", "The third point"), ()),
    "B11-warc/in": (5, 0, (PILOTS,), ()),
    "C01-wiki/in": (
        14,
        2,
        (
            "ends here. The second begins",
            "one line and then another",
            "He added a word in a span to it",
            "was sold in the spring to a company",
        ),
        ('"', "geo/18aug"),
    ),
    "D01-epub/in": (1, 0, ("Chapter one", "Chapter two", "Chapter three"), ("NAV", "POPUP")),
    "E02-pubmed/in": (2, 0, ("Vitamin D3 was given at 1.73 m2", "The chapter describes one gene"), ("<b>",)),
    "E02-pubmed/in2": (1, 0, ("Patient: Female, 16 Final Diagnosis: Cyst",), ()),
    "F01-jsonl-lines/in": (6, 1, ("A talk about boats\u2028and", "A second talk\x85with"), ()),
    "F02-csv-lines/in": (6000, 0, ("Row 5999 begins here.\nIt goes on",), ()),
    "F05-json-of-lines/in": (50, 0, ("Row 49 tells of the boat",), ()),
}


@pytest.mark.parametrize("folder", REPORTS)
def test_a_report_of_another_tool_is_read_as_its_reader_sees_it(folder: str, shared: Path) -> None:
    """Fails if something that was reported of a tool holds of Cloze. Skipped if the reports are not here."""
    path = shared / "data" / "reports" / folder
    if not path.is_dir():
        pytest.skip(f"the reports are not here: {path}")
    records = read(source_of(folder, str(path)))
    num_records, num_drops, shown, gone = REPORTS[folder]
    texts = "\n\n".join(record.text for record in records)
    assert (len(records), sum(why is not None for why in reasons(records))) == (num_records, num_drops)
    assert [each for each in shown if each not in texts] == []
    assert [each for each in gone if each in texts] == []


def source_of(folder: str, path: str) -> Source:
    """The source that a report is about."""
    if folder.startswith("C"):
        return WikipediaSource(name="own", path=path)
    return CcNewsSource(name="own", path=path) if folder.startswith("B11") else FilesSource(name="own", path=path)
