"""Lines of JSON as `cloze dedup` reads them: texts, other fields, and what is no object, as Python's json has them."""

from collections.abc import Iterator, Sequence

import numpy as np
from hostile_lines import on_hostile_lines

from corpora.sources.bytes.raw_files import Lines
from corpora.sources.files.fields import find_value
from corpora.sources.files.formats import JsonLines
from flows.dedup.inputs import Fields, find_text, parse_line, read_texts


@on_hostile_lines
def test_texts_are_those_of_json(given_lines: list[bytes]) -> None:
    """The kernel and its plain twin; only of the lines that are wanted."""
    form, lines = JsonLines(encoding="auto", max_record_bytes=1_000), Lines.from_lines(given_lines).without_blank()
    expected = [line for line in given_lines if line.strip()]
    assert [*lines] == expected
    assert not expected or lines.join() == b"".join(line + b"\n" for line in expected)
    for wanted in (np.ones(len(lines), np.bool_), np.arange(len(lines)) % 2 == 1):
        texts, fields = read_texts(lines, wanted, form, ("text", "data.text", "body"), ("id", "a.b"))
        texts.validate(full=True)
        own = [parse_line(form, line) if is_wanted else {} for line, is_wanted in zip(lines, wanted, strict=True)]
        assert texts.to_pylist() == [find_text(each, ("text", "data.text", "body")) for each in own]
        for name in ("id", "a.b"):
            assert [*values_of(fields, name)] == [*values_of(own, name)]


def values_of(rows: Sequence[Fields], name: str) -> Iterator[str]:
    return (repr(row if row is None else find_value(row, name)) for row in rows)
