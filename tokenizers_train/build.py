"""Two stages: `counts` (the words of every part of the corpus) and `vocabularies` (trained on their sum, or given).

    corpus ─► word counts, part by part ─► of many parts, added up by tasks (`totals`)
           ─► folded one after another, weighted by source ─► training ─► a folder that AutoTokenizer opens

Counting is the long half and depends only on the text and the word rule (BERT's, GPT-2's, sentencepiece's; lower-cased
or not), so another vocabulary size counts nothing again. Held-out documents are not counted. A vocabulary is trained on
one named generation and reused by later ones, so new data never makes old shards stale. A vocabulary that exists
already is taken into the store as it is.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import Corpus, read_delete_list_at
from corpora.errors import InputError
from corpora.store.current_record import iter_reported
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest, ManifestAddress, Part
from corpora.store.merging import MergeJob, plan_merge
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.settings import to_settings_json
from corpora.store.stage import PartPlan, Stage, read_library_versions, read_manifest_at
from corpora.store.tables import read_files, read_part_table
from corpora.views import PartView, read_view
from tokenizers_train.encoding.encoder import describe_slow_rules
from tokenizers_train.learning.byte_bpe import train_byte_bpe
from tokenizers_train.learning.unigram import UnigramSettings, train_unigram
from tokenizers_train.learning.wordpiece import train_wordpiece
from tokenizers_train.vocabularies.settings import BYTE_BPE, UNIGRAM, VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_albert_vocabulary
from tokenizers_train.words.counts import WordRule, count_words, merge_counts
from tokenizers_train.words.sentencepiece import SentencePieceWords
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts

COUNTS_VERSION = 1
TOTALS_VERSION = 1
VOCABULARY_VERSION = 1
UNIGRAM_VERSION = 2  # 2: scores of at most 15 digits
ADDED_TOKENS_VERSION = 2  # of vocabularies that `_brought_version` names; 2: the ids are those of tokenizers

BATCH_BYTES = 16_000_000

TOKENS_SCHEMA = pa.schema([pa.field("token", pa.string(), nullable=False)])

COUNT_COLUMNS = ("id", "held_out", "text")  # columns of the corpus that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class CountJob:
    """The part of a corpus in which words are counted, and the word rule."""

    corpus: ManifestAddress
    view: PartView
    rule: WordRule


def plan_counts(corpus: Corpus, rule: WordRule, name: str | None = None) -> Stage:
    """Plan the stage that counts the words of a corpus, part by part. Deleted and held-out documents are not counted.

    Args:
        corpus: The corpus.
        rule: The rule that splits text into words.
        name: Name of the artifact, needed if the words are counted by several rules (default: the name of the corpus).
    """
    deleted = str(corpus.manifest.tables.get("deleted", ""))
    parts = (
        PartPlan(
            name=view.part.name,
            key=[view.part.content, deleted],
            job=CountJob(corpus=corpus.manifest.address, view=view, rule=rule),
            labels=view.part.labels,
        )
        for view in corpus.views
    )
    return Stage(
        kind="counts",
        name=name or corpus.manifest.name,
        build_version=COUNTS_VERSION,
        settings=rule.settings,
        parents=(corpus.manifest.as_parent(),),
        libraries=read_library_versions("tokenizers"),
        parts=tuple(parts),
        build=build_counts_part,
    )


def build_counts_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Count the words of one part (file set) of a corpus and write the table "counts".

    Args:
        writer: Writes the table.
        plan: The plan of the part. Its `job` is a `CountJob`.

    Returns:
        The number of documents that were counted, held out and deleted, as a ledger.

    Raises:
        Damaged: If a file is missing, damaged or was changed.
    """
    job: CountJob = plan.job
    deleted = read_delete_list_at(writer.place, job.corpus)
    documents_seen = Counter[str]()

    def texts() -> Iterator[pa.Array]:
        for live in iter_reported(read_view(writer.place, job.view, COUNT_COLUMNS, deleted=deleted)):
            counted = live.filter(pc.invert(live.column("held_out")))
            documents_seen.update({"counted": counted.num_rows, "held out": live.num_rows - counted.num_rows})
            yield counted.column("text")

    figures = _write_counts(writer, merge_counts(count_words(job.rule, column) for column in batch_columns(texts())))
    total = job.view.num_rows
    outcomes = {
        "counted": documents_seen["counted"],
        "held out": documents_seen["held out"],
        "deleted": total - documents_seen.total(),
    }
    return Ledger(accounts=(Account(unit="documents", total=total, outcomes=outcomes),), figures=figures)


def batch_columns(columns: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Concatenate text columns, and yield batches of about `BATCH_BYTES` bytes.

    Counting sorts the distinct words of each batch, so a few large batches are faster than many small ones.
    """
    waiting: list[pa.Array] = []
    for column in columns:
        waiting.append(column)
        if sum(each.nbytes for each in waiting) >= BATCH_BYTES:
            yield pa.concat_arrays(waiting)
            waiting = []
    if waiting:
        yield pa.concat_arrays(waiting)


def _write_counts(writer: PartWriter, counts: WordCounts) -> dict[str, int]:
    """Write the table "counts", and return two totals for the ledger, keyed by name.

    The keys are "words", for the sum of all counts, and "distinct words in parts", for the number of rows.
    """
    with writer.create_table("counts", COUNTS_SCHEMA) as sink:
        sink.write(counts)
    return {"words": int(pc.sum(counts.column("count")).as_py() or 0), "distinct words in parts": counts.num_rows}


def plan_totals(counts: Manifest) -> Stage | None:
    """Plan the stage that merges the counts of each source's parts.

    Returns None if there are too few parts to merge.
    """
    return plan_merge("totals", TOTALS_VERSION, counts, [counts.parts], ("source",), build_totals_part)


def build_totals_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Add up the word counts of several parts and write the table "counts".

    Args:
        writer: Writes the table.
        plan: The plan of the part. Its `job` is a `MergeJob`.

    Returns:
        The number of words before and after, as a ledger.

    Raises:
        Damaged: If a table is damaged or was changed.
    """
    job: MergeJob = plan.job
    figures = _write_counts(writer, merge_counts(read_counts(writer.place, job.folder, job.parts)))
    total = sum(part.ledger.figures["words"] for part in job.parts)
    return Ledger(
        accounts=(Account(unit="words", total=total, outcomes={"added up": figures["words"]}),), figures=figures
    )


def read_counts(place: Place, stage_folder: str, parts: Iterable[Part]) -> Iterator[WordCounts]:
    """Yield the word counts of each part (file set), with the schema `COUNTS_SCHEMA`.

    Args:
        place: The store.
        stage_folder: The folder of the parts' stage in the store, `KIND/NAME`.
        parts: The parts.

    Raises:
        Damaged: During iteration, if a table is missing, damaged or was changed.
    """
    for part in parts:
        yield pa.Table.from_batches(
            read_part_table(place, stage_folder, part, "counts", COUNTS_SCHEMA.names), COUNTS_SCHEMA
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyJob:
    """The word counts to train on, the settings, and the weight of each source."""

    counts: ManifestAddress
    settings: VocabularySettings
    weights: Mapping[str, float]


def plan_vocabulary(name: str, counts: Manifest, settings: VocabularySettings, weights: Mapping[str, float]) -> Stage:
    """Plan the stage that trains a vocabulary.

    Args:
        name: Name of the artifact.
        counts: Manifest of the word counts, or of the totals that they were merged into.
        settings: Settings of the vocabulary.
        weights: Maps a source to the weight of its counts (default: 1).
    """
    job = VocabularyJob(counts=counts.address, settings=settings, weights=weights)
    set_weights = {source: weight for source, weight in sorted(weights.items()) if weight != 1.0}
    return Stage(
        kind="vocabularies",
        name=name,
        build_version=UNIGRAM_VERSION if settings.algorithm == UNIGRAM else VOCABULARY_VERSION,
        settings={**to_settings_json(settings), "weights": set_weights},
        parents=(counts.as_parent(),),
        libraries=read_library_versions("tokenizers"),
        parts=(PartPlan(name="vocabulary", key=counts.content, job=job),),
        build=build_vocabulary_part,
    )


def build_vocabulary_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Train a vocabulary on the merged counts and write its files.

    Args:
        writer: Writes the files.
        plan: The plan of the part. Its `job` is a `VocabularyJob`.

    Returns:
        The numbers of distinct words and of tokens, as figures of a ledger.

    Raises:
        InputError: If there are no words, or the settings do not fit them.
        Damaged: If a table is missing, damaged or was changed.
    """
    job: VocabularyJob = plan.job
    manifest = read_manifest_at(writer.place, job.counts)
    weights = [job.weights.get(part.labels.get("source", ""), 1.0) for part in manifest.parts]
    counts = merge_counts(read_counts(writer.place, manifest.stage_folder, manifest.parts), weights)
    if not counts.num_rows:
        raise InputError(
            f"The corpus {manifest.name!r} has no words to train a vocabulary on: every document was dropped or "
            "held out. `cloze inspect` on its documents says by which rule; loosen that rule or add text."
        )
    return _write_vocabulary(writer, train_vocabulary(counts, job.settings), {"distinct words": counts.num_rows})


def train_vocabulary(counts: WordCounts, settings: VocabularySettings) -> Vocabulary:
    """Train a vocabulary with the algorithm named in the settings.

    Raises:
        InputError: If there are no words or too few, or if `settings.size` is too small for the single characters.
    """
    if settings.algorithm == UNIGRAM:
        return train_unigram_vocabulary(counts, settings)
    return train_byte_bpe(counts, settings) if settings.algorithm == BYTE_BPE else train_wordpiece(counts, settings)


def train_unigram_vocabulary(counts: WordCounts, settings: VocabularySettings) -> Vocabulary:
    """Train a Unigram vocabulary of at most `settings.size` tokens, including special tokens.

    Raises:
        InputError: If there are no words or too few, or more different characters than `settings.size` has room for.
    """
    reserved = len(settings.family_tokens) + len(settings.special_tokens)
    unigram = UnigramSettings(
        size=settings.size - reserved,
        reserved=reserved,
        character_coverage=settings.character_coverage,
        symbols=settings.symbols,
    )
    special = {*settings.family_tokens, *settings.special_tokens}
    pieces = [(piece, score) for piece, score in train_unigram(counts, unigram) if piece not in special]
    words = settings.word_rule
    assert isinstance(words, SentencePieceWords), "the words of another algorithm"
    return build_albert_vocabulary(pieces, words=words, additional=settings.special_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVocabularyJob:
    """The files of an existing vocabulary."""

    files: Mapping[str, bytes]


def plan_given_vocabulary(name: str, vocabulary: Vocabulary) -> Stage:
    """Plan the stage that copies an existing vocabulary into the store under the given name.

    The stage has one part. The part's key is the digest of the vocabulary's files.
    """
    files = vocabulary.to_files()
    digest = hashlib.sha256()
    for file, data in sorted(files.items()):
        digest.update(f"{file}\0{len(data)}\0".encode() + data)
    return Stage(
        kind="vocabularies",
        name=name,
        build_version=_choose_build_version(vocabulary),
        settings={"algorithm": vocabulary.algorithm, "size": vocabulary.size, "files": digest.hexdigest()},
        parents=(),
        libraries=read_library_versions("tokenizers"),
        parts=(PartPlan(name="vocabulary", key=digest.hexdigest(), job=GivenVocabularyJob(files=files)),),
        build=build_given_vocabulary_part,
        facts={"notice": describe_slow_rules(vocabulary)} if vocabulary.word_rule is None else {},
    )


def _choose_build_version(vocabulary: Vocabulary) -> int:
    """Return the build version of an existing vocabulary: ADDED_TOKENS_VERSION or VOCABULARY_VERSION.

    It is ADDED_TOKENS_VERSION, which is higher, if earlier releases may have encoded its texts differently from the
    tokenizers library. This concerns added tokens that are not in the model or not special, special tokens that are
    words, and unknown bytes that are fused.
    """
    model, special = vocabulary.content["model"], set(vocabulary.special_tokens.values())
    pieces = {piece for piece, _ in model["vocab"]} if vocabulary.algorithm == UNIGRAM else model["vocab"].keys()
    has_outside_tokens = any(token["content"] not in pieces for token in vocabulary.content["added_tokens"])
    has_ordinary_tokens = any(not token["special"] for token in vocabulary.content["added_tokens"])
    has_word_tokens = any(token.isalnum() for token in {*vocabulary.additional_special_tokens, *special})
    fuses_unknown = bool(model.get("fuse_unk")) and vocabulary.word_rule is None
    return (
        ADDED_TOKENS_VERSION
        if has_outside_tokens or has_ordinary_tokens or has_word_tokens or fuses_unknown
        else VOCABULARY_VERSION
    )


def build_given_vocabulary_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Write the files of an existing vocabulary. The job of `plan` is a `GivenVocabularyJob`.

    Returns:
        The number of tokens, as a figure of a ledger.

    Raises:
        InputError: If the files cannot be read as a tokenizer.
    """
    job: GivenVocabularyJob = plan.job
    return _write_vocabulary(writer, Vocabulary.from_files(job.files), {})


def _write_vocabulary(writer: PartWriter, vocabulary: Vocabulary, figures: Mapping[str, int]) -> Ledger:
    """Write the tokens of a vocabulary as the table "tokens", and its files.

    `figures` are copied to the returned ledger, which also has the number of tokens.
    """
    with writer.create_table("tokens", TOKENS_SCHEMA) as sink:
        sink.write(pa.table([pa.array(vocabulary.tokens, pa.string())], schema=TOKENS_SCHEMA))
    for name, data in vocabulary.to_files().items():
        writer.write_file(name, data)
    return Ledger(figures={**figures, "tokens": vocabulary.size})


def read_vocabulary(place: Place, manifest: Manifest) -> Vocabulary:
    """Read the vocabulary of an artifact from its files in the store.

    Raises:
        Damaged: If a file is missing, damaged or was changed.
    """
    return Vocabulary.from_files(read_files(place, manifest))
