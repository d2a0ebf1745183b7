"""Packed files that ask for more memory than they are given: refused before they have it, with what to do."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from corpora.sources.bytes import packed_stream
from corpora.sources.bytes.raw_files import explain_damage, open_raw
from corpora.sources.contract import RawFile, Tally
from corpora.sources.registry import make_source

TEXT = b'{"text": "The tide came in at noon."}\n' * 1_000
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 29}]
SOURCES: dict[str, dict[str, Any]] = {
    "a.jsonl.xz": {"kind": "files"},
    "a.txt.xz": {"kind": "files"},
    "a.csv.xz": {"kind": "files"},
    "s.txt.xz": {"kind": "stories"},
    "a.xml.xz": {"kind": "xml", "record": "a", "fields": {"text": ["b"]}},
}


@cache
def huge_dictionary() -> bytes:
    """Return a text packed with it."""
    return lzma.compress(TEXT, filters=FILTERS)


@pytest.mark.parametrize("name", SOURCES)
def test_an_xz_with_a_huge_dictionary_is_refused(tmp_path: Path, name: str) -> None:
    """Fails if 5 kB may take half a gigabyte, or where nobody says what else can be done."""
    path = tmp_path / name
    path.write_bytes(huge_dictionary())
    source = make_source({"name": "packed", "path": str(path), **SOURCES[name]})
    file = RawFile(name=name, sha256="0" * 64, size_bytes=path.stat().st_size, path=str(path))
    with pytest.raises(InputError, match=r"needs over 200 MB of memory.*Pack it again") as refused:
        [record for piece in source.slices(file) for record in source.records(piece, Tally())]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_streams_one_after_another_are_read_as_one(tmp_path: Path, pack: Callable[[bytes], bytes], size: int) -> None:
    path = tmp_path / f"a.{ {gzip.compress: 'gz', bz2.compress: 'bz2', lzma.compress: 'xz'}[pack] }"
    path.write_bytes(pack(TEXT) + pack(b"") + pack(TEXT[:99]))
    with open_raw(path) as stream:
        assert b"".join(iter(lambda: stream.read(size), b"")) == TEXT + TEXT[:99]


@pytest.mark.parametrize("spoil", [lambda data: data[:-9], lambda data: data + b"more", lambda data: data + data[:30]])
def test_an_xz_that_is_cut_off_or_goes_on_as_something_else_is_refused(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    """Fails if what follows the first stream is left out without a word."""
    path = tmp_path / "a.xz"
    path.write_bytes(spoil(lzma.compress(TEXT)))
    with pytest.raises(InputError, match="cannot be read to its end"), open_raw(path) as stream, explain_damage(path):
        stream.read()


def test_presets_of_xz_are_within_the_bound() -> None:
    """Fails if a file that `xz -9` made is refused."""
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, packed_stream.MAX_DECODER_BYTES)
    assert stream.decompress(lzma.compress(TEXT, preset=9 | lzma.PRESET_EXTREME)) == TEXT
