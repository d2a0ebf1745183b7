"""Labelled texts from three formats: the same rows, every row accounted for, a word on what is unusable."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from trainer.tasks.formats.records import RowCounts
from trainer.tasks.readers import LabelledText, read_rows
from trainer.tasks.settings import TableSettings

PAIRS = [("a good film", "good"), ("a bad one, really", "bad"), ("", "bad"), ("Été \u2028 1", "good")]


def read(path: Path, labels: tuple[str, ...] = (), **settings: object) -> tuple[list[LabelledText], RowCounts]:
    counts = RowCounts()
    table = TableSettings(path=str(path), **{"max_unusable": 1.0, **settings})  # type: ignore[arg-type]
    return list(read_rows(table, counts, labels)), counts


def written(folder: Path, ending: str, header: bool = True) -> Path:
    """PAIRS as a file, the label first, in columns named `label` and `text`."""
    path = folder / f"rows{ending}"
    rows = ([["label", "text"]] if header else []) + [[label, text] for text, label in PAIRS]
    with path.open("w", encoding="utf-8", newline="") as file:
        if ending == ".csv":
            csv.writer(file).writerows(rows)
        elif ending == ".tsv":
            file.writelines("\t".join(row) + "\n" for row in rows)
        else:
            file.writelines(json.dumps({"label": label, "text": text}) + "\n" for text, label in PAIRS)
    return path


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl"])
def test_every_format_gives_the_same_rows(tmp_path: Path, ending: str) -> None:
    rows, counts = read(written(tmp_path, ending))
    assert [(row.text, row.label) for row in rows] == [pair for pair in PAIRS if pair[0]]
    first = 1 if ending == ".jsonl" else 2
    assert [row.line for row in rows] == [first, first + 1, first + 3]
    assert (counts.rows, counts.given, counts.unusable, counts.first) == (
        4,
        3,
        {"empty text": 1},
        {"empty text": first + 2},
    )
    assert counts.account.outcomes == {"given": 3, "dropped: empty text": 1}


@pytest.mark.parametrize("ending", [".tsv", ".csv"])
def test_columns_by_number(tmp_path: Path, ending: str) -> None:
    plain, _ = read(written(tmp_path, ending, header=False), text="2", label="1", header=False)
    named, _ = read(written(tmp_path, ending))
    mixed, _ = read(written(tmp_path, ending), text="2", label="label")
    assert [row[1:] for row in plain] == [row[1:] for row in named] == [row[1:] for row in mixed]
    assert len(plain) == 3 and plain[0].line == 1


def test_a_column_whose_name_is_a_number_goes_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("2\t1\nx\ta text\n")
    assert read(path, text="1", label="2")[0] == [LabelledText(2, "a text", "x")]


@given(st.lists(st.tuples(st.text().filter(str.strip), st.integers(0, 3)), min_size=1))
def test_csv_and_jsonl_bring_back_any_text(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, int]]
) -> None:
    """Commas, quotes and line feeds of quoted texts are the texts' own."""
    folder = tmp_path_factory.mktemp("rows")
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["text", "label"], *pairs, ["end", 0]])
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in [*pairs, ("end", 0)]]
    (folder / "rows.jsonl").write_text("".join(lines))
    for name in ("rows.csv", "rows.jsonl"):
        rows, counts = read(folder / name)
        assert [(row.text, row.label) for row in rows] == [(text, str(label)) for text, label in [*pairs, ("end", 0)]]
        assert counts.unusable == {}


def test_a_tsv_knows_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_bytes(b'\xef\xbb\xbftext\tlabel\r\n"an open quote\t1\r\n\r\nthe "next", row\t0\r\n')
    assert read(path)[0] == [LabelledText(2, '"an open quote', "1"), LabelledText(4, 'the "next", row', "0")]


def test_every_reason_is_counted_with_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(
        b'{"text": "fine", "label": 1}\n'
        b"not json\n"
        b"[1, 2]\n"
        b'{"label": 1}\n'
        b'{"text": "a"}\n'
        b'{"text": 7, "label": 1}\n'
        b'{"text": "  ", "label": 1}\n'
        b'{"text": "a", "label": " "}\n'
        b'{"text": "a", "label": [0.5]}\n'
        b'{"text": "\xff", "label": 1}\n'
        b'{"text": "\\ud800", "label": 1}\n'
        b'{"text": "a", "label": 2}\n'
        b'{"text": "fine", "label": "1"}\n'
        b'{"text": "fine", "label": true}\n'
    )
    rows, counts = read(path, ("1", "true"))
    assert [row.line for row in rows] == [1, 13, 14]
    assert [row.label for row in rows] == ["1", "1", "true"]
    assert counts.first == {
        "not JSON": 2, "not a JSON object": 3, "no text": 4, "no label": 5, "text is no text": 6, "empty text": 7,
        "empty label": 8, "label is neither text nor number": 9, "not UTF-8": 10, "unknown label": 12,
    }  # fmt: skip
    assert counts.unusable == dict.fromkeys(counts.first, 1) | {"not UTF-8": 2}
    assert counts.account.total == 14
    counts.account.check()


def test_a_row_with_too_few_columns_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("label\ttext\n1\n\t\n1\tgood\n")
    rows, counts = read(path)
    assert len(rows) == 1
    assert counts.unusable == {"no text": 1, "empty text": 1}


def test_too_many_unusable_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\tlabel\n" + "good\t1\n" * 97 + "\t1\n" * 3)
    assert len(read(path, max_unusable=0.03)[0]) == 97
    with pytest.raises(InputError, match=r"3 of 100 rows cannot be used: 3 empty text \(first in line 99\).*0\.02"):
        read(path, max_unusable=0.02)


@pytest.mark.parametrize(
    ("name", "content", "settings", "message"),
    [
        ("rows.txt", "a", {}, r"rows\.txt is none of \.tsv, \.csv, \.jsonl"),
        ("rows.tsv", None, {}, r"Cannot read .*rows\.tsv: No such file"),
        ("rows.tsv", "", {}, "line 1, has no column 'text': its header is empty"),
        ("rows.tsv", "", {"header": False, "text": "1", "label": "2"}, "has no rows"),
        ("rows.tsv", "text\tlabel\n", {}, "has no rows"),
        ("rows.jsonl", "\n\n", {}, "has no rows"),
        ("rows.tsv", "sentence\tlabel\na\t1\n", {}, "has no column 'text': its header is 'sentence', 'label'"),
        ("rows.tsv", "a\tb\n", {"text": "3", "label": "1"}, "has no column '3'"),
        ("rows.tsv", "a\tb\n", {"text": "0", "label": "1"}, "has no column '0'"),
        ("rows.tsv", "a\tb\n", {"header": False}, "give the number of a column, not 'text'"),
        ("rows.csv", 'text,label\n"a,1\nb,2\n', {}, r"line 3, is not CSV \(unexpected end of data\)"),
        ("rows.csv", 'text,label\n"a"b,1\n', {}, "line 2, is not CSV"),
    ],
)
def test_unusable_files_are_refused(
    tmp_path: Path, name: str, content: str | None, settings: dict[str, object], message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, **settings)


def test_the_settings_are_checked() -> None:
    with pytest.raises(InputError, match="text and label are both 'a'"):
        TableSettings(path="rows.tsv", text="a", label="a")
    with pytest.raises(InputError, match="max_unusable = 2"):
        TableSettings(path="rows.tsv", max_unusable=2)


@pytest.mark.parametrize(
    ("name", "columns", "num_rows", "first"),
    [
        ("sst2/train.tsv", ("2", "1"), 6920, "a stirring , funny and finally transporting"),
        ("cola/in_domain_train.tsv", ("4", "2"), 8551, "Our friends won't buy this analysis, let alone"),
    ],
)
def test_tables_of_glue(shared: Path, name: str, columns: tuple[str, str], num_rows: int, first: str) -> None:
    """The files as they are published, with quotes that open and do not close."""
    path = shared / "data" / "tasks" / name
    rows, counts = read(path, text=columns[0], label=columns[1], header=False, max_unusable=0.0)
    assert len(rows) == num_rows == counts.rows == len(path.read_bytes().splitlines())
    assert rows[0].text.startswith(first)
    assert {row.label for row in rows} == {"0", "1"}
