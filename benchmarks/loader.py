"""The loader: random examples with their masks, next to datasets with a DataLoader and transformers' collator.

Examples of up to 128 tokens, several copies of each text's, in batches of 256 in random order. `Loader` gives token ids
with the masks put in, the masked places and the original tokens; the collator a padded matrix of each. litdata's and
Grain's streams give the same examples in a random order of their own, end to end as `Loader` does, from files of their
own kind, and no masks: the work after that is not in their rows. `HandWritten` is what an engineer who needs no library
writes in forty lines: one memory-mapped array of all tokens, batches gathered and masked by NumPy; it has no digests,
no resumption within an epoch, no whole words and no mixtures. Peers that are not installed have no row.

CPU seconds are those of all threads and processes: every call takes the same number of examples in another order, and
waits until the processes that it started are gone.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.masks import their_collator
from benchmarks.measuring import Report, Side, figure, main, side_by_side
from corpora.kernels.arrays import Ids, Int64s
from corpora.sources.contract import StatCache
from corpora.store.manifest import Part
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.store.tables import read_part_table
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import parse_recipe
from flows.run.pipeline import run_recipe
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import GatheredExamples, Loader, gather_plain
from tokenizers_train.build import read_vocabulary
from tokenizers_train.vocabularies.vocabulary import Vocabulary

BATCH = 256
RECIPE = """
name = "texts"

[[source]]
kind = "files"
name = "texts"
path = "texts.jsonl"

[vocabulary]
size = 8000

[shards]
length = 128
copies = {copies}
"""
COPIES = 20


class Given(NamedTuple):
    """The task of every side: the examples of a shard set, as the loader reads them."""

    shard_set: ShardSet
    vocabulary: Vocabulary
    examples: list[Ids]
    batches: int  # of a call
    folder: Path  # for files of another kind

    @property
    def taken(self) -> int:
        """The examples of a call."""
        return self.batches * BATCH


def benchmark(texts: Sequence[str], rounds: int, copies: int = COPIES) -> list[Report]:
    """Compare reading the examples of texts, by every library that is installed."""
    with tempfile.TemporaryDirectory() as folder:
        given = build_given(texts, Path(folder), copies)
        _check(given)
        sides, missing = [Side(name="Loader", call=loader(given))], []
        for name, packages, make in PEERS:
            lacking = [package for package in packages if find_spec(package) is None]
            if lacking:
                missing.append(f"{' and '.join(lacking)} not installed: no row for {name}")
            else:
                call = make(given)
                call(0)
                sides.append(Side(name=name, call=call))
        tokens = sum(map(len, given.examples)) / len(given.examples)
        notes = [
            f"{len(given.examples)} examples, {figure(tokens)} tokens each; a call takes {given.taken} of them",
            "what Loader gives equals its definition's (gather_plain)",
            *missing,
        ]
        amounts = {"M tokens": given.taken * tokens / 1e6, "K examples": given.taken / 1000}
        return [side_by_side("loader", texts, sides, rounds, notes, amounts)]


def build_given(texts: Sequence[str], folder: Path, copies: int) -> Given:
    lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    (folder / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    recipe = parse_recipe(RECIPE.format(copies=copies), folder / "recipe.toml", {})
    place = Place(str(folder / "store"))
    lock = resolve_raw_files(recipe, Lock(), StatCache()).lock
    outcome = run_recipe(place, recipe, lock, lambda stages: [build_stage(place, stage) for stage in stages])
    shard_set = ShardSet(place, outcome.shards)
    examples = [row.to_numpy() for part in shard_set.parts for row in _rows(shard_set, part)]
    batches = max(1, min(64, len(examples) // BATCH))
    return Given(shard_set, read_vocabulary(place, outcome.vocabulary), examples, batches, folder)


def _rows(shard_set: ShardSet, part: Part) -> Iterator[pa.Array]:
    """Yield the ids of a shard's examples."""
    for batch in read_part_table(shard_set.place, shard_set.manifest.stage_folder, part, "examples", ("ids",)):
        lists = batch.column("ids")
        yield from (lists.values[first:end] for first, end in pairwise(lists.offsets.to_numpy()))


def _check(given: Given) -> None:
    """Check the loader against its definition: some slots of its first epoch, and some of the next."""
    loader, num = Loader(given.shard_set, 1), len(given.shard_set)
    for step in (range(BATCH), range(max(0, num - 50), num + 50)):
        ours, plain = loader.gather(step), gather_plain(given.shard_set, 1, step)
        for name in ("ids", "offsets", "masked", "targets", "example_ids"):
            assert np.array_equal(getattr(ours, name), getattr(plain, name)), f"{name} differ from the definition's"


def loader(given: Given) -> Callable[[int], list[GatheredExamples]]:
    """Return ours: the slots of a call follow those of the last one."""
    ours = Loader(given.shard_set, 1)

    def call(number: int) -> list[GatheredExamples]:
        first = number * given.taken
        return _emptied(ours.gather(range(at, at + BATCH)) for at in range(first, first + given.taken, BATCH))

    call(0)
    return call


def collator(given: Given, workers: int) -> Callable[[int], list[Any]]:
    """Return datasets, torch's DataLoader and transformers' collator, which gets the special tokens its way."""
    datasets, torch = import_module("datasets"), import_module("torch")
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    path, vocabulary = given.folder / f"datasets-{workers}", given.vocabulary
    is_special = np.zeros(vocabulary.size, np.int8)
    is_special[list(vocabulary.special_ids.values())] = 1
    columns = {"input_ids": given.examples, "special_tokens_mask": [is_special[row] for row in given.examples]}
    datasets.Dataset.from_dict(columns).save_to_disk(str(path))
    rows = datasets.load_from_disk(str(path))
    collate = their_collator(vocabulary)

    def call(number: int) -> list[Any]:
        torch.manual_seed(number)
        order = torch.randperm(len(rows))[: given.taken].tolist()
        return _emptied(
            torch.utils.data.DataLoader(rows, batch_size=BATCH, sampler=order, collate_fn=collate, num_workers=workers)
        )

    return call


def litdata_stream(given: Given) -> Callable[[int], list[Any]]:
    """Return litdata's StreamingDataset over its own chunks, shuffled."""
    litdata, writer = import_module("litdata"), import_module("litdata.streaming.writer")
    path = given.folder / "litdata"
    path.mkdir()
    chunks = writer.BinaryWriter(str(path), chunk_bytes=16 << 20)
    for number, row in enumerate(given.examples):
        chunks[number] = row
    chunks.done()
    chunks.merge()

    def call(number: int) -> list[Any]:
        dataset = litdata.StreamingDataset(str(path), shuffle=True, seed=number)
        stream = litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=0, collate_fn=_end_to_end)
        return _emptied(islice(stream, given.batches))

    return call


def grain_stream(given: Given) -> Callable[[int], list[Any]]:
    """Return Grain's MapDataset over its own files, shuffled."""
    grain, records = import_module("grain"), import_module("array_record.python.array_record_module")
    path = str(given.folder / "examples.array_record")
    writer = records.ArrayRecordWriter(path, "group_size:1")
    for row in given.examples:
        writer.write(row.tobytes())
    writer.close()
    source = grain.sources.ArrayRecordDataSource(path)
    to_row = partial(np.frombuffer, dtype=given.examples[0].dtype)

    def call(number: int) -> list[Any]:
        rows = grain.MapDataset.source(source).shuffle(seed=number).map(to_row)
        # No threads: they would read on after the call, and their time would count for another side.
        alone = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        stream = rows.batch(BATCH, batch_fn=_end_to_end).to_iter_dataset(alone)
        return _emptied(islice(iter(stream), given.batches))

    return call


class HandWritten:
    """A loader as an engineer writes it by hand: examples end to end in a file, gathered and masked by NumPy.

    15 % of the tokens that are not special are masked, each by itself: 80 % [MASK], 10 % random, 10 % unchanged.
    """

    def __init__(self, path: Path, offsets: Int64s, special: Sequence[int], mask: int, vocab_size: int) -> None:
        self.tokens = np.memmap(path, np.uint16, "r")
        self.offsets, self.mask, self.vocab_size = offsets, mask, vocab_size
        self.is_special = np.zeros(vocab_size, bool)
        self.is_special[list(special)] = True

    def read_epoch(self, seed: int, batch_size: int) -> Iterator[tuple[Any, ...]]:
        """Yield token ids, offsets, masked places and their original tokens, in batches in random order."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.offsets) - 1)
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
            ends = np.cumsum(lengths)
            places = np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])
            ids = self.tokens[places]
            masked = np.flatnonzero((rng.random(len(ids), np.float32) < 0.15) & ~self.is_special[ids])
            targets, kind = ids[masked], rng.random(len(masked), np.float32)
            ids[masked[kind < 0.8]] = self.mask
            changed = masked[kind >= 0.9]
            ids[changed] = rng.integers(0, self.vocab_size, len(changed), np.uint16)
            yield ids, np.concatenate(([0], ends)), masked, targets


def hand_written(given: Given) -> Callable[[int], list[Any]]:
    """Return the loader that is written by hand, over a file of its own."""
    path, vocabulary = given.folder / "tokens.bin", given.vocabulary
    path.write_bytes(np.concatenate(given.examples).astype(np.uint16).tobytes())
    offsets = np.cumsum([0, *map(len, given.examples)])
    special = vocabulary.special_ids
    theirs = HandWritten(path, offsets, [*special.values()], special["mask"], vocabulary.size)
    return lambda number: _emptied(islice(theirs.read_epoch(number, BATCH), given.batches))


def _end_to_end(rows: Sequence[Ids]) -> tuple[Any, Any]:
    """Return rows as `Loader` gives them."""
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)])


def _emptied(batches: Iterable[Any]) -> list[Any]:
    """Return the last batch; the others are dropped as they come, as in a training."""
    last: list[Any] = []
    for batch in batches:
        last = [batch]
    return last


Make = Callable[[Given], Callable[[int], list[Any]]]
HUGGING_FACE = ("datasets", "torch", "transformers")
PEERS: Sequence[tuple[str, Sequence[str], Make]] = (
    ("forty lines by hand", (), hand_written),
    ("datasets, DataLoader, collator", HUGGING_FACE, partial(collator, workers=0)),
    ("  with one worker", HUGGING_FACE, partial(collator, workers=1)),
    ("litdata, no masks", ("litdata",), litdata_stream),
    ("Grain, no masks", ("grain", "array_record"), grain_stream),
)


if __name__ == "__main__":
    main(benchmark)
