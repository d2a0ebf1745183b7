"""The column that holds the text is found in tables of many shapes, and what is no text is not taken for one."""

import base64
import csv
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_reading import raw_file

from corpora.sources.contract import StatCache, Tally, hash_files
from corpora.sources.files.guessing import TextColumns, guess_text_columns
from corpora.sources.files.source import FilesSource

WORDS = "the ferry was late because fog lay over harbour and nobody could see its lights from an old stone pier".split()


def said(seed: int, words: int) -> str:
    """Some words of prose."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words)) + "."


def guess(folder: Path, known: tuple[str, ...] = (), **settings: Any) -> TextColumns:
    source = FilesSource(name="own", path=str(folder), **settings)
    return guess_text_columns(source, hash_files(source.files(), StatCache()), known)


def put(folder: Path, name: str, rows: list[dict[str, Any]], **dialect: Any) -> None:
    """Rows as CSV, as JSON lines or as Parquet, by the ending of the name."""
    if name.endswith(".jsonl"):
        (folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    elif name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    else:
        encoding = dialect.pop("encoding", "utf-8")
        with (folder / name).open("w", newline="", encoding=encoding) as stream:
            writer = csv.DictWriter(stream, list(rows[0]), **dialect)
            writer.writeheader()
            writer.writerows(rows)


def ticket(n: int) -> dict[str, Any]:
    return {
        "ticket_id": f"T-{n}",
        "created": f"2026-11-{n % 28 + 1:02}",
        "customer": f"house {n % 5}",
        "subject": said(n, 4),
        "note": said(n + 100, 30),
        "page": f"https://example.org/{n}/{'a-long-path/' * 40}",
        "photo": base64.b64encode(said(n, 200).encode()).decode(),
        "seen": str(n) * 300,
        "disclaimer": "This message is meant for who it is sent to, and for nobody else who may read it. " * 8,
        "raw": json.dumps({"all": said(n, 300)}),
    }


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_the_column_with_most_words_is_found_in_every_format(tmp_path: Path, name: str) -> None:
    """Fails if addresses, base64, digits, JSON or one text in every row are taken for the text."""
    put(tmp_path, name, [ticket(n) for n in range(60)], **({"delimiter": "\t"} if name == "a.tsv" else {}))
    found = guess(tmp_path)
    assert found.names == ("note",) and found.others[0] in ("disclaimer", "subject")
    assert (found.keys, found.dates, found.groups) == (("ticket_id",), ("created",), ("customer",))


def test_a_column_called_text_is_the_text_wherever_it_holds_words(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", [{"text": "Yes.", "longer": said(n, 40)} for n in range(9)])
    assert guess(tmp_path).names == ("text",)
    put(tmp_path, "a.jsonl", [{"text": str(n), "longer": said(n, 40)} for n in range(9)])
    assert guess(tmp_path).names == ("longer",)


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([{"id": 1, "text ": said(1, 30)}], "text "),
        ([{"a.b": said(1, 30), "c": "x"}], "a.b"),
        ([{"Überschrift": "kurz", "Ausführung": said(1, 30)}], "Ausführung"),
        ([{"": str(n), "body": said(n, 9)} for n in range(5)], "body"),
        ([{"only": said(1, 30)}], "only"),
        ([{"same": said(1, 30), "n": n} for n in range(20)], "same"),
        ([{f"c{n}": n for n in range(2000)} | {"end": said(1, 30)}], "end"),
        ([{"plain": said(n, 50), "html": f"<p><b>{said(n, 52)}</b></p>"} for n in range(5)], "plain"),
        ([{"n": n, "日本語": "渡し舟は霧のために遅れて着いたので、誰も灯を見なかった。"} for n in range(5)], "日本語"),
        ([{"note": "Hi there", "n": n} for n in range(5)], "note"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_columns_of_all_sorts(tmp_path: Path, rows: list[dict[str, Any]], name: str, ending: str) -> None:
    """Fails if the name is not found, or the source does not read the text under it."""
    put(tmp_path, f"a.{ending}", rows)
    assert guess(tmp_path).names == (name,)
    source = FilesSource(name="own", path=str(tmp_path), fields={"text": name})
    file = raw_file(source)
    read = [record.text for piece in source.slices(file) for record in source.records(piece, Tally())]
    assert read == [row[name] for row in rows]


def test_what_is_inside_of_objects_is_found_by_its_path(tmp_path: Path) -> None:
    """Fails for objects in JSON and structs in Parquet, or where a list or a path that no field means is taken."""
    rows = [
        {"id": n, "ticket": {"last": {"note": said(n, 30)}}, "all": [said(n, 90)], "x.y": {"z": said(n, 90)}}
        for n in range(5)
    ]
    for name in ("a.jsonl", "a.parquet"):
        put(tmp_path, name, rows)
        assert guess(tmp_path).names == ("ticket.last.note",)


def test_other_types_of_parquet(tmp_path: Path) -> None:
    """Fails if large, encoded or binary texts are not seen, or bytes that are no text break the look."""
    texts = [said(n, 30) for n in range(6)]
    columns = {
        "image": pa.array([b"\xff\xd8" + bytes(900)] * 6),
        "day": pa.array(range(6), pa.date32()),
        "label": pa.array(["one", "two"] * 3).dictionary_encode(),
        "prose": pa.array(texts, pa.large_string()),
    }
    for kind in (pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())):
        columns["prose"] = pa.array(texts, pa.string()).cast(kind)
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        found = guess(tmp_path)
        assert found.names == ("prose",) and found.dates == ("day",)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_row_says_what_parts_a_table(tmp_path: Path, delimiter: str) -> None:
    """Fails if a table of another delimiter, with a mark, quotes and line ends in fields, is read as one column."""
    rows = [{"id": n, "name, first": "Ann", "body": f'{said(n, 9)}\n"{said(n, 5)}", he said;'} for n in range(30)]
    put(tmp_path, "a.csv", rows, delimiter=delimiter, encoding="utf-8-sig")
    assert guess(tmp_path).names == ("body",)
    source = FilesSource(name="own", path=str(tmp_path), fields={"text": "body", "key": "id"})
    file = raw_file(source)
    records = [record for piece in source.slices(file) for record in source.records(piece, Tally())]
    assert [(record.key, record.text) for record in records] == [(str(row["id"]), row["body"]) for row in rows]


def test_a_table_that_was_read_is_read_as_before(tmp_path: Path) -> None:
    """Fails if another sign in the names of columns takes the place of the usual one."""
    (tmp_path / "a.csv").write_text("text,a;b;c;d\nThe ferry,x;y\n")
    source = FilesSource(name="own", path=str(tmp_path))
    file = raw_file(source)
    [record] = [record for piece in source.slices(file) for record in source.records(piece, Tally())]
    assert record.text == "The ferry" and record.drop is None


def test_files_with_other_columns_have_names_of_their_own(tmp_path: Path) -> None:
    """Fails if one file decides for all, or names that were found come after new ones."""
    put(tmp_path, "a.csv", [{"id": n, "body": said(n, 30)} for n in range(5)])
    put(tmp_path, "b.jsonl", [{"id": n, "note": said(n, 60)} for n in range(5)])
    put(tmp_path, "c.csv", [{"id": n, "body": said(n, 30), "note": said(n, 3)} for n in range(5)])
    found = guess(tmp_path)
    assert found.names == ("note", "body") and found.files == {"note": {".csv": 1, ".jsonl": 1}, "body": {".csv": 1}}
    assert guess(tmp_path, known=("body",)).names == ("body", "note")
    assert found.keys == ()  # the same in three files


def test_of_many_files_those_that_are_not_looked_into_have_names_too(tmp_path: Path) -> None:
    """Fails if a file of other columns is passed over because a sample left it out."""
    for n in range(150):
        put(tmp_path, f"{n:03}.jsonl", [{"rare" if n == 77 else "body": said(n, 30)}])
    found = guess(tmp_path)
    assert found.names == ("body", "rare") and found.files == {"body": {".jsonl": 149}, "rare": {".jsonl": 1}}


def test_tables_without_text_are_named_and_files_that_cannot_be_read_are_not(tmp_path: Path) -> None:
    """Fails if numbers, names of columns alone, or names of people pass for a text, or damage for its absence."""
    (tmp_path / "prices.csv").write_text("id,amount\n1,2.50\n2,3.50\n")
    (tmp_path / "header.csv").write_text("id,amount\n")
    (tmp_path / "people.jsonl").write_text('{"id": 1, "name": "Ann Lee"}\n')
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "blank.jsonl").write_text("\n\n")
    (tmp_path / "wide.csv").write_bytes("id,body\n1,The ferry\n".encode("utf-16"))
    (tmp_path / "latin.csv").write_bytes(b"id,c\n1,caf\xe9\n")
    (tmp_path / "bad.jsonl").write_text('{"id": \n')
    (tmp_path / "cut.parquet").write_bytes(b"PAR1....PAR1")
    (tmp_path / "open.csv").write_text('id,"body\n1,2\n')
    found = guess(tmp_path)
    assert found.names == ()
    assert [file.name for file, _ in found.without] == ["header.csv", "people.jsonl", "prices.csv"]
    assert found.without[2][1] == ("id", "amount")


def test_a_key_is_offered_where_it_is_one(tmp_path: Path) -> None:
    """Fails if a number that is there twice, or is missing once, is offered: records would become one."""
    put(tmp_path, "a.csv", [{"case_id": n // 2, "doc_no": n or "", "uuid": n, "body": said(n, 9)} for n in range(9)])
    assert guess(tmp_path).keys == ("uuid",)
