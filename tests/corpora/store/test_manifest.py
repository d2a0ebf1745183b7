"""Manifests: canonical bytes, and fingerprints that change with what was asked and with nothing else."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.store.damage import seal, unseal
from corpora.store.digests.content import compute_content
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import FORMAT_VERSION, Manifest, Parent, Part, StoredFile, compute_fingerprint

ROWS = pa.table({"a": range(10), "b": [f"row {n}" for n in range(10)]})

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
tables = st.dictionaries(st.text(), json_values, max_size=4)


def part_of(name: str, rows: pa.Table, **changes: Any) -> Part:
    file = StoredFile(
        path=f"f/{name}.rows.arrow", table="rows", content=compute_content(rows), size_bytes=9, sha256="ab"
    )
    account = Account(unit="rows", total=rows.num_rows, outcomes={"kept": rows.num_rows})
    fields = {"name": name, "fingerprint": name, "files": (file,), "ledger": Ledger(accounts=(account,))}
    return Part(**{**fields, "labels": {"split": "train", "generation": "1"}, **changes})


def manifest_of(*cuts: int, **changes: Any) -> Manifest:
    """The manifest of ROWS cut into parts."""
    bounds = [0, *cuts, ROWS.num_rows]
    pieces = [ROWS.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]
    fields: dict[str, Any] = {
        "kind": "toys",
        "name": "rows",
        "build_version": 3,
        "fingerprint": "f" * 24,
        "settings": {"rate": 0.15, "keep": ["en", "de"], "nested": {"a": 1, "b": None}},
        "parents": (Parent(role="numbers", name="all", fingerprint="0" * 24),),
        "libraries": {"pyarrow": "26.0.1", "numpy": "2.2"},
        "parts": tuple(part_of(f"part-{number}", piece) for number, piece in enumerate(pieces)),
        "facts": {"length": 128, "é": "ü"},
    }
    return Manifest(**{**fields, **changes})


def test_a_manifest_comes_back_from_its_bytes() -> None:
    manifest = manifest_of(3, 7)
    data = manifest.to_bytes()
    assert Manifest.from_bytes(data, "manifest.json") == manifest
    assert Manifest.from_bytes(data, "manifest.json").to_bytes() == data
    assert data.endswith(b"}\n") and "ü".encode() in data


@given(tables, tables)
def test_any_settings_and_facts_come_back(settings: dict[str, Any], facts: dict[str, Any]) -> None:
    data = manifest_of(settings=settings, facts=facts).to_bytes()
    read = Manifest.from_bytes(data, "manifest.json")
    assert (read.settings, read.facts, read.to_bytes()) == (settings, facts, data)


@given(tables, st.randoms())
def test_the_order_of_keys_changes_neither_bytes_nor_fingerprint(table: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    other = shuffled(table)
    assert compute_fingerprint(settings=other) == compute_fingerprint(settings=table)
    one = manifest_of(settings=table, facts=table, libraries={"a": "1", "b": "2"})
    assert manifest_of(settings=other, facts=other, libraries={"b": "2", "a": "1"}).to_bytes() == one.to_bytes()


def test_the_order_of_labels_and_outcomes_does_not_change_the_bytes() -> None:
    ledger = Ledger(accounts=(Account(unit="rows", total=3, outcomes={"b": 1, "a": 2}),), figures={"y": 1, "x": 2})
    other = Ledger(accounts=(Account(unit="rows", total=3, outcomes={"a": 2, "b": 1}),), figures={"x": 2, "y": 1})
    one = part_of("p", ROWS, ledger=ledger, labels={"split": "train", "generation": "1"})
    two = part_of("p", ROWS, ledger=other, labels={"generation": "1", "split": "train"})
    assert manifest_of(parts=(one,)).to_bytes() == manifest_of(parts=(two,)).to_bytes()


@given(tables, tables)
def test_fingerprints_differ_where_facts_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (compute_fingerprint(settings=one) == compute_fingerprint(settings=other)) == same


def test_fingerprints_tell_values_that_python_calls_equal_apart() -> None:
    values = [1, 1.0, True, "1", [1], None, [], {}, "", 0, False]
    assert len({compute_fingerprint(value=value) for value in values}) == len(values)
    assert compute_fingerprint(value=(1, 2)) == compute_fingerprint(value=[1, 2])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_lacks_has_no_fingerprint(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        compute_fingerprint(rate=value)


def test_golden_fingerprint() -> None:
    assert compute_fingerprint(kind="toys", settings={"b": [1, 0.5], "a": None}, name="é") == "3bede9b8abbee96f28b6188f"


@given(st.lists(st.integers(0, 10), max_size=5).map(sorted))
def test_content_does_not_know_how_rows_are_cut_into_parts(cuts: list[int]) -> None:
    whole, cut = manifest_of(), manifest_of(*cuts)
    assert cut.content == whole.content
    assert cut.tables == {"rows": compute_content(ROWS)}
    assert cut.count_rows("rows") == 10 and cut.count_rows("none") == 0
    assert cut.ledger == whole.ledger


def test_content_knows_the_order_of_parts_and_the_names_of_tables() -> None:
    manifest = manifest_of(4)
    assert replace(manifest, parts=manifest.parts[::-1]).content != manifest.content
    renamed = replace(manifest.parts[1], files=(replace(manifest.parts[1].files[0], table="others"),))
    other = manifest.with_parts((manifest.parts[0], renamed))
    assert other.content != manifest.content
    assert (other.count_rows("rows"), other.count_rows("others"), renamed.count_rows("rows")) == (4, 6, 0)


def test_a_manifest_holds_what_was_asked_and_what_came_out_and_nothing_of_the_run() -> None:
    data = json.loads(manifest_of(4).to_bytes())
    assert data.pop("digest") and list(data) == [
        *("kind", "name", "format_version", "build_version", "fingerprint", "content", "tables", "settings"),
        *("parents", "libraries", "facts", "ledger", "parts"),
    ]
    assert [list(part) for part in data["parts"]] == [["name", "fingerprint", "labels", "files", "ledger"]] * 2
    assert list(data["parts"][0]["files"][0]) == ["path", "table", "content", "size_bytes", "sha256"]
    assert manifest_of().folder == f"toys/rows/{'f' * 24}"


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_format_version_is_refused_with_a_clear_word(version: int) -> None:
    fields = {**unseal(manifest_of().to_bytes(), ""), "format_version": version}
    data = seal(json.dumps(fields).encode())
    with pytest.raises(InputError, match=rf"a/manifest.json has format version {version}.*reads {FORMAT_VERSION}"):
        Manifest.from_bytes(data, "a/manifest.json")
