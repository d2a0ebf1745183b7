"""PubTator's abstracts: words, where they are, tags of mentions, and mentions that are not where they should be."""

from pathlib import Path

import pytest
from task_records import TaskRecord, read_records

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings, RowCounts

TITLE, ABSTRACT = "Colon cancers in β-mice.", "In 5% of e.g. the Dr. Who syndrome, APC. Then none (of it)! 2 more."
TEXT = f"{TITLE} {ABSTRACT}"


def written(folder: Path, *mentions: tuple[int, str, str], name: str = "7") -> Path:
    path = folder / "train.txt"
    lines = [f"{name}|t|{TITLE}", f"{name}|a|{ABSTRACT}"]
    lines += [f"{name}\t{start}\t{start + len(text)}\t{text}\t{kind}\tD1" for start, text, kind in mentions]
    path.write_text("\n".join(["", *lines, f"{name}\tCID\tD1\tD2", "", ""]))
    return path


def read(path: Path, kind: str = "pubtator") -> tuple[list[TaskRecord], RowCounts]:
    counts = RowCounts()
    file = FileSettings(path=str(path), format=kind, max_unusable=1.0)
    return list(read_records(file, counts, ("words", "tags"))), counts


def test_words_and_tags_of_sentences(tmp_path: Path) -> None:
    """A mention holds a sentence together, where it has a full stop within."""
    path = written(tmp_path, (0, "Colon cancers", "Class"), (TEXT.index("Dr."), "Dr. Who syndrome", "Modifier"))
    found, counts = read(path)
    said = [" ".join(record.values["words"]) for record in found]
    assert said == ["Colon cancers in β - mice .", "In 5 % of e . g . the Dr . Who syndrome , APC .",
                    "Then none ( of it ) !", "2 more ."]  # fmt: skip
    assert found[0].values["tags"] == ["B-Class", "I-Class", "O", "O", "O", "O", "O"]
    tags = found[1].values["tags"]
    assert tags[9:13] == ["B-Modifier", "I-Modifier", "I-Modifier", "I-Modifier"] and tags.count("O") == len(tags) - 4
    for record in found:
        assert [TEXT[start:end] for start, end in record.values["offsets"]] == record.values["words"]
        assert (record.line, record.values["document"]) == (2, 1)
    assert [record.values["id"] for record in found] == ["7.0", "7.1", "7.2", "7.3"]
    assert counts.unusable == {}
    assert {tag for record in read(path, "ncbi")[0] for tag in record.values["tags"]} == {"O", "B-Disease", "I-Disease"}


def test_mentions_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path, (0, "Colon cancer", "x"), (TEXT.index("APC"), "ABC", "x"), (TEXT.index("none"), "none (", "x"),
        (TEXT.index("(of"), "(of it)", "x"), (999, "beyond", "x"),
    )  # fmt: skip
    found, counts = read(path)
    assert [record.values["id"] for record in found] == ["7.1", "7.4"]  # "Dr." ends a sentence here
    assert counts.unusable == dict.fromkeys(
        ["a sentence with a mention that begins or ends within a word", "a sentence with mentions that overlap",
         "a sentence with a mention whose text is another", "a mention beyond its document"], 1
    )  # fmt: skip
    assert counts.first_lines["a sentence with mentions that overlap"] == 6
    assert counts.first_places["a sentence with a mention that begins or ends within a word"] == (
        ", at character 0, 'Colon cancer'"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("7|t|A title.\n8|a|An abstract.\n", "1 a document without title and abstract .first in line 1"),
        ("7|t|A title.\n", "1 a document without title and abstract"),
        ("7|t|A title.\n7|a|B.\n7\tx\t9\tt\tk\n", r"1 a document with a mention without place \(first in line 3, "),
        ("", "has no sentences"),
        ("7|t|\udcff\n7|a|B.\n", "1 not UTF-8"),
    ],
)
def test_files_that_are_no_pubtator_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=reason):
        list(read_records(FileSettings(path=str(path), format="pubtator"), RowCounts(), ("words", "tags")))
