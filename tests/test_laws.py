"""The laws: every cost is measured on what it says, and a look-up that finds the wrong thing ends the benchmark."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from small_recipe import stages_without

from benchmarks import laws
from benchmarks.laws import LAWS, Home, Law, Sizes
from benchmarks.sized_stores import FIXED, Cost, metered, sized_store, write_texts

pytestmark = pytest.mark.slow

SMALL = Sizes(megabytes=(0.4, 3.0), shards=(1, 3), cuts=(2, 9), parts=(5, 40), lookups=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stores of these tests."""
    return tmp_path_factory.mktemp("laws")


def law(folder: Path, name: str) -> Law:
    found = LAWS[name](Home(folder), SMALL)
    assert all(len(row) == len(found.heads) for row in found.rows)
    return found


def column(found: Law, head: str) -> list[Any]:
    return [row[found.heads.index(head)] for row in found.rows]


def texts_of(folder: Path) -> list[str]:
    return [json.loads(line)["text"] for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


@pytest.mark.long
def test_the_run_is_told_stage_by_stage(folder: Path) -> None:
    """Fails where a stage is missing, or the rows that it reads are not counted."""
    found = law(folder, "run")
    assert column(found, "stage") == [*stages_without("fits", "models"), "the run", "the run, MB/CPU s", FIXED]
    tokens = found.rows[column(found, "stage").index("tokens")]
    documents = [sized_store(folder, size).run.manifests["corpora"].rows("documents") for size in SMALL.megabytes]
    assert tokens[-2:] == tuple(documents) and documents[1] > 3 * documents[0] > 100
    assert all(value > 0 for value in column(found, "CPU s, 3 MB"))


@pytest.mark.long
def test_shards_are_of_the_asked_numbers(folder: Path) -> None:
    """Fails where shards of another cut are taken for those that are measured, or one is built from other rows."""
    found = law(folder, "shards")
    # 0.4 MB are too few documents for more than one shard; one more is of the held-out documents.
    assert column(found, "shards") == [2, 2, 2, 4]
    assert all(read >= held for read, held in zip(column(found, "rows read"), column(found, "rows held"), strict=True))
    assert len(list((folder / "3-megabytes" / "store" / "shards" / "texts").iterdir())) == 1


@pytest.mark.long
def test_a_corpus_is_cut_into_more_parts(folder: Path) -> None:
    """Fails where the stages of one cut are told of another's, or the files that they open are not counted."""
    found = law(folder, "parts")
    read = [row[:3] for row in found.rows if row[1] == "counts"]
    assert [parts for parts, _, made in read if parts == made] == sorted({parts for parts, *_ in read})
    assert len(read) == 2 and min(column(found, "files opened")) > 0


@pytest.mark.long
def test_look_ups_of_both_directions_read_something(folder: Path) -> None:
    found = law(folder, "trace")
    assert column(found, "from") == ["an example", "a document"] * 2
    assert min(column(found, "rows read")) > 0 and min(column(found, "CPU s")) > 0


def test_manifests_of_many_parts_are_compared(folder: Path) -> None:
    """Fails where the parts of the stages are not found again: then `_look` refuses to go on."""
    found = law(folder, "planning")
    assert column(found, "parts") == [5, 40]
    small, large = column(found, "manifest MB")
    assert 6 * small < large < 9 * small
    assert not list(folder.glob("tmp*"))


@pytest.mark.long
def test_a_trace_to_another_document_ends_the_benchmark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "_trace_example", _other_document)
    with pytest.raises(AssertionError, match="does not hold"):
        LAWS["trace"](Home(folder), SMALL)


def _other_document(*_: Any) -> tuple[str, Cost]:
    return "00" * 16, Cost()


def test_the_same_size_is_the_same_text(tmp_path: Path) -> None:
    """Fails where chance is drawn from anything but the size, or a small text is not the beginning of a large one."""
    for name, size in (("one", 0.3), ("again", 0.3), ("more", 0.5)):
        write_texts(tmp_path / name, size)
    one, again, more = (texts_of(tmp_path / name) for name in ("one", "again", "more"))
    assert one == again == more[: len(one)]
    assert 0.3e6 <= sum(map(len, one)) < 0.31e6
    assert len(more) > len(one) and 0.9 < len(set(more)) / len(more) < 1


def test_rows_and_memory_are_counted_where_batches_are_taken(tmp_path: Path) -> None:
    """Fails where a mapped batch counts as memory, a compressed one does not, or counting goes on for ever."""
    table = pa.table({"n": list(range(100_000))})
    for name in (None, "zstd"):
        options = pa.ipc.IpcWriteOptions(compression=name)
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), table.schema, options=options) as writer:
            writer.write_table(table)
    plain = pa.ipc.open_file
    for name, least, most in (("None", 0, 0), ("zstd", 800_000, 810_000)):
        with metered() as meters, pa.memory_map(str(tmp_path / f"{name}.arrow")) as file:
            before = meters.read()
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                reader.get_batch(number)
            cost = meters.read().minus(before)
        assert cost.rows == 100_000 and least <= cost.unpacked <= most
    assert pa.ipc.open_file is plain


@pytest.mark.long
def test_the_command_prints_its_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    laws.main(["run", "--megabytes", "0.4", "--folder", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["stage", "CPU", "s,", "0.4", "MB", "rows", "read,", "0.4", "MB"]
    assert lines[2].split()[0] == "documents" and lines[-2].split()[:2] == ["fixed", "work"]
