"""Shards: documents cut into training examples, built or opened, and read as Arrow, pandas, datasets or torch have it.

shards = cloze.build_shards(docs, vocab, length=128)
shards = cloze.open_shards("store")                  the newest of a store that `cloze run` built
shards.to_torch(), shards.to_hf()                    with the columns that models of transformers take
shards.to_arrow(), shards.to_pandas()                the examples with their masks, as they are stored
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import numpy as np
import pyarrow as pa

from cloze.documents import to_documents
from cloze.messages import translate_errors
from cloze.vocabulary import Vocabulary, store_vocabulary
from cloze.workspace import Workspace
from corpora.build import Corpus
from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import EPOCH, check_choice
from corpora.store.stage import MANIFEST
from flows.command.trace import build_document_json, build_example_json
from flows.export.exported import open_new_folder
from flows.run.addresses import Artifact, find_artifacts, find_vocabulary, pick_newest
from flows.run.example_stages import build_shard_sets
from shards.build import SPLITS
from shards.reading.epoch_rows import EXAMPLES_PER_BATCH, build_epoch_schema, iter_epoch_batches
from shards.reading.files.shard_set import ShardSet
from shards.reading.order import find_global_examples
from shards.reading.records import ExampleRecords
from tokenizers_train.build import read_vocabulary


class Shards:
    """The training examples of one split, in the order and with the masks of one epoch.

    `len(shards)` is the number of examples without deleted ones. `shards[0]` is a dictionary of int64 arrays:
    `input_ids`, `attention_mask`, `token_type_ids` and `labels` [T] (-100 at positions that are not predicted). Segment
    pairs also have `next_sentence_label` or `sentence_order_label`.
    """

    def __init__(self, shard_set: ShardSet, epoch: int, seed: int, workspace: Workspace) -> None:
        """Open shards. This is only for functions of this package. Use `build_shards` or `open_shards`."""
        EPOCH.check("epoch", epoch)
        self._set, self._epoch, self._seed, self._workspace = shard_set, epoch, seed, workspace
        self._records = ExampleRecords(shard_set, seed=seed, first=epoch) if shard_set.is_live.any() else None

    @property
    def artifact(self) -> str:
        """Path or URL of the folder that contains these shards."""
        return self._workspace.place.to_address(self._set.manifest.folder)

    @property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary used to tokenize these shards.

        Raises:
            InputError: If the vocabulary is no longer in the store.
        """
        return Vocabulary(read_vocabulary(self._set.place, self._vocabulary_artifact))

    @property
    def _vocabulary_artifact(self) -> Manifest:
        """Manifest (stored description) of the vocabulary used to tokenize these shards.

        Raises:
            InputError: If the vocabulary is no longer in the store.
        """
        return find_vocabulary(Artifact(place=self._set.place, manifest=self._set.manifest))

    def split(self, name: str) -> "Shards":
        """Return the examples of another split of these shards, "train" or "held-out".

        Raises:
            InputError: If `name` is neither.
        """
        check_choice("split", name, SPLITS)
        return Shards(replace(self._set, split=name), self._epoch, self._seed, self._workspace)

    def epoch(self, number: int) -> "Shards":
        """Return the same examples in the order and with the dynamic masks of another epoch, counted from 0.

        Raises:
            InputError: If `number` is negative.
        """
        return Shards(self._set, number, self._seed, self._workspace)

    def __len__(self) -> int:
        return 0 if self._records is None else self._records.num_live

    def __getitem__(self, number: int | slice) -> Any:
        """Return one example by its index, or a list of examples by a slice.

        Raises:
            IndexError: If the index is out of range.
        """
        if isinstance(number, slice):
            numbers = range(len(self))[number]
            return self._records.read(numbers) if self._records is not None and numbers else []
        if self._records is None or not -len(self) <= number < len(self):
            raise IndexError(f"example {number} of {len(self)}")
        return self._records[number % len(self)]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for first in range(0, len(self), EXAMPLES_PER_BATCH):
            assert self._records is not None
            yield from self._records.read(range(first, min(first + EXAMPLES_PER_BATCH, len(self))))

    def to_arrow(self) -> pa.Table:
        """Return these training examples as an Arrow table, with the order and masks of the epoch.

        The columns are `example_id`, `ids` (masked), `boundary` (length of the first segment in tokens),
        `mask_positions`, `targets` (the original ids at these positions), and `label` for segment pairs.
        """
        return pa.Table.from_batches(
            iter_epoch_batches(self._set, self._epoch, self._seed), build_epoch_schema(self._set)
        )

    def to_pandas(self) -> Any:
        """Return these training examples as a pandas DataFrame, with the columns of `to_arrow`.

        Raises:
            ImportError: If pandas is not installed.
        """
        return self.to_arrow().to_pandas()

    def to_hf(self, *, padded: bool = True) -> Any:
        """Return these training examples as an in-memory `datasets.Dataset`, for example for transformers' `Trainer`.

        It has the same columns as a single example (`shards[0]`): `input_ids`, `labels`, ...

        Args:
            padded: If True, all rows have the maximum length, so any collator can batch them.

        Raises:
            ImportError: If datasets is not installed.
        """
        from datasets import Dataset  # an extra: `dev`

        rows: list[dict[str, Any]] = []
        if self._records is not None:
            records = ExampleRecords(self._set, seed=self._seed, first=self._epoch, padded=padded)
            rows = [records[number] for number in range(len(self))]
        names = rows[0] if rows else ()
        return Dataset(pa.table({name: pa.array([row[name] for row in rows]) for name in names}))

    def to_torch(self, *, padded: bool = True) -> Any:
        """Return these training examples as a `torch.utils.data.Dataset` for a DataLoader.

        Each item is a dictionary of NumPy values, such as `input_ids`, `attention_mask` and `labels` (-100 for a token
        that is not to be guessed). The Dataset starts at the epoch of these shards. Call its `set_epoch` before each
        later epoch.

        Args:
            padded: If True, all examples have the maximum length, so they can be batched.

        Raises:
            InputError: If the split has no examples.
            ImportError: If torch is not installed.
        """
        from trainer.datasets import ExampleDataset  # torch is slow to import

        dataset = ExampleDataset(self._set, seed=self._seed, padded=padded)
        dataset.set_epoch(self._epoch)
        return dataset

    def save(self, folder: str | Path) -> None:
        """Copy these shards and their vocabulary to a new folder, which `cloze.open_shards` opens.

        Raises:
            InputError: If the folder exists and is not empty, or cannot be written.
        """
        source = self._set.place
        with translate_errors(), open_new_folder(Path(folder)) as new:
            for manifest in (self._set.manifest, self._vocabulary_artifact):
                paths = {f"{manifest.stage_folder}/{path}" for part in manifest.parts for path in part.paths}
                for path in (*sorted(paths), f"{manifest.folder}/{MANIFEST}"):
                    with source.open(path) as file, Place(str(new)).create(path) as sink:
                        copyfileobj(file, sink)

    def _find_stored_numbers(self) -> Int64s:
        """Return the index of each example in the shard files, in the order of the epoch: int64 [N]."""
        if self._records is None:
            return np.empty(0, np.int64)
        return find_global_examples(self._records.to_slots(np.arange(len(self))), len(self._set), self._seed)

    def __repr__(self) -> str:
        facts = self._set.manifest.facts
        return f"Shards({facts['input']}, {len(self):,} examples of up to {facts['length']} tokens, {self._set.split})"


def build_shards(
    docs: Any,
    vocab: Vocabulary,
    length: int = 128,
    *,
    input: str = "segment-pair",
    masking: str | Mapping[str, Any] | None = None,
    seed: int = 42,
    progress: bool | None = None,
    **settings: Any,
) -> Shards:
    """Build training examples from documents. The shards are written to the store of the documents.

    Args:
        docs: Documents, or anything that `read` accepts. 1% of them go to the "held-out" split, unless you passed a
            different `held_out` to `deduplicate`.
        vocab: The vocabulary.
        length: Maximum number of tokens in an example, including special tokens.
        input: How examples are built: "segment-pair" (BERT), "sentence-order" (ALBERT), "single", "full-sentences",
            "doc-sentences", "sentence-pair", "electra", or the name of an input from a package of yours.
        masking: "dynamic" (drawn in each epoch), "static", "none", or the table `masking` of a recipe.
        seed: Seed of the shuffle, the masks and all other random choices.
        progress: Whether to show progress bars (default: like the documents).
        settings: Additional keys of a recipe's table `[shards]`: `copies`, `target_tokens`, and the keys of the input.

    Raises:
        InputError: If a setting is unknown, or the vocabulary lacks a special token.

    >>> from cloze import train_vocabulary
    >>> texts = ["The tide goes out. The boats lie on the sand.", "The tide comes in. The boats float again."]
    >>> shards = build_shards(texts, train_vocabulary(texts, size=60), 32, input="single")
    >>> len(shards), sorted(shards[0])
    (2, ['attention_mask', 'input_ids', 'labels', 'token_type_ids'])
    """
    kind = {"kind": masking} if isinstance(masking, str) else masking
    table = {"input": input, "length": length, **({} if kind is None else {"masking": kind}), **settings}
    if not isinstance(vocab, Vocabulary):
        raise InputError(
            f"vocab is of the type {type(vocab).__name__}: give what cloze.train_vocabulary or load_vocabulary returns."
        )
    given = to_documents(docs, progress)._with(
        "corpus", progress=progress, seed=seed, shards=table, vocabulary=vocab._tables
    )
    workspace = given._workspace

    def work() -> Manifest:
        corpus = Corpus(workspace.place, given._make_corpus())
        words = store_vocabulary(vocab, workspace, given._recipe)
        return build_shard_sets(given._recipe, corpus, {"": words}, workspace.perform)[""]

    manifest = given._retry_without_bad_files(work)
    return Shards(ShardSet(workspace.place, manifest), 0, seed, workspace)


def open_shards(
    address: str | Path, *, split: str = "train", epoch: int = 0, seed: int = 42, progress: bool = True
) -> Shards:
    """Open shards that a run or `build_shards` has built.

    Args:
        address: The folder of a shards artifact, a store (also `s3://bucket/prefix`), of which the newest shards are
            opened, or a release (STORE@NAME).
        split: "train" or "held-out".
        epoch: Zero-based epoch, which determines the order and the masks.
        seed: Seed of the order. Training with this seed reads the same order.
        progress: Whether training on these shards shows progress bars.

    Raises:
        InputError: If there are no shards.
    """
    if not isinstance(address, str | Path):
        raise InputError(f"address is of the type {type(address).__name__}: give a path, or what follows s3://.")
    artifact = pick_newest(find_artifacts(str(address), "shards"))
    workspace = Workspace(artifact.place.address, progress=progress)
    return Shards(ShardSet(artifact.place, artifact.manifest), epoch, seed, workspace).split(split)


def trace(shards: Shards | str | Path, of: int | str | bytes) -> dict[str, Any]:
    """Trace an example to its documents and their raw records, or a document to the examples that contain it.

    Args:
        shards: Shards, or their address.
        of: The index of an example, as in `shards[3]`, or the id of a document, as 16 bytes or 32 hexadecimal digits.

    Returns:
        A dictionary, in the format of `cloze trace --json`. For an example it has `shards`, `split`, `example`,
        `tokens` and `documents`, with the text and the raw record of each. For a document it has `shards`, `document`,
        `examples` (lists of indices by split) and `answers` (predictions of fine-tuned models).

    Raises:
        InputError: If there is no such example or document.
    """
    opened = shards if isinstance(shards, Shards) else open_shards(shards, progress=False)
    artifact = Artifact(place=opened._set.place, manifest=opened._set.manifest)
    if isinstance(of, int):
        if not -len(opened) <= of < len(opened):
            raise InputError(f"of = {of}: there are {len(opened):,} examples, numbered from 0.")
        stored = int(opened._find_stored_numbers()[of])
        return {**build_example_json(artifact, stored, opened._set.split), "example": of % len(opened)}
    if not isinstance(of, str | bytes):
        raise InputError(f"of is of the type {type(of).__name__}: give an example's number, or the id of a document.")
    facts = build_document_json(artifact, of if isinstance(of, str) else of.hex())
    numbers = {
        split: np.flatnonzero(np.isin(opened.split(split)._find_stored_numbers(), stored)).tolist()
        for split, stored in facts["examples"].items()
    }
    return {**facts, "examples": numbers}
