"""Datasets of torch over shards: by number for any sampler, or a stream of batches that resumes where it was.

    ExampleDataset(shard_set)                    number -> record; for samplers, batch samplers, transformers.Trainer
    StreamLoader(ExampleStream(shard_set, batch=32, rank=r, ranks=n), num_workers=2)       batch after batch
    DataLoader(ExampleDataset(shard_set), batch_size=32, collate_fn=PaddedBatches.of(shard_set))

Promise: of an epoch each live example is read once, by one rank and one worker, with the masks of that epoch. Batch k
of rank r holds the r-th of every `ranks` examples of step k, whatever the number of workers; so a state is a slot, the
same on every rank. After `load_state_dict` come exactly the examples that had not come: on any number of workers and
ranks, with batches of any size, and where examples were deleted meanwhile.

An epoch's last batch is as large as what is left, and one rank may have a batch more than another; with `endless` all
batches are full and run on from one epoch to the next. Cost: that of the loader, and some nanoseconds a token
for rows of one width.

Of `PaddedBatches` input_ids, attention_mask, token_type_ids and labels are int64 [B, L], the label of a pair int64 [B];
the masks are those of the records, and a collator that draws masks of its own must not follow. Columns that the records
lack are left out: `transformers.Trainer` takes away what a model has no argument for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from corpora.errors import InputError
from corpora.store.settings import check_range
from shards.reading.files.shard_set import ShardSet
from shards.reading.records import ExampleRecords, Record, RecordNames, padded

State = dict[str, Any]
Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBatches:
    """A collate function. L is the longest record's length, rounded up to a multiple of `multiple`.

    fill: what is put after the end of a record, by column of tokens; other columns have a number a record
    """

    fill: Mapping[str, int]
    multiple: int = 1

    @staticmethod
    def of(shard_set: ShardSet, multiple: int = 1) -> "PaddedBatches":
        """For the records of a shard set."""
        return PaddedBatches(fill=dict(RecordNames.of(shard_set.manifest).fill), multiple=multiple)

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch of some records."""
        longest = max(len(record["input_ids"]) for record in records)
        width = -(-longest // self.multiple) * self.multiple
        return {
            name: self._rows([record[name] for record in records], width, self.fill[name])
            if name in self.fill
            else torch.tensor([int(record[name]) for record in records])
            for name in records[0]
        }

    @staticmethod
    def _rows(values: Sequence[Any], width: int, fill: int) -> Tensor:
        rows = torch.full((len(values), width), fill, dtype=torch.int64)
        for row, value in zip(rows, values, strict=True):
            row[: len(value)] = torch.as_tensor(value)
        return rows


def as_tensors(arrays: Mapping[str, Any]) -> Tensors:
    """Return arrays of numpy as tensors, which share their memory."""
    return {name: torch.as_tensor(array) for name, array in arrays.items()}


class ExampleDataset(Dataset[Record]):
    """The live examples of one epoch by number, in the loader's order: to shuffle again is not needed and does no harm.

    The epoch is in memory that workers share, so `set_epoch` reaches those that are kept from one epoch to the next.
    """

    def __init__(self, shard_set: ShardSet, *, seed: int = 42, padded: bool = False) -> None:
        """padded: whether all records are of one width, for which torch's own collate function will do."""
        self._records = ExampleRecords(shard_set, seed=seed, padded=padded)
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self._records.num_live

    def __getitem__(self, number: int) -> Record:
        """A record. Raises IndexError."""
        if not 0 <= number < len(self):
            raise IndexError(f"example {number} of {len(self)}")
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Record]:
        """Return the records of a batch at once, as torch's DataLoader asks for them."""
        return self._records.read(np.asarray(numbers, np.int64) + int(self._epoch) * len(self))

    def set_epoch(self, epoch: int) -> None:
        """Read another epoch: another order, and other masks where they are drawn."""
        check_range("epoch", epoch, 0, 1 << 32)
        self._epoch.fill_(epoch)

    def state_dict(self) -> State:
        """The epoch. The place in it is the sampler's."""
        return {**self._records.identity, "epoch": int(self._epoch)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Read the epoch of a state. Raises InputError for one of other shards."""
        _check_state(state, self._records)
        self.set_epoch(int(state["epoch"]))


class ExampleStream(IterableDataset[Tensors]):
    """Batches of one rank. A pass reads from the stream's position to the end of the epoch; the next one continues.

    batch:    examples of a batch
    rank:     of `ranks` that read a share each
    endless:  continue into the next epoch, and never end
    multiple: batches are as wide as their longest example, rounded up to a multiple of this
    """

    def __init__(
        self,
        shard_set: ShardSet,
        *,
        batch: int,
        seed: int = 42,
        rank: int = 0,
        ranks: int = 1,
        endless: bool = False,
        multiple: int = 1,
    ) -> None:
        check_range("batch", batch, 1, 1 << 32)
        check_range("ranks", ranks, 1, 1 << 32)
        check_range("rank", rank, 0, ranks - 1)
        check_range("multiple", multiple, 1, 1 << 16)
        self._records = ExampleRecords(shard_set, seed=seed)
        self._batch, self._rank, self._ranks, self._endless, self._multiple = batch, rank, ranks, endless, multiple
        self.set_epoch(0)

    def __iter__(self) -> Iterator[Tensors]:
        worker = get_worker_info()
        for start, numbers in self.shares(*((worker.id, worker.num_workers) if worker else (0, 1))):
            self._next = self._after(start)
            yield self._read(numbers)
        self.end_epoch()

    def shares(self, worker: int = 0, workers: int = 1) -> Iterator[tuple[int, range]]:
        """Yield the steps that one of several workers reads: where each begins, and this rank's numbers in it."""
        start = self._next
        for step in count():
            if start == self._end:
                return
            numbers = range(start + self._rank, self._after(start), self._ranks)
            if step % workers == worker and numbers:
                yield start, numbers
            start = self._after(start)

    def _after(self, start: int) -> int:
        """The number after a step."""
        stop = start + self._batch * self._ranks
        return stop if self._end is None else min(stop, self._end)

    def _read(self, numbers: range) -> Tensors:
        gathered = self._records.gather(np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64))
        width = -(-gathered.longest // self._multiple) * self._multiple
        return {name: torch.from_numpy(rows) for name, rows in padded(gathered, self._records.names, width).items()}

    def skip(self) -> None:
        """Count a step as read."""
        self._next = self._after(self._next)

    def end_epoch(self) -> None:
        """Go to the next epoch, when this one was read."""
        self.set_epoch(self._epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Begin at the first example of an epoch."""
        self._go(epoch, epoch * self._records.num_live)

    def _go(self, epoch: int, number: int) -> None:
        check_range("epoch", epoch, 0, 1 << 32)
        self._epoch, self._next = epoch, number
        self._end = None if self._endless else (epoch + 1) * self._records.num_live

    def state_dict(self) -> State:
        """Return the position of the stream, the same on every rank after as many batches: the next slot.

        Raises InputError in one of several workers, which knows what it read itself and not what the others did.
        """
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise InputError(
                "A stream that several workers read was asked for its state in one of them: ask the StreamLoader "
                "that has the workers, or read with one worker."
            )
        slot = int(self._records.slots_of(np.array([self._next], np.int64))[0])
        return {**self._records.identity, "epoch": self._epoch, "slot": slot}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where a stream was, with any batch size and ranks. Raises InputError for one of other shards."""
        _check_state(state, self._records)
        self._go(int(state["epoch"]), self._records.number_of(int(state["slot"])))


class StreamLoader(DataLoader[Tensors]):
    """A DataLoader of a stream that knows what its loop was given, however far workers have read ahead."""

    def __init__(self, stream: ExampleStream, **options: Any) -> None:
        """options: of DataLoader: num_workers, prefetch_factor, pin_memory, multiprocessing_context, ..."""
        if options.get("persistent_workers") or not options.get("in_order", True):
            raise InputError(
                "persistent_workers and in_order=False cannot be used with a stream: its workers begin each pass "
                "where the loop is, and their batches come in order. Leave them out."
            )
        super().__init__(stream, batch_size=None, **options)
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch's own iterator has nothing more to offer
        batches = super().__iter__()
        if self.num_workers == 0:  # then the stream itself is read, and counts
            yield from batches
            return
        for batch in batches:
            self._stream.skip()
            yield batch
        self._stream.end_epoch()

    def state_dict(self) -> State:
        """The stream's, after the batch that was given last."""
        return self._stream.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next pass resume where a state was taken."""
        self._stream.load_state_dict(state)


def _check_state(state: Mapping[str, Any], records: ExampleRecords) -> None:
    for name, here in records.identity.items():
        if state.get(name) != here:
            raise InputError(
                f"The state was saved for {name} = {state.get(name)!r}, but this reads {name} = {here!r}: its places "
                "are those of other examples. Open the shards that it was saved for, or start over without a state."
            )
