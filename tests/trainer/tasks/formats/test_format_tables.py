"""Tables in five formats: the same records, every one accounted for, a word on what is unusable."""

import bz2
import csv
import gzip
import json
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from office_files import cell, package, sheet, xlsx_parts
from task_records import TaskRecord, read_records

from corpora.errors import InputError
from trainer.tasks.data import digest_if_exists
from trainer.tasks.formats import tables
from trainer.tasks.formats.reading import read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts, Unusable, Values, as_label, as_text

ROWS = [("a good film", "good"), ("a bad one, really", "bad"), ("", "bad"), ("Été \u2028 1", "good")]
ROLES = ("text", "label")


def read(
    path: Path, roles: tuple[str, ...] = ROLES, optional: tuple[str, ...] = (), **settings: Any
) -> tuple[list[TaskRecord], RowCounts]:
    counts = RowCounts()
    file = FileSettings(path=str(path), **{"max_unusable": 1.0, **settings})
    return list(read_records(file, counts, roles, optional)), counts


def written(folder: Path, ending: str, header: bool = True) -> Path:
    """ROWS as a file, the label first, in columns named `label` and `text`."""
    path = folder / f"rows{ending}"
    rows = ([["label", "text"]] if header else []) + [[label, text] for text, label in ROWS]
    objects = [{"label": label, "text": text} for text, label in ROWS]
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(objects), path, row_group_size=2)
        return path
    with path.open("w", encoding="utf-8", newline="") as file:
        if ending == ".csv":
            csv.writer(file).writerows(rows)
        elif ending == ".tsv":
            file.writelines("\t".join(row) + "\n" for row in rows)
        elif ending == ".json":
            json.dump(objects, file, indent=1)
        else:
            file.writelines(json.dumps(each) + "\n" for each in objects)
    return path


FIRST = {".tsv": 2, ".csv": 2, ".jsonl": 1, ".ndjson": 1, ".json": 2, ".parquet": 1}  # line of the first record


@pytest.mark.parametrize("ending", FIRST)
def test_each_table_format_gives_the_same_records(tmp_path: Path, ending: str) -> None:
    records, counts = read(written(tmp_path, ending))
    assert [(record.values["text"], record.values["label"]) for record in records] == [row for row in ROWS if row[0]]
    first, step = FIRST[ending], 4 if ending == ".json" else 1  # an object is on four lines
    assert [record.line for record in records] == [first, first + step, first + 3 * step]
    assert (counts.rows, counts.given, counts.unusable) == (4, 3, {"empty text": 1})
    assert counts.first_lines == {"empty text": first + 2 * step}
    assert counts.account.outcomes == {"given": 3, "dropped: empty text": 1}


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".zst"])
def test_a_packed_file_is_unpacked(tmp_path: Path, packing: str) -> None:
    path = written(tmp_path, ".tsv")
    data, target = path.read_bytes(), tmp_path / f"rows.tsv{packing}"
    if packing == ".zst":
        with pa.CompressedOutputStream(str(target), "zstd") as file:
            file.write(data)
    else:
        target.write_bytes(gzip.compress(data) if packing == ".gz" else bz2.compress(data))
    assert read(target)[0] == read(path)[0]


@pytest.mark.parametrize("ending", FIRST)
def test_a_zip_is_read_as_its_file_is(tmp_path: Path, ending: str) -> None:
    path, packed = written(tmp_path, ending), tmp_path / "rows.zip"
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.write(path, f"train/rows{ending}")
        archive.writestr("__MACOSX/._rows", "")
    assert read(packed)[0] == read(path)[0]
    digest = digest_if_exists(str(packed))
    with ZipFile(packed, "a") as archive:
        archive.writestr("about.txt", "Rows.")
    with pytest.raises(InputError, match=rf"holds 2 files, such as train/rows{ending}: name it, "):
        read(packed)
    member = Path(f"{packed}!/train/rows{ending}")
    assert read(member)[0] == read(path)[0] and digest_if_exists(str(member)) == digest_if_exists(str(path)) != digest
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"rows\.zip: it is no zip, or a damaged one"):
        read(packed)


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "rows.tsv.gz"
    target.write_bytes(gzip.compress(b"text\tlabel\n" + b"a\t1\n" * 9)[:-9])
    with pytest.raises(InputError, match="cannot be read to its end"):
        read(target)


@pytest.mark.parametrize("ending", [".tsv", ".csv"])
def test_columns_of_a_table_by_number(tmp_path: Path, ending: str) -> None:
    plain, _ = read(written(tmp_path, ending, header=False), columns={"text": "2", "label": "1"}, header=False)
    named, _ = read(written(tmp_path, ending))
    mixed, _ = read(written(tmp_path, ending), columns={"text": "2"})
    assert [row.values for row in plain] == [row.values for row in named] == [row.values for row in mixed]
    assert len(plain) == 3 and plain[0].line == 1


def test_columns_of_objects_are_keys_or_paths(tmp_path: Path) -> None:
    objects = [{"a.b": "by key", "a": {"b": "no", "c": [{"d": "by path"}]}}, {"a.b": "lacks", "a": {"c": []}}]
    path, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    pq.write_table(pa.Table.from_pylist(objects), table)
    for file in (path, table):
        records, counts = read(file, columns={"text": "a.b", "label": "a.c.0.d"})
        assert records == [TaskRecord(1, {"text": "by key", "label": "by path"})]
        assert counts.unusable == {"no label": 1}


@pytest.mark.parametrize("ending", [".tsv", ".jsonl", ".parquet"])
def test_what_is_optional_is_read_where_it_is(tmp_path: Path, ending: str) -> None:
    """A column that is named must be there; one that only might be is left out of the values."""
    path = written(tmp_path, ending)
    assert {*read(path, ("text",), ("label", "id"))[0][0].values} == {"text", "label"}
    if ending != ".jsonl":  # where no first line says what there is
        with pytest.raises(InputError, match="no column 'number' for id"):
            read(path, ("text",), ("id",), columns={"id": "number"})


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
                          .filter(str.strip), st.integers(0, 3)), min_size=1))  # fmt: skip
def test_formats_that_quote_bring_back_any_text(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, int]]
) -> None:
    """Commas, quotes and line feeds of quoted texts are the texts' own."""
    folder = tmp_path_factory.mktemp("rows")
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["text", "label"], *pairs])
    objects = [{"text": text, "label": str(label)} for text, label in pairs]
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    (folder / "rows.json").write_text(json.dumps(objects))
    pq.write_table(pa.Table.from_pylist(objects), folder / "rows.parquet")
    for name in ("rows.csv", "rows.jsonl", "rows.json", "rows.parquet"):
        records, counts = read(folder / name)
        assert [record.values for record in records] == objects
        assert counts.unusable == {}


def test_a_row_of_csv_begins_at_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"two\nlines",1\n\n"three\n\nlines",1\n,1\n')
    records, counts = read(path)
    assert [record.line for record in records] == [2, 5]
    assert counts.first_lines == {"empty text": 8}


def test_marks_quotes_and_line_ends_of_tsv(tmp_path: Path) -> None:
    """A mark of UTF-8 and ends of Windows are no text, and a quote is nothing but text."""
    path = tmp_path / "rows.tsv"
    path.write_bytes(b'\xef\xbb\xbftext\tlabel\r\n"an open quote\t1\r\n\r\nthe "next", row\t0\r\n')
    expected = [('"an open quote', "1"), ('the "next", row', "0")]
    assert [(record.values["text"], record.values["label"]) for record in read(path)[0]] == expected


def labelled(values: Values) -> tuple[str, str]:
    """Return what a task of single texts makes of a record."""
    label = as_label(values["label"])
    if label not in ("1", "true"):
        raise Unusable("unknown label")
    return as_text(values["text"], "text"), label


def test_each_reason_is_counted_with_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(
        b'{"text": "fine", "label": 1}\n'
        b"not json\n"
        b"[1, 2]\n"
        b'{"label": 1}\n'
        b'{"text": "a", "label": null}\n'
        b'{"text": 7, "label": 1}\n'
        b'{"text": "  ", "label": 1}\n'
        b'{"text": "a", "label": " "}\n'
        b'{"text": "a", "label": [0.5]}\n'
        b'{"text": "\xff", "label": 1}\n'
        b'{"text": "\\ud800", "label": 1}\n'
        b'{"text": "a", "label": 2}\n'
        b'{"text": "fine", "label": "1"}\n'
        b'{"text": "fine", "label": true}\n'
        b'{"text": "a\\u0000", "label": 1}\n'
        + b"[" * 100_000 + b"\n"
        + b'{"text": "a", "label": [{"\\udc00": 1}]}\n'
        + b'{"text": "a", "label": 1'
    )  # fmt: skip
    counts = RowCounts()
    file = FileSettings(path=str(path), max_unusable=1.0)
    examples = list(read_examples(file, counts, ROLES, labelled))
    assert examples == [(1, ("fine", "1")), (13, ("fine", "1")), (14, ("fine", "true"))]
    assert counts.first_lines == {
        "not JSON": 2, "not a JSON object": 3, "no text": 4, "no label": 5, "text is no text": 6, "empty text": 7,
        "empty label": 8, "label is neither text nor number": 9, "not UTF-8": 10, "unknown label": 12,
        "a zero in a text": 15,
    }  # fmt: skip
    assert counts.unusable == dict.fromkeys(counts.first_lines, 1) | {"not UTF-8": 3, "not JSON": 3}
    assert counts.account.total == 18
    counts.account.check()


def test_parquet_that_is_no_utf_8_costs_its_row_alone(tmp_path: Path) -> None:
    bad = pa.array([b"fine", b"\xff", b"fine too"], pa.binary())
    text = pa.StringArray.from_buffers(3, bad.buffers()[1], bad.buffers()[2])
    pq.write_table(pa.table({"text": text, "label": [1, 2, None]}), tmp_path / "rows.parquet")
    records, counts = read(tmp_path / "rows.parquet")
    assert records == [TaskRecord(1, {"text": "fine", "label": 1})]
    assert counts.first_lines == {"not UTF-8": 2, "no label": 3}


def test_parquet_columns_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    """Fails if all columns are decoded: the damaged one would be refused."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"noise": ["x" * 50_000], "text": ["a"], "label": [1]}), path, compression="none",
                   use_dictionary=False, write_page_checksum=True, write_statistics=False)  # fmt: skip
    path.write_bytes(path.read_bytes().replace(b"xxxx", b"xxyx", 1))
    assert read(path)[0] == [TaskRecord(1, {"text": "a", "label": 1})]
    with pytest.raises(InputError, match="row group 0 cannot be read"):
        read(path, ("text", "noise"))


@pytest.mark.parametrize(("ending", "cut"), [("tsv", "\t"), ("csv", ",")])
def test_a_row_that_does_not_fit_its_header_is_counted(tmp_path: Path, ending: str, cut: str) -> None:
    """Fails if the rest of a text is taken for its label, or a pair without its second text for a single text."""
    path = tmp_path / f"rows.{ending}"
    rows = ["text,label,second", "a,1,b", "one, two,0,c", "d,1,e,, ", "f,0"]
    path.write_text("".join(row.replace(",", cut) + "\n" for row in rows))
    records, counts = read(path, ("text", "label"), ("second",), max_unusable=0.5)
    assert [record.values for record in records] == [
        {"text": "a", "label": "1", "second": "b"}, {"text": "d", "label": "1", "second": "e"}
    ]  # fmt: skip
    assert counts.reasons == "1 too few columns (first in line 5, 2 of 3), 1 too many columns (first in line 3, 4 of 3)"
    path.write_text("".join(row.replace(",", cut) + "\n" for row in rows[1:3]))
    bare = {"header": False, "columns": {"text": "1", "label": "2"}, "max_unusable": 0.5}
    assert read(path, ("text", "label"), **bare)[1].unusable == {"too many columns": 1}


def test_too_many_unusable_records_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\tlabel\n" + "good\t1\n" * 97 + "\t1\n" * 3)
    assert len(read(path, max_unusable=0.03)[0]) == 97
    with pytest.raises(InputError, match=r"3 of 100 rows cannot be used: 3 empty text \(first in line 99\).*0\.02"):
        read(path, max_unusable=0.02)


@pytest.mark.parametrize(
    ("name", "content", "settings", "message"),
    [
        ("rows.txt", "a", {}, r"rows\.txt is none of \.tsv, \.csv, \.jsonl"),
        ("rows.txt", "a", {"format": "xls"}, "format = 'xls' is not known: did you mean 'xlsx'"),
        ("rows.tsv", None, {}, r"Cannot read .*rows\.tsv: No such file"),
        ("rows.parquet", None, {}, r"rows\.parquet is damaged or no Parquet file"),
        ("rows.parquet.gz", "PAR1", {}, "packed around Parquet"),
        ("rows.tsv", "", {}, "line 1, has no column 'text': it must be one of none"),
        ("rows.tsv", "text\tlabel\n", {}, "has no rows"),
        ("rows.jsonl", "\n\n", {}, "has no rows"),
        ("rows.json", "[]", {}, "has no rows"),
        ("rows.tsv", "sentence\tlabel\na\t1\n", {}, "has no column 'text': it must be one of 'sentence', 'label'"),
        ("rows.tsv", "a\tb\n", {"columns": {"text": "3", "label": "1"}}, "has no column '3' for text"),
        ("rows.tsv", "a\tb\n", {"header": False}, "give the number of the column of text, not 'text'"),
        ("rows.csv", 'text,label\n"a,1\nb,2\n', {}, r"begins in line 2, is not CSV \(unexpected end of data\)"),
        ("rows.csv", 'text,label\n"a"b,1\n', {}, "line 2, .*is not CSV"),
        ("rows.csv", 'text,label\nx,"a\nb,2\nc,3\nd,"4\n', {}, "is not CSV"),
        ("rows.csv", 'text,label\nx,"a\nb,2\nc,3\n"d,4"\n', {}, "is not CSV"),
        ("rows.csv", 'text,label\nx,"a\nb,2\nc,3\nd",4\ne,5\n', {}, r"line 5, in the row .* line 2.*join 4 rows"),
        ("rows.tsv", "text\ttext\tlabel\n", {}, "has 2 columns 'text': give the number"),
        ("rows.json", " ", {}, "has no rows"),
        ("rows.json", " [ ] \n", {}, "has no rows"),
        ("rows.json", '{"data": []}', {}, r"is not a list of objects: .*\.jsonl .*squad"),
        ("rows.json", '[\n{"text": "a", "label": 1},\n{"text": "b"', {}, "begins in line 3 is not an item"),
        ("rows.json", '[{"text": "a", "label": 1}', {}, "begins in line 1 is not .*no comma and no end"),
        ("rows.json", '[{"text": "a", "label": 1} {}]', {}, "begins in line 1 is not .*no comma and no end"),
        ("rows.json", '[{"text": "a", "label": 1}]\n[]', {}, "line 1, continues after its list"),
        ("rows.json", "[" * 100_000, {}, "begins in line 1 is not an item"),
        ("rows.jsonl", '\n[{"text": "a"},\n{"text": "b"}]', {}, r"line 2, begins a list, .* name it \.json"),
    ],
)  # fmt: skip
def test_files_that_are_no_tables_are_refused(
    tmp_path: Path, name: str, content: str | None, settings: dict[str, Any], message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, **settings)


@pytest.mark.parametrize(("codec", "name"), [("utf-16", "UTF-16-LE"), ("utf-16-be", "UTF-16-BE"), ("utf-32", "UTF-32")])
def test_another_encoding_is_refused(tmp_path: Path, codec: str, name: str) -> None:
    (tmp_path / "rows.tsv").write_text("text\tlabel\na\t1\n", encoding=codec)
    with pytest.raises(InputError, match=f"is {name}.*, but must be UTF-8: convert it"):
        read(tmp_path / "rows.tsv")


def test_a_file_of_latin_1_is_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_bytes("text\tlabel\nfilmé\t1\n\t0\nété\t0\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"2 not UTF-8 \(first in line 2\).*: convert the file to UTF-8, for instance"):
        read(tmp_path / "rows.tsv")


@pytest.mark.parametrize("at_once", [1, 2, 7, 64])
def test_a_list_in_json_is_read_part_by_part(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Fails if a value, a mark or a line is lost at the end of a part, or the whole text is read first."""
    monkeypatch.setattr(tables, "READ_CHARACTERS", at_once)
    items = [{"a": "é, ] }"}, [1, 2], 123456, -1.5e3, True, None, "x\n", {"b": {"c": [{}]}}] * 9
    for indent, step in ((None, 0), (0, 1)):
        text = json.dumps(items if indent is None else [0, *range(100, 199)], indent=indent)
        stream = StringIO(text)
        found = tables.iter_json_items(stream, "rows.json")
        first = next(found)
        assert stream.tell() < len(text) / 2
        lines, values = zip(first, *found, strict=True)
        assert [*values] == json.loads(text)
        assert [*lines] == [1 + step * number for number in range(step, len(values) + step)]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.tasks.formats.records.MAX_LINE_CHARACTERS", 100)
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "a" * 99 + "\n" + "a" * 100)
    with pytest.raises(InputError, match="line 3, has more than 100 characters"):
        read(tmp_path / "rows.tsv", ("text",))


def test_file_settings_are_checked() -> None:
    with pytest.raises(InputError, match="text and label are both 'a'"):
        FileSettings(path="rows.tsv", columns={"text": "a", "label": "a"})
    with pytest.raises(InputError, match="max_unusable = 2"):
        FileSettings(path="rows.tsv", max_unusable=2)


def test_a_column_named_like_a_number_goes_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("2\t1\nx\ta text\n")
    assert read(path, columns={"text": "1", "label": "2"})[0] == [TaskRecord(2, {"text": "a text", "label": "x"})]


def test_a_record_of_a_megabyte(tmp_path: Path) -> None:
    """Fails if a cell may have no more characters than the csv module allows by itself."""
    (tmp_path / "rows.csv").write_text(f'text,label\n"{"word " * 200_000}",1\n')
    assert [len(record.values["text"]) for record in read(tmp_path / "rows.csv")[0]] == [1_000_000]


@pytest.mark.parametrize(
    "text",
    [
        'text;label\r\n"a; b";1\r\nc, d;0\r\n',
        'sep=;\ntext;label\n"a; b";1\nc, d;0\n',
        "text\tlabel\na; b\t1\nc, d\t0\n",
        "text|label\na; b|1\nc, d|0\n",
        'text,label\na; b,1\n"c, d",0\n',
    ],
    ids=["semicolons", "as Excel says", "tabs", "bars", "commas"],
)
def test_a_csv_is_cut_at_the_sign_that_parts_it(tmp_path: Path, text: str) -> None:
    """Fails if a file of another locale is refused, or a comma in a text decides."""
    (tmp_path / "a.csv").write_text(text)
    records, _ = read(tmp_path / "a.csv")
    assert [record.values for record in records] == [{"text": "a; b", "label": "1"}, {"text": "c, d", "label": "0"}]


def test_a_tsv_of_words_is_read_by_its_look(tmp_path: Path) -> None:
    """Fails if a CoNLL file needs its format named, or a table of sentences is taken for one."""
    path = tmp_path / "a.tsv"
    for text, words in (
        ("Ada\tB-PER\nran\tO\n\nNo\tO\n", [["Ada", "ran"], ["No"]]),
        ("words\ttags\na b\tO O\n", ["a b"]),
    ):
        path.write_text(text)
        records, _ = read(path, ("words", "tags"))
        assert [record.values["words"] for record in records] == words


def test_the_rows_of_all_sheets_that_have_the_columns(tmp_path: Path) -> None:
    """Fails if a sheet of notes hides the rows, or a workbook without the columns has none without a word."""

    def cells(*rows: str) -> str:
        return sheet(*("".join(map(cell, ("A1", "B1"), row.split("|"), ("inlineStr",) * 2)) for row in rows))

    path = tmp_path / "a.xlsx"
    path.write_bytes(
        package(xlsx_parts(cells("note|by", "hello|me"), cells("text|label", "a film|good", "a bore|bad")))
    )
    records, _ = read(path)
    assert [(record.line, record.values["label"]) for record in records] == [(2, "good"), (3, "bad")]
    with pytest.raises(
        InputError, match=r"a\.xlsx, the head of its sheet, has no column 'body' for text: did you mean 'by'"
    ):
        read(path, columns={"text": "body"})


def test_a_line_that_lost_its_end_is_two_records(tmp_path: Path) -> None:
    """Fails if two objects on one line are one that cannot be used."""
    first, second = '{"text": "a", "label": 1}', '{"text": "b", "label": 2}'
    (tmp_path / "a.jsonl").write_text(f"{first}{second}\n{first}{{\n")
    records, counts = read(tmp_path / "a.jsonl")
    assert [record.values["text"] for record in records] == ["a", "b"] and sum(counts.unusable.values()) == 1
