"""The words of a domain: of files as they are, or of a corpus that the store holds, counted source by source.

Promise: e-mail addresses, public IP addresses and telephone numbers, as far as the step of personal data finds them,
are removed before anything is counted, so no part of these is a word. Of a store's corpus the live documents that are
not held out are counted, as for training a vocabulary. Records that cannot be read are counted as such.

Cost: that of reading the files and of `count_by`; memory for some 8 MB of text and for the distinct words.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.judging.steps.privacy import PersonalDataSettings, mask_private
from corpora.sources.bytes.unchanged import states_of, unchanged
from corpora.sources.contract import RawFile, Tally, split_glob
from corpora.sources.files.source import FilesSource
from corpora.store.places.place import Place
from flows.recipes.store_folders import refuse_store
from flows.run.record.releases import release_address
from flows.run.store_address import find_artifacts, newest, split_address
from tokenizers_train.adapting.adapt import known_rule
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_by, merge_counts
from tokenizers_train.words.table import WordCounts

CORPORA = "corpora"
BATCH_CHARACTERS = 8_000_000
MOST_TABLES = 32  # of counts that wait to be merged
OUT = PersonalDataSettings(
    email=True, ip=True, phone=True, email_replacement="", ip_replacement="", phone_replacement=""
)

Texts = Iterable[tuple[str, pa.Array]]  # of a source of this name


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCounts:
    """The word counts of each source by its name."""

    sources: dict[str, WordCounts]

    @property
    def together(self) -> WordCounts:
        """The counts of all sources."""
        return merge_counts([*self.sources.values()])


def count_domain(addresses: Sequence[str], vocabulary: Vocabulary, store: str, text: str, tell: Tell) -> DomainCounts:
    """Count the words of files, folders or globs, and of corpora of a store (by name, or as STORE/corpora/NAME).

    vocabulary: its rule defines the words
    text:       the field or column of JSON lines and tables that holds the text
    tell:       called with a line for each address
    Raises InputError where an address cannot be read, where no text has a word, and where nobody knows the
    vocabulary's rule for words.
    """
    rule = known_rule(vocabulary)
    parts: dict[str, list[WordCounts]] = {}
    texts, unread = 0, Counter[str]()
    for address in addresses:
        before, unread_before = texts, unread["records"]
        for name, column in _texts(address, store, text, unread):
            waiting = parts.setdefault(name, [])
            waiting.append(count_by(rule, mask_private(column, OUT)[0]))
            texts += len(column)
            if len(waiting) >= MOST_TABLES:
                parts[name] = [merge_counts(waiting)]
        number = unread["records"] - unread_before
        tell(f"{address}: {texts - before:,} texts{f', {number:,} that cannot be read' if number else ''}")
    sources = {name: merge_counts(tables) for name, tables in parts.items()}
    if not any(counts.num_rows for counts in sources.values()):
        raise InputError(
            f"No text of {', '.join(addresses)} holds a word. Give files with text; of JSON lines and tables --text "
            "names the field that holds it."
        )
    return DomainCounts(sources=sources)


def _texts(address: str, store: str, text: str, unread: Counter[str]) -> Texts:
    """Return the texts at an address, in columns of some megabytes, each with the name of its source."""
    if (
        "://" in address
        or release_address(address) is not None
        or (Path(address).exists() and split_address(address)[1].split("/")[0] == CORPORA)
    ):
        return _of_corpus(address)
    if Path(address).exists() or has_magic(address):
        return _of_files(address, text, unread)
    if address not in {path.split("/")[1] for path in Place(store).sizes(CORPORA)}:
        raise InputError(
            f"--corpus {address}: there is no such file or folder, and no corpus of that name in the store {store!r} "
            "(--store names another store). Give files, a folder, or a corpus that `cloze run` has built."
        )
    return _of_corpus(Place(store).at(f"{CORPORA}/{address}"))


def _of_corpus(address: str) -> Texts:
    artifact = newest(find_artifacts(address, CORPORA))
    for batch in Corpus(artifact.place, artifact.manifest).batches():
        train = batch.filter(pc.invert(batch.column("held_out")))
        names = train.column("source")
        for name in pc.unique(names).to_pylist():
            yield name, train.filter(pc.equal(names, name)).column("text")


def _of_files(address: str, text: str, unread: Counter[str]) -> Texts:
    refuse_store(split_glob(address)[0])
    name = address if has_magic(address) else Path(address).resolve().name
    source = FilesSource(name=name, path=address, fields={"text": text}, encoding="auto")
    waiting: list[str] = []
    size = 0
    for record_text in _records(source, unread):
        waiting.append(record_text)
        size += len(record_text)
        if size >= BATCH_CHARACTERS:
            yield source.name, pa.array(waiting, pa.large_string())
            waiting, size = [], 0
    yield source.name, pa.array(waiting, pa.large_string())


def _records(source: FilesSource, unread: Counter[str]) -> Iterator[str]:
    """Yield the texts of the records that can be read. The files are not hashed for it."""
    for name, path in source.files():
        with unchanged(states_of([str(path)])):
            file = RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path))
            for piece in source.slices(file):
                for record in source.records(piece, Tally()):
                    unread["records"] += record.drop is not None
                    if record.drop is None:
                        yield record.text
