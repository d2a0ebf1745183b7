"""JSON as a format: a `.json` is an array of records, an object around one, one record, or one after another.

Promises: `json_values.py` says where the values of a file are; a file in which each line is an object is read as JSON
lines. A text alone is a record. A value that is no JSON is a damaged drop that says why; one of any length is passed
over in bounded memory. Costs and memory: those of `json_values.py`, and the parser's.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.generic_types import Json
from corpora.sources.bytes.faults import BadRecord, refusing_damage
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.raw_files import Line, decode
from corpora.sources.bytes.recoded import open_lines
from corpora.sources.contract import RawFile, Record, Slice, Tally, whole_file
from corpora.sources.files.fields import parse_object
from corpora.sources.files.formats import JsonLines, counted, wide_lines
from corpora.sources.files.json_values import HEAD_BYTES, ValueLayout, layout_of, read_values


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile(JsonLines):
    """Each value of a file is a record. texts: a string is one, too"""

    texts: bool = False

    def slices(self, file: RawFile) -> list[Slice]:
        """A file of lines as JSON lines are cut; any other whole. Raises InputError."""
        path = raw_path(file.path)
        return JsonLines.slices(self, file) if self.layout(path).lines else [whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each value. Raises InputError for a file that cannot be read to its end."""
        path = raw_path(piece.file.path)
        layout = ValueLayout(lines=True) if piece.start else self.layout(path)
        if layout.lines:
            yield from JsonLines.records(self, piece, tally)
            return
        wide, reader = wide_lines(path, self.encoding), replace(self, texts=layout.texts)
        with open_lines(path, wide) as stream, refusing_damage(path):
            for value in counted(read_values(stream, self.max_record_bytes, layout), tally):
                yield reader._record(value, piece.file, tally, bool(wide))

    def layout(self, path: Path) -> ValueLayout:
        """Return where the values of a file are. Raises InputError."""
        with open_lines(path, wide_lines(path, self.encoding)) as stream, refusing_damage(path):
            return layout_of(stream.read(HEAD_BYTES))

    def head(self, path: Path, max_bytes: int) -> Iterator[Line]:
        """The values that begin in the first bytes of a file. Raises InputError."""
        layout = self.layout(path)
        if layout.lines:
            yield from JsonLines.head(self, path, max_bytes)
            return
        with open_lines(path, wide_lines(path, self.encoding)) as stream, refusing_damage(path):
            for value in read_values(stream, self.max_record_bytes, layout):
                if value.offset > layout.start + max_bytes:
                    return
                yield value

    def parse(self, data: bytes, offset: int) -> dict[str, Json]:
        """The fields of a value. Raises BadRecord."""
        text = decode(data, self.encoding, offset)
        if not self.texts or not data.startswith(b'"'):
            return parse_object(text)
        try:
            return {"text": json.loads(text)}
        except ValueError as error:
            raise BadRecord(f"not JSON: {error}") from error
