"""Every form of raw file in every kind of damage: counted drops or one clear paragraph, and nothing written outside.

Each case goes the way of a run: the source's files are planned, a part is built, and its ledger compares the records
counted in the bytes with the rows that were written. `test_memory.py` has what is large or expands.
"""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hostile_forms import (
    EPUB_FIELDS,
    FORMS,
    PROSE,
    PUBMED_FIELDS,
    WARC_FIELDS,
    Form,
    documents,
    each,
    each_form,
    epub,
    outcome,
    page,
    pubmed,
    warc_record,
)
from tiers import LONG, a_few, count_examples

from corpora.errors import InputError
from corpora.judging.batches import judge_records
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import QUARANTINED, Record, StatCache, Tally, hash_files, quarantine_place
from corpora.sources.registry import make_source

NUM_FLIPS = count_examples(20)
PACKED = tuple(form for form in FORMS if form.name.endswith((".gz", ".bz2", ".xz", ".zst")))
OWN_PARSER = tuple(form for form in FORMS if form not in PACKED or form.name in ("a.wet.gz", "a.txt.gz", "a.tar.xz"))


def parse(path: Path, form: Form) -> None:
    """The same without a store: the records, each of which the columns of the next stage can hold."""
    source = make_source({"kind": form.kind, "name": "hostile", "path": str(path), **form.table})
    tally, batch = Tally(), list[Record]()
    try:
        for file in hash_files(source.files(), StatCache()):
            for piece in source.slices(file):
                batch += source.records(piece, tally)
    except InputError as error:
        assert path.name in str(error) and str(error).strip() == str(error) and "\n\n" not in str(error)
        return
    assert tally.records == len(batch)
    assert (
        judge_records([found for found in batch if found.drop], "hostile", DocumentsSettings()).documents.num_rows == 0
    )
    for found in batch:
        pa.array([*found[1:3], *found[5:11]], pa.large_string()).validate(full=True)


@each_form
def test_whole_files_are_read(place: Path, form: Form) -> None:
    """Fails where what is damaged below would not be read whole."""
    (place / form.name).write_bytes(form.make(form.fields))
    found = outcome(place / form.name, form)
    assert documents(found) >= 1 and not isinstance(found, str)
    assert set(found) == {"documents"}


@each_form
def test_a_record_in_quarantine_is_not_parsed(place: Path, form: Form) -> None:
    """Fails where a source parses a record before it asks, so that a crash over it has no name."""
    (place / form.name).write_bytes(form.make(form.fields))
    source = make_source({"kind": form.kind, "name": "hostile", "path": str(place / form.name), **form.table})
    [file] = hash_files(source.files(), StatCache())
    for piece in source.slices(file):
        for number, record in enumerate(whole := list(source.records(piece, Tally()))):
            again = list(source.records(piece, Tally([quarantine_place(record.locator)])))
            assert again[number][:2] == (record.locator, "") and again[number].drop == QUARANTINED
            assert [*again[:number], *again[number + 1 :]] == [*whole[:number], *whole[number + 1 :]]


@each_form
def test_cut_off(place: Path, form: Form) -> None:
    """Fails where a file that is cut off ends a run in anything but drops or a paragraph."""
    data = form.make(form.fields)
    for share in a_few((0.1, 0.5, 0.9), 1, form.name):
        (place / form.name).write_bytes(data[: int(share * len(data))])
        outcome(place / form.name, form)
    (place / form.name).write_bytes(b"")
    assert documents(outcome(place / form.name, form)) == 0


@each(PACKED)
def test_packed_files_that_are_cut_off_are_told(place: Path, form: Form) -> None:
    """Fails where a packed file that is cut off is taken for a whole one, however little is missing."""
    data = form.make(form.fields)
    for size in (len(data) // 3, len(data) - 1):
        (place / form.name).write_bytes(data[:size])
        found = outcome(place / form.name, form)
        assert isinstance(found, str) or any("damaged" in reason for reason in found)


@each_form
def test_bits_flipped(place: Path, form: Form) -> None:
    """Fails where one turned bit ends a run in anything but drops or a paragraph."""
    data = form.make(form.fields)
    draw = random.Random(form.kind + form.name)
    for _ in range(NUM_FLIPS):
        spoilt = bytearray(data)
        spoilt[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (place / form.name).write_bytes(spoilt)
        parse(place / form.name, form)


SPOILS = {
    "a zero": b"\0",
    "many zeros": bytes(600),
    "no UTF-8": b"\xff\xc3\x28\xfe",
    "half a character, escaped": b"\\ud800 &#xD800;",
    "half a character in bytes": b"\xed\xa0\x80",
    "control characters": b"\x1b[2J\x07\r\x0b",
    "nothing": b"",
}


@each(OWN_PARSER)
def test_spoilt_fields(place: Path, form: Form) -> None:
    """Fails where a text field that no writer should write ends a run: each field in turn, then all of them."""
    for inside in a_few(SPOILS.values(), 2, form.kind + form.name):
        for names in (*((name,) for name in form.fields), tuple(form.fields)):
            middle = {name: form.fields[name][:9] + inside + form.fields[name][9:] if inside else b"" for name in names}
            (place / form.name).write_bytes(form.make({**form.fields, **middle}))
            (parse if len(names) == 1 < len(form.fields) else outcome)(place / form.name, form)


CODECS = "undefined idna punycode unicode_escape raw_unicode_escape utf-7 utf-16 hex zlib rot13 cp037 none-such".split()


@pytest.mark.parametrize("codec", CODECS)
def test_encodings_that_a_file_may_state(place: Path, codec: str) -> None:
    """Fails where an encoding that Python knows, but no text is in, ends a run: of XML, of pages, as a setting."""
    read = outcome if LONG else parse
    body = PROSE + rb" \ud800 +2AA- caf" + b"\xe9"
    declared = b'<?xml version="1.0" encoding="%s"?>' % codec.encode() + pubmed({**PUBMED_FIELDS, b"text": body})
    (place / "a.xml").write_bytes(declared)
    read(place / "a.xml", Form(kind="xml", name="a.xml", make=pubmed, table={"preset": "pubmed"}))
    stated = b'<meta charset="%s">%s' % (codec.encode(), body)
    (place / "a.html").write_bytes(stated)
    read(place / "a.html", Form(kind="files", name="a.html", make=page))
    (place / "a.epub").write_bytes(epub({**EPUB_FIELDS, b"text": stated}))
    read(place / "a.epub", Form(kind="files", name="a.epub", make=epub))
    media = b"text/html; charset=%s" % codec.encode()
    (place / "a.warc").write_bytes(warc_record({**WARC_FIELDS, b"text": body, b"media": media}))
    read(place / "a.warc", Form(kind="cc-news", name="a.warc", make=warc_record))
    try:
        make_source({"kind": "files", "name": "hostile", "path": "a.txt", "encoding": codec})
    except InputError:
        return
    (place / "a.txt").write_bytes(body)
    read(place / "a.txt", Form(kind="files", name="a.txt", make=page, table={"encoding": codec}))
