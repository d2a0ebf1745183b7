"""Lines of JSON are read as Python's json reads them, whatever they are."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpora.sources.contract import RawFile, Slice
from corpora.sources.files.formats import JsonLines
from flows.dedup import lines
from flows.dedup.json_spans import ABSENT

FORM = JsonLines(encoding="auto", max_record_bytes=1_000)
NAMES = ("text", "body", "id")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*NAMES, "x", "é")), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from((*NAMES, "x", "a.b")), VALUES, max_size=4)


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """An object as JSON, some with a few characters too many, too few or wrong."""
    data = json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans()), indent=None).encode(errors="replace")
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from((*'{}[]",:\\u0a1e-+. \t\x01', "\\ud800", "\\u00e9", "\r")))
        data = data[:place] + put.encode() + data[place + draw(st.integers(0, 1)) :]
    return data


@given(st.lists(written(), max_size=5))
@example([b'{"text":"a"}{"text":"b"}', b'{"text":"c","text":"d"}', b'{"te\\u0078t":"e"}', b"{}", b" ", b"\r"])
@example([b'{"text":"\\ud83d\\ude00\\u20ac\\u00e9\\n"}', b'{"text":"\\ude00"}', b'{"text":"caf\xe9"}', b'{"id":NaN}'])
@example([b'{"x":' + b"[" * 70 + b"]" * 70 + b',"text":"deep"}', b'{"id":' + b"1" * 5_000 + b"}", b"[1]", b'{"id":01}'])
@settings(max_examples=100, deadline=None)
def test_lines_are_read_as_by_json(given_lines: list[bytes]) -> None:
    """The kernel and its plain twin: texts, other fields, and what is no object."""
    data = b"\n".join(given_lines)
    expected = [line for each in given_lines for line in [each.removesuffix(b"\r")] if line.strip()]
    found = list(lines.split_lines(data)) if data else []
    assert [block[row] for block in found for row in range(len(block))] == expected
    for block in found:
        rows = range(len(block))
        texts, fields = lines.read_lines(block, np.arange(len(block)), FORM, ("text", "body"), ("id",))
        texts.validate(full=True)
        own = [lines.parsed(FORM, block[row]) for row in rows]
        assert texts.to_pylist() == [lines.text_of(each, ("text", "body")) for each in own]
        assert [None if each is None else repr(each.get("id")) for each in fields] == [
            None if each is None else repr(each.get("id")) for each in own
        ]


def test_plain_lines_need_no_python() -> None:
    """Fails where the kernel leaves ordinary lines to Python, whose answer would be right and slow."""
    rows = ['{"id": 7, "text": "\\u00e9 \\"quoted\\" \\ud83d\\ude00", "meta": {"a": [1, -2.5e3, null, {}]}}', "{ }"]
    [block] = lines.split_lines("\r\n".join(rows).encode())
    spans, plain = lines.find_values(block, ["text", "id"])
    assert plain.all() and (spans[1] == ABSENT).all()
    assert block.data[slice(*spans[0, 1])] == b"7"


@pytest.mark.parametrize("block_bytes", [1, 7, 500])
def test_each_line_is_in_one_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    """Wherever slices and blocks end; a line that is too long is a row that cannot be read."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "in.jsonl"
    rows = [b'{"text":"%d"}' % number for number in range(9)] + [b"x" * 3_000, b'{"text":"end"}']
    path.write_bytes(b"\r\n\n".join(rows))
    size = path.stat().st_size
    file = RawFile(name=path.name, sha256="", size_bytes=size, path=str(path))
    for cut in (0, 1, 14, 40, size - 8, size - 2_000):
        both = [Slice(file=file, start=start, stop=stop) for start, stop in ((0, cut), (cut, size))]
        found = [block[row] for each in both for block in lines.blocks(each, FORM) for row in range(len(block))]
        assert found == [*rows[:9], b"\0", rows[10]]
