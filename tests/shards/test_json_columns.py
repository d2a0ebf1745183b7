"""JSON lines as columns: what the reader of records finds, and every refusal with its line."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.sources.files_bytes import BadRecord, decode
from corpora.sources.files_fields import find_fields, parse_object
from shards import json_columns
from shards.json_columns import text_columns


def read(path: Path, field: str = "text", block_bytes: int = 1 << 20) -> list[str]:
    return [text for column in text_columns(path, field, block_bytes) for text in column.to_pylist()]


def plainly(data: bytes) -> list[str]:
    """The definition: each line that is not blank by the product's reader. Raises BadRecord."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    return [find_fields(parse_object(decode(line, "utf-8", 1)), {})["text"] for line in lines]


values = st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.lists(st.text(max_size=3), max_size=2))
objects = st.dictionaries(st.sampled_from(["text", "a", "té", 'q"']), values, max_size=4)


@given(
    st.lists(
        st.tuples(objects, st.text(), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"])), max_size=5
    ),
    st.booleans(),
    st.integers(1, 200),
)
@settings(deadline=None, max_examples=150)
def test_texts_are_those_of_the_reader(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[dict[str, object], str, bool, str]],
    spoilt: bool,
    block_bytes: int,
) -> None:
    """Fails where a path taken for speed finds other texts, or lets pass what the reader refuses."""
    data = b""
    for other, text, escaped, end in lines:
        fields = other if spoilt else {**other, "text": text}
        data += json.dumps(fields, ensure_ascii=escaped).encode(errors="surrogatepass") + end.encode()
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.write_bytes(data)
    assert_read_as_the_reader_does(path, block_bytes)


def assert_read_as_the_reader_does(path: Path, block_bytes: int) -> None:
    """The same texts, or a refusal where the reader refuses."""
    try:
        wanted = plainly(path.read_bytes())
    except BadRecord:
        with pytest.raises(InputError, match=r"lines\.jsonl, line \d"):
            read(path, block_bytes=block_bytes)
        return
    assert read(path, block_bytes=block_bytes) == wanted


SIGNS = b'{}[]":,\\\n\r \t\0u0dD8/bx\x1f\x7f\x80\xc3\xa9\xff'


@given(
    st.lists(st.tuples(st.sampled_from(["text", "a", "te\\", "tex"]), st.text(max_size=30)), min_size=1, max_size=3),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(SIGNS), st.integers(0, 2)), max_size=2),
)
@settings(deadline=None, max_examples=200)
def test_a_changed_byte_is_seen(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[tuple[str, str]],
    escaped: bool,
    changes: list[tuple[int, int, int]],
) -> None:
    """Fails where the kernel takes what is no JSON, or finds another text than a parser does."""
    line = ", ".join(f"{json.dumps(key)}: {json.dumps(text, ensure_ascii=escaped)}" for key, text in members)
    data = bytearray(f'{{"text": "first"}}\n{{{line}}}\n'.encode(errors="surrogatepass"))
    for place, sign, removed in changes:
        data[place % len(data) : place % len(data) + removed] = bytes([sign])
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.write_bytes(data)
    assert_read_as_the_reader_does(path, 1 << 20)


def test_objects_of_strings_are_read_by_the_kernel_and_others_by_arrow() -> None:
    """Fails where a path is never taken, so that the tests above compared the reader with itself."""
    usual = b'{"url": "a//b", "text": "\\u00e9 \\"one\\"", "day": "1"}\n\n {"text":"two"}\r\n'
    found = json_columns._read_usual(usual, "text")
    assert found is not None and found.to_pylist() == ['\xe9 "one"', "two"]
    for declined in (b'{"text": "a", "n": 1}\n', b'{"te\\u0078t": "a"}\n', b'{"text": "\\ud83d"}\n', b'{"a": ""}\n'):
        assert json_columns._read_usual(declined, "text") is None
    other = b'{"n": 1, "text": "one"}\n{"text": "two", "l": [{}]}\n'
    parsed = json_columns._read_json(other, "text")
    assert parsed is not None and parsed.to_pylist() == ["one", "two"]


LINES = [
    (b'{"text": "one"}', ["one"]),
    (b'\xef\xbb\xbf{"text": "one"}\n', ["one"]),
    (b'{"text":"one"}\r\n\r\n{"text":"two"}', ["one", "two"]),
    (b' { "a" : "b" , "text" : "o\\u006e\\u0065 \\ud83d\\ude00 \\n\\t\\"\\\\\\/" } \n', ['one \U0001f600 \n\t"\\/']),
    (b'{"text": "\\u00e9\\u20ac\\u0000"}\n', ["\xe9€\0"]),
    (b'{"n": {"text": "inner"}, "text": "outer", "l": [1, "}"]}\n', ["outer"]),
    (b'{"text": "one", "x": NaN}\n', ["one"]),
    (b'{"text": "one", "text": "two"}\n', ["two"]),
    (b'{"t\\u0065xt": "one"}\n', ["one"]),
    (b'{"text": ""}\n', [""]),
    (b"\n\n", []),
]


@pytest.mark.parametrize(("data", "wanted"), LINES)
def test_lines_in_the_forms_they_have(tmp_path: Path, data: bytes, wanted: list[str]) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(data))
    assert read(tmp_path / "a.jsonl") == wanted
    assert read(tmp_path / "a.jsonl.gz", block_bytes=5) == wanted


BAD = [
    (b'{"text": "cut', "not JSON"),
    (b'{"text": "a"} junk', "not JSON"),
    (b'{"text": "a"}{"text": "b"}', "not JSON"),
    (b'{"text": "a",}', "not JSON"),
    (b"[1]", "not a JSON object but a list"),
    (b'{"text": 7}', "not a string but a int"),
    (b'{"text": null}', "no field 'text'"),
    (b'{"body": "a"}', "no field 'text'"),
    (b'{"text": "a\tb"}', "not JSON"),
    (b'{"text": "a\\x"}', "not JSON"),
    (b'{"text": "\\ud800"}', "half a character"),
    (b'{"text": "\\udc00\\ud800"}', "half a character"),
    (b'{"text": "\\u00g0"}', "not JSON"),
    (b'{"text": "caf\xe9"}', "not utf-8 at byte 45"),
    (b'{"b": "\xe9", "text": ""}', "not utf-8 at byte 39"),
    (b'{"text": "a\0b"}', "a zero"),
    (b'{"text": "a"}\0', "a zero"),
]


@pytest.mark.parametrize(("line", "said"), BAD)
def test_a_line_without_a_text_is_told_with_its_number(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "one"}\n{"text": "two"}\n' + line + b"\n")
    for block_bytes in (1, 20, 1 << 20):
        with pytest.raises(InputError, match=rf"a\.jsonl, line 3: .*{said}"):
            read(tmp_path / "a.jsonl", block_bytes=block_bytes)


def test_a_line_may_be_longer_than_a_block_but_not_endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "x" * size}) + "\n" for size in (5, 900, 3)))
    assert [len(text) for text in read(tmp_path / "a.jsonl", block_bytes=64)] == [5, 900, 3]
    monkeypatch.setattr(json_columns, "MAX_LINE_BYTES", 800)
    for block_bytes in (64, 500, 799):
        with pytest.raises(InputError, match="the line at byte 18 is longer than 800 bytes"):
            read(tmp_path / "a.jsonl", block_bytes=block_bytes)


def test_the_shortest_lines_have_room() -> None:
    """Fails where more texts are found than places were kept for."""
    for block in (b'{"t":""}', b'{"t":""}\n', b'{"t":""}\n' * 1000, b'{"t":""}\n' * 1000 + b'{"t":""}'):
        found = json_columns._read_usual(block, "t")
        assert found is not None and len(found) == block.count(b"t")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        read(tmp_path / "absent.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "one"}\n' * 1000)[:-9])
    with pytest.raises(InputError, match="cannot be read to its end"):
        read(tmp_path / "cut.jsonl.gz")
