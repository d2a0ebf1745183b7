"""The shards stage: tokenised documents in, training examples on disk out.

    corpus ─► tokens (sorted by shuffle hash) ─► shards: pairs or packs ─► static masks ─► examples
                                                    └► deleted: examples that are never read again

A generation gets max(1, round(tokens / target_tokens)) shards; a generation of under 1,000 documents is one.
A shard is a range of the shuffle hash, so a uniform sample of its generation: a random next sentence drawn
inside a shard is drawn from the corpus. Held-out documents make shards of their own.

tokens = placed + truncated + left over, for each copy. Older generations' shards are never rewritten: what a
later generation took away is in `deleted`. Memory: one shard's tokens and examples.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.build import DELETED, Corpus
from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s
from corpora.schema import ID_BYTES, columns_of
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, ManifestAddress, Part, fingerprint
from corpora.store.part_writer import PartWriter
from corpora.store.places import Place
from corpora.store.settings import added, check_choice, check_range, settings_json
from corpora.store.stage import PartPlan, Stage, manifest_at
from corpora.store.tables import read_table
from shards.builders.examples import DocumentTokens, Examples
from shards.builders.packing import PackSettings, pack_sentences
from shards.builders.pairs import PairSettings, pair_examples
from shards.documents import ShardDocuments, ShardRange, read_documents
from shards.masks.masking import MaskSettings, ShardVocabulary, draw_masks, vocabulary_facts
from shards.schema import example_schema, id_type
from tokenizers_train.vocabularies.vocabulary import Vocabulary

BUILD_VERSION = 2
SMALL_GENERATION = 1_000
SPLITS = ("train", "held-out")
BATCH_ROWS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """What examples look like and how they lie on disk.

    input:         how documents become examples; "segment-pair" is BERT's, the other two RoBERTa's
    length:        longest example, in tokens, specials included
    short_sequence_probability: share of chunks that aim at a shorter, drawn length (segment-pair)
    copies:        how often every document is paired or packed again (BERT's dupe_factor); static masks differ by copy
    target_tokens: tokens of a shard
    sources:       names of the sources whose documents become examples; empty for all
    """

    input: str = "segment-pair"
    length: int = 128
    short_sequence_probability: float = 0.1
    copies: int = 1
    target_tokens: int = 20_000_000
    seed: int = 42
    masking: MaskSettings = field(default_factory=MaskSettings)
    sources: tuple[str, ...] = added(())

    def __post_init__(self) -> None:
        check_choice("shards.input", self.input, tuple(INPUTS))
        check_range("shards.target_tokens", self.target_tokens, 1_000, 1 << 34)
        for known in fields(self):
            owners = [name for name, each in INPUTS.items() if known.name in each.keys]
            if owners and self.input not in owners and getattr(self, known.name) != known.default:
                raise InputError(f"shards.{known.name} means nothing to input = {self.input!r}: leave it out.")
        _ = self.builder

    @property
    def builder(self) -> "ExampleBuilder":
        """What makes the examples. Raises InputError for settings that it does not take."""
        return INPUTS[self.input].builder(self)

    @property
    def has_pairs(self) -> bool:
        """Whether examples have two segments and a label."""
        return INPUTS[self.input].has_pairs


class ExampleBuilder(Protocol):
    """Makes examples of documents."""

    def __call__(self, columns: DocumentTokens, *, cls_id: int, sep_id: int) -> tuple[Examples, tuple[Ledger, ...]]:
        """The examples of all copies, and one checked ledger a copy."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInput:
    """One kind of input: how documents become examples.

    builder:   what makes them, given the settings of the shards
    has_pairs: whether they have two segments and a label
    keys:      settings of the shards that mean something to this input and not to every other
    """

    builder: Callable[[ShardSettings], ExampleBuilder]
    has_pairs: bool = False
    keys: tuple[str, ...] = ()


def _pairs(settings: ShardSettings) -> ExampleBuilder:
    """Segment pairs, as BERT reads them."""
    own = PairSettings(
        length=settings.length,
        short_sequence_probability=settings.short_sequence_probability,
        copies=settings.copies,
        seed=settings.seed,
    )
    return partial(pair_examples, settings=own)


def _packs(settings: ShardSettings, *, crosses: bool) -> ExampleBuilder:
    """Packed sentences, as RoBERTa reads them. crosses: whether an example may go on in the next document"""
    own = PackSettings(length=settings.length, crosses=crosses, copies=settings.copies, seed=settings.seed)
    return partial(pack_sentences, settings=own)


# A further input is a file in builders/, and a line here.
INPUTS: Mapping[str, ShardInput] = MappingProxyType(
    {
        "segment-pair": ShardInput(builder=_pairs, has_pairs=True, keys=("short_sequence_probability",)),
        "full-sentences": ShardInput(builder=partial(_packs, crosses=True)),
        "doc-sentences": ShardInput(builder=partial(_packs, crosses=False)),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardJob:
    """One shard: those documents of a generation and split whose shuffle hash lies in [first, last]."""

    tokens: ManifestAddress
    generation: int
    split: str
    first: int
    last: int
    settings: ShardSettings
    vocabulary: ShardVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedJob:
    """The corpus whose deleted rows the shards must not show."""

    corpus: ManifestAddress


def plan_shards(
    corpus: Corpus,
    tokens: Manifest,
    vocabulary: Manifest,
    words: Vocabulary,
    settings: ShardSettings,
    name: str | None = None,
) -> Stage:
    """The stage that writes the examples of all generations.

    words: the vocabulary that was read
    name:  of the artifact, where one corpus has several shard sets; default: the corpus' name
    """
    determining = settings_json(settings)
    plans: list[PartPlan] = []
    for generation in range(1, int(corpus.manifest.facts["generations"]) + 1):
        parts = parts_of(tokens, generation, settings.sources)
        for split in SPLITS:
            plans += _plan_split(parts, generation, split, tokens, words, settings)
    if corpus.manifest.rows("deleted"):
        key = str(corpus.manifest.tables["deleted"])
        plans.append(PartPlan(name="deleted", key=key, job=DeletedJob(corpus=corpus.manifest.address)))
    return Stage(
        kind="shards",
        name=name or corpus.manifest.name,
        build_version=BUILD_VERSION,
        settings=determining,
        part_settings={key: value for key, value in determining.items() if key != "target_tokens"},
        parents=(corpus.manifest.as_parent(), tokens.as_parent(), vocabulary.as_parent()),
        libraries={},
        parts=tuple(plans),
        build=build_shards_part,
        facts={
            "input": settings.input,
            "pair_labels": settings.has_pairs,
            "length": settings.length,
            "vocab_size": words.size,
            "special_ids": dict(sorted(words.special_ids.items())),
            "masking": settings.masking.kind,
            "splits": list(SPLITS),
        },
    )


def parts_of(tokens: Manifest, generation: int, sources: Sequence[str]) -> tuple[Part, ...]:
    """The parts of tokens of a generation that may hold documents of these sources (none named: of any).

    A part of what came back with a later generation holds documents of any source, and no label says which.
    """
    of_generation = (part for part in tokens.parts if part.labels["generation"] == str(generation))
    return tuple(part for part in of_generation if not sources or part.labels.get("source", sources[0]) in sources)


def _plan_split(
    parts: Sequence[Part],
    generation: int,
    split: str,
    tokens: Manifest,
    words: Vocabulary,
    settings: ShardSettings,
) -> Iterator[PartPlan]:
    """The shards of one generation and split: equal ranges of the shuffle hash."""
    total = sum(part.ledger.figures[f"{split} tokens"] for part in parts)
    documents = sum(part.ledger.figures[f"{split} documents"] for part in parts)
    if not documents:
        return
    number = 1 if documents < SMALL_GENERATION else max(1, round(total / settings.target_tokens))
    vocabulary = ShardVocabulary(words.size, dict(words.special_ids))
    contents = [part.content for part in parts]
    digest = fingerprint(tokens=contents)
    for shard in range(number):
        first, last = (shard << 64) // number, ((shard + 1 << 64) // number) - 1
        job = ShardJob(
            tokens=tokens.address,
            generation=generation,
            split=split,
            first=first,
            last=last,
            settings=settings,
            vocabulary=vocabulary,
        )
        key = {"tokens": digest, "split": split, "range": [str(first), str(last)]}
        labels = {"generation": str(generation), "split": split}
        name = f"{split}-g{generation:03d}-{shard:05d}"
        # Earlier versions had the contents themselves in the key: shards that they built are not built again.
        yield PartPlan(name=name, key=key, job=job, labels=labels, older_key={**key, "tokens": contents})


def build_shards_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Write one shard, or the delete list (rows of the corpus, not examples: a forget needs no shard read)."""
    if isinstance(plan.job, DeletedJob):
        return _write_deleted(writer, plan.job)
    return _build_shard(writer, plan.job)


def _build_shard(writer: PartWriter, job: ShardJob) -> Ledger:
    documents = read_shard_documents(writer.place, job)
    examples, ledgers = build_examples(documents.tokens, job.settings, job.vocabulary)
    rows = example_rows(examples, documents, job.settings, job.vocabulary)
    with writer.table("examples", rows.schema, compression=None) as sink:
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            sink.write(batch)
    accounts = tuple(
        Account(unit=f"tokens of copy {copy}", total=account.total, outcomes=account.outcomes)
        for copy, ledger in enumerate(ledgers)
        for account in ledger.accounts
    )
    figures = Counter[str]()
    for ledger in ledgers:
        figures.update(ledger.figures)
    figures.update({"documents": len(documents.ids), "examples": rows.num_rows, "example tokens": len(examples.ids)})
    return Ledger(accounts=accounts, figures=figures)


def build_examples(
    columns: DocumentTokens, settings: ShardSettings, vocabulary: ShardVocabulary
) -> tuple[Examples, tuple[Ledger, ...]]:
    """The examples of all copies, and one checked ledger a copy."""
    return settings.builder(columns, cls_id=vocabulary.special_ids["cls"], sep_id=vocabulary.special_ids["sep"])


def read_shard_documents(place: Place, job: ShardJob) -> ShardDocuments:
    """The shard's documents in canonical order: by (shuffle, id)."""
    tokens = manifest_at(place, job.tokens)
    parts = parts_of(tokens, job.generation, job.settings.sources)
    shard = ShardRange(
        first=job.first, last=job.last, held_out=job.split == "held-out", sources=tuple(job.settings.sources)
    )
    return read_documents(place, tokens.stage_folder, parts, shard, id_type(job.vocabulary.size))


def example_rows(
    examples: Examples, documents: ShardDocuments, settings: ShardSettings, vocabulary: ShardVocabulary
) -> pa.Table:
    """The examples as rows of the shard's schema, with static masks where the settings ask for them."""
    ids = id_type(vocabulary.size)
    static = settings.masking.kind == "static"
    columns = {
        "example_id": examples.example_id,
        "ids": _lists(examples.offsets, pa.array(examples.ids, ids)),
        "word_starts": _lists(examples.offsets, pa.array(examples.word_starts.astype(bool))),
        "boundary": examples.boundary,
        "documents": _lists(examples.document_offsets, _id_column(documents.ids[examples.documents])),
        "revisions": _lists(examples.document_offsets, pa.array(documents.revisions[examples.documents])),
        "copy": examples.copy,
        "ordinal": examples.ordinal,
        "label": examples.label,
    }
    if static:
        columns |= _static_masks(examples, settings.masking, vocabulary, ids)
    schema = example_schema(ids, settings.has_pairs, static)
    return pa.table(columns_of(columns, schema), schema=schema)


def _id_column(ids: Bytes) -> pa.Array:
    """Ids, one row each, as a column."""
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), len(ids), [None, pa.py_buffer(ids)])


def _static_masks(
    examples: Examples, settings: MaskSettings, vocabulary: ShardVocabulary, ids: pa.DataType
) -> dict[str, pa.Array]:
    """Masks of each copy, drawn as the dynamic masks of the epoch of the copy's number."""
    positions, replacements = [np.zeros(0, np.uint16)], [np.zeros(0, examples.ids.dtype)]
    lengths = [np.zeros(0, np.int64)]
    for copy in np.unique(examples.copy):
        rows = np.flatnonzero(examples.copy == copy)
        first, last = examples.offsets[rows[0]], examples.offsets[rows[-1] + 1]
        masks = draw_masks(
            examples.ids[first:last],
            examples.offsets[rows[0] : rows[-1] + 2] - first,
            examples.word_starts[first:last],
            examples.example_id[rows],
            int(copy),
            settings,
            vocabulary_facts(vocabulary),
        )
        positions.append(masks.positions)
        replacements.append(masks.replacements)
        lengths.append(np.diff(masks.offsets))
    offsets = np.concatenate([[0], np.cumsum(_joined(lengths, np.int64), dtype=np.int64)])
    return {
        "mask_positions": _lists(offsets, pa.array(_joined(positions, np.uint16), pa.uint16())),
        "mask_ids": _lists(offsets, pa.array(_joined(replacements, examples.ids.dtype), ids)),
    }


def _joined(arrays: list[npt.NDArray[Any]], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Arrays end to end; a shard without examples has none."""
    return np.concatenate([np.zeros(0, kind), *arrays])


def _lists(offsets: Int64s, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _write_deleted(writer: PartWriter, job: DeletedJob) -> Ledger:
    """The rows that the corpus lost since their shards were written: their examples are never read again."""
    corpus, written = manifest_at(writer.place, job.corpus), 0
    with writer.table("deleted", DELETED) as sink:
        for batch in read_table(writer.place, corpus, "deleted", DELETED.names):
            sink.write(batch)
            written += batch.num_rows
    account = Account(unit="deleted rows", total=corpus.rows("deleted"), outcomes={"listed": written})
    return Ledger(accounts=(account,))
