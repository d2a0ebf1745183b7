"""Documents: read from files or lists, cleaned, judged, and freed of near-duplicates.

    docs = cloze.read("tickets", fields={"text": "body"})     the texts as the files have them
    docs = cloze.clean(docs)                                  repaired and normalized
    docs = cloze.judge(docs, language="de")                   without what fails a rule; docs.dropped counts the reasons
    docs = cloze.deduplicate(docs)                            without near-duplicates

Each call returns new documents and computes nothing: rows are made when they are first asked for, by the stages of a
run. These clean before they judge, in whatever order they are called, and what is judged is always cleaned.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cloze.inputs import DOCUMENT_COLUMNS, InputLocation, compute_group_begins, locate_input
from cloze.messages import translate_errors
from cloze.workspace import Tables, Workspace, to_toml_value
from corpora.build import REMOVED, Corpus
from corpora.errors import FileFault, InputError
from corpora.generic_types import Result
from corpora.judging.batches import STEP_TABLES
from corpora.schema import DOCUMENTS, DROPPED
from corpora.store.damage import Damaged
from corpora.store.ledger import Account
from corpora.store.manifest import Manifest
from corpora.store.places.address import is_object_address
from corpora.store.places.files import replace_file
from corpora.store.places.place import Place
from corpora.store.settings import check_keys, parse_toml
from corpora.store.stage import read_manifest_address, read_manifest_at
from corpora.store.tables import read_table
from corpora.views import CORPUS
from flows.command.dedup import build_similar_json
from flows.dedup.similar import find_similar
from flows.recipes.guessed_fields import with_guessed_names
from flows.recipes.lock import Lock, read_lock
from flows.recipes.privacy import to_one_line
from flows.recipes.recipe import choose_recipe_name
from flows.recipes.tables import join_key, resolve_path, to_toml
from flows.run.addresses import Artifact
from flows.run.faults.skipped_files import leave_out
from flows.run.inputs.folder_defaults import build_folder_recipe
from flows.run.pipeline import ParsedSources, make_corpora, make_documents
from trainer.complete_folders import explain_disk_errors

NO_JUDGING: Tables = {
    "language": {"keep": []},
    "rules": {rule.name: {"enabled": False} for rule in fields(STEP_TABLES["rules"])},
}
NO_CLEANING: Tables = {"clean": {"profile": "none"}}
NO_DEDUPLICATION: Tables = {"duplicates": {"enabled": False}}
JUDGING_TABLES = (*(name for name in STEP_TABLES if name != "clean"), "documents")
MAX_SHOWN_ROWS, MAX_SHOWN_CHARACTERS = 5, 160
ROWS_FILE = "rows"  # what the file of rows is called


@dataclass
class OpenedSource:
    """A source that was opened. All documents that are made from it share this object.

    Attributes:
        given: Location of the caller's input.
        tables: For a folder, the tables of the recipe that fits its texts. Otherwise empty.
        lock: The raw files. Files that turn out to be unreadable are removed from it.
    """

    given: InputLocation
    tables: Tables
    lock: Lock

    def select_fitted(self, *names: str) -> dict[str, Any]:
        """Select tables by name from those that were fitted to the texts of a folder.

        Returns a dict from the table's name, such as "rules", to its content. Tables that were not fitted are omitted.
        """
        return {name: self.tables[name] for name in names if name in self.tables}


class Documents:
    """A table of documents. It supports `len(docs)`, `docs[0]`, `docs["text"]` and `for row in docs`.

    Documents come from `cloze.read` and the functions that take documents. A row is a dictionary with `text`, `title`,
    `url`, `date`, `language`, `license`, `group`, `meta`, `quality`, `source`, and what identifies it: `id` (16 bytes),
    `revision` and `locator` (its position in the raw file). Rows of deduplicated documents also have `held_out`,
    `generation` and `since` (the generations of raw files of this revision, and of the first).
    """

    def __init__(self, workspace: Workspace, tables: Tables, opened: OpenedSource, form: str = "raw") -> None:
        """Create documents. This is only for functions of this package.

        Args:
            workspace: Workspace in which the documents are built.
            tables: Tables and keys of the recipe, by name.
            opened: The source.
            form: "raw", "documents" or "corpus"; or "stored" for documents that are in a store, as they are.
        """
        self._workspace, self._tables, self._opened, self._form = workspace, tables, opened, form
        usual = {**NO_JUDGING, **NO_DEDUPLICATION, **tables}
        with translate_errors(workspace.folder):
            self._recipe = workspace.build_recipe({**usual, **NO_CLEANING} if form in ("raw", "stored") else usual)

    def _with(self, form: str, name: str = "", /, progress: bool | None = None, **tables: Any) -> "Documents":
        """Return new documents with additional tables of the recipe. Nothing is computed.

        Args:
            form: "documents" or "corpus" (deduplicated). Documents that are already a corpus remain one.
            name: Name of the recipe. Empty keeps the current name.
            progress: Whether to show progress bars. None keeps the current choice.
            tables: Tables and keys of the recipe, by name. They replace those with the same name.

        Raises:
            InputError: If a table or key is not valid.
        """
        named = {"name": name} if name else {}
        form = "corpus" if self._form == "corpus" else form
        workspace = self._workspace.with_progress(progress)
        return Documents(workspace, {**self._tables, **named, **tables}, self._opened, form)

    def __len__(self) -> int:
        if self._is_corpus:
            return self._corpus.count_rows("documents") - self._corpus.count_rows("deleted")
        return sum(account.outcomes.get(kept, 0) for account, kept in self._list_accounts())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def __getitem__(self, at: int | slice | str) -> Any:
        """Return a row by its index, a list of rows by a slice, or the list of a column's values by its name.

        Raises:
            IndexError: If the index is out of range.
            KeyError: If there is no such column.
        """
        table = self.to_arrow()
        if isinstance(at, str):
            return table.column(at).to_pylist()
        if isinstance(at, slice):
            return table.take(pa.array(range(len(table))[at], pa.int64())).to_pylist()
        if not -len(table) <= at < len(table):
            raise IndexError(f"document {at} of {len(table)}")
        return table.slice(at % len(table), 1).to_pylist()[0]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these documents as Arrow record batches, in the order of the raw files.

        This needs only a few megabytes of memory. The columns are the keys of a row, such as "text". If a stored file
        is damaged, it is rebuilt, and reading continues.

        Raises:
            InputError: If the raw files cannot be read, or a damaged file cannot be rebuilt.
        """
        if self._form == "stored":  # what is damaged there is built again by its own recipe
            yield from self._iter_stored_batches()
            return
        num_read = 0
        while True:
            try:
                for batch in islice(self._iter_stored_batches(), num_read, None):
                    yield batch
                    num_read += 1
                return
            except Damaged as fault:
                self._workspace.distrust(fault)
                for made in ("_documents", "_corpus"):
                    self.__dict__.pop(made, None)

    def _iter_stored_batches(self) -> Iterator[pa.RecordBatch]:
        """Build the rows if they are missing from the store, and yield them as they are stored.

        Raises:
            Damaged: If a stored file is damaged.
        """
        if self._is_corpus:
            yield from Corpus(self._place, self._corpus).iter_batches()
        else:
            for manifest in self._documents:
                yield from read_table(self._place, manifest, "documents", DOCUMENTS.names)

    def to_arrow(self) -> pa.Table:
        """Return all rows of these documents as an Arrow table, which is cached for the lifetime of this object."""
        return self._table

    def to_pandas(self) -> Any:
        """Return all rows of these documents as a pandas DataFrame.

        Raises:
            ImportError: If pandas is not installed.
        """
        return self._table.to_pandas()

    def save(self, path: str | Path) -> None:
        """Write all rows of these documents to a file that `cloze.read` can read.

        Args:
            path: A file with the extension `.parquet`, or `.jsonl` for JSON lines. An existing file is replaced.

        Raises:
            InputError: If the file extension is neither `.parquet` nor `.jsonl`, or the file cannot be written.
        """
        write_rows(self.batches(), self._schema, Path(path))

    @property
    def dropped(self) -> dict[str, int]:
        """Number of records that did not become documents, by step and reason, most frequent first.

        The keys look like "rules: gopher.min_words". Reasons that dropped nothing are omitted.
        """
        counts = Counter[str]()
        for account, kept in self._list_accounts(all_of_them=True):
            counts.update({name: number for name, number in account.outcomes.items() if name != kept and number})
        return {name.removeprefix("dropped: ").removeprefix("removed: "): n for name, n in counts.most_common()}

    def dropped_rows(self) -> pa.Table:
        """Return an Arrow table with a row for each record that did not become a document.

        Its columns include `locator` (the position in the raw file), `title`, `excerpt`, `step`, `reason` and `detail`.
        If these documents were deduplicated, the removed duplicates are included, and their `survivor` is the id of the
        document that was kept.
        """
        tables: list[pa.Table] = []
        place = self._place
        batches = [b for manifest in self._documents for b in read_table(place, manifest, "dropped", DROPPED.names)]
        if self._is_corpus:
            tables = [pa.Table.from_batches(Corpus(place, self._corpus).iter_removed(), REMOVED)]
        dropped = pa.Table.from_batches(batches, DROPPED)
        return pa.concat_tables([dropped, *tables], promote_options="default")

    def __repr__(self) -> str:
        return f"Documents({self._recipe.name!r}, {len(self):,} rows, {sum(self.dropped.values()):,} dropped)"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the number of documents, the first rows, and the number of drops by reason."""
        rows = "".join(
            f"<tr><td>{escape(to_one_line(row['title'] or '', MAX_SHOWN_CHARACTERS))}</td>"
            f"<td>{escape(to_one_line(row['text'], MAX_SHOWN_CHARACTERS))}</td></tr>"
            for row in islice(self, MAX_SHOWN_ROWS)
        )
        reasons = "".join(
            f"<li>{escape(to_one_line(name, MAX_SHOWN_CHARACTERS))}: {n:,}</li>" for name, n in self.dropped.items()
        )
        head = "<tr><th>title</th><th>text</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table><ul>{reasons}</ul>"

    @cached_property
    def _table(self) -> pa.Table:
        """Cached result of `to_arrow`, built at the first access."""
        return pa.Table.from_batches(self.batches(), self._schema)

    @property
    def _schema(self) -> pa.Schema:
        """Arrow schema of the rows. Deduplicated documents have additional columns, such as `held_out`."""
        return CORPUS if self._is_corpus else DOCUMENTS

    @property
    def _stored(self) -> Artifact | None:
        """The corpus or documents in a store that these documents are, or None if they are built."""
        return self._opened.given.stored if self._form == "stored" else None

    @property
    def _is_corpus(self) -> bool:
        """True if these documents are deduplicated."""
        return self._stored.manifest.kind == "corpora" if self._stored is not None else self._form == "corpus"

    @property
    def _place(self) -> Place:
        """The store that has these documents."""
        return self._stored.place if self._stored is not None else self._workspace.place

    def _to_form_of(self, given: Any, made: "Documents") -> Any:
        """Convert the result of a step to the type of its input.

        Args:
            given: The input that the caller passed to the step.
            made: The documents that the step made.

        Returns:
            If `given` is a `datasets.Dataset`, a Dataset of the remaining rows, with their new texts. Otherwise `made`.

        Raises:
            InputError: If the texts are not in a column of the Dataset.
        """
        if given is self or self._opened.given.dataset is None:
            return made
        return made._as_dataset(given)

    def _as_dataset(self, dataset: Any) -> Any:
        """Return the rows of a `datasets.Dataset` that are still in these documents, with the texts of the documents.

        Args:
            dataset: The Dataset from which these documents were read.

        Raises:
            InputError: If the texts are not in a column of the Dataset.
        """
        rows = self.to_arrow().select(["locator", "text"]).to_pylist()
        if not rows:
            return dataset.select([])
        begins = compute_group_begins(Path(self._opened.given.path))
        numbers = [begins[row["locator"]["stream"]] + row["locator"]["offset"] for row in rows]
        [entry] = self._recipe.sources
        names = with_guessed_names(entry.source, self._opened.lock.guessed, 1).settings().get("fields", {})["text"]
        found = [each for each in ([names] if isinstance(names, str) else names) if each in dataset.column_names]
        if not found:
            raise InputError(
                f"docs: the texts of this Dataset are not in a column of it, but in {names}: read it first."
            )
        table = dataset.select(numbers).with_format("arrow")[:]
        at = table.schema.get_field_index(found[0])
        texts = pa.array([row["text"] for row in rows], pa.string()).cast(table.schema.field(at).type)
        return type(dataset)(table.set_column(at, table.schema.field(at), texts), split=dataset.split)

    def _retry_without_bad_files(self, work: Callable[[], Result]) -> Result:
        """Call `work` and return its result. If raw files cannot be read, call it again without these files.

        Raises:
            InputError: If a file cannot be read and its source must be complete (`on_damage="stop"`), or no file is
                left.
        """
        opened, tell = self._opened, self._workspace.tell
        with translate_errors(self._workspace.folder):
            while True:
                try:
                    return self._workspace.repair_and_retry(work)
                except FileFault as fault:
                    opened.lock = leave_out(self._recipe, opened.lock, [fault], tell)

    def _make_documents(self) -> ParsedSources:
        """Build the documents without deduplication, or reuse them from the store.

        Raises:
            FileFault: If a raw file cannot be read.
        """
        workspace = self._workspace
        return make_documents(workspace.place, self._recipe, self._opened.lock, workspace.perform)

    def _make_corpus(self) -> Manifest:
        """Build the deduplicated corpus, or reuse it from the store, and return its manifest (stored description).

        Raises:
            FileFault: If a raw file cannot be read.
        """
        workspace, parsed = self._workspace, self._make_documents()
        corpora = make_corpora(workspace.place, self._recipe, self._opened.lock, parsed, workspace.perform)
        return [corpus for _, corpus in corpora][-1]

    @cached_property
    def _documents(self) -> Sequence[Manifest]:
        """Manifests (stored descriptions) of the documents before deduplication, built at the first access."""
        if self._stored is not None:
            return list_documents(self._stored)
        return self._retry_without_bad_files(self._make_documents).documents

    @cached_property
    def _corpus(self) -> Manifest:
        """Manifest (stored description) of the deduplicated corpus, built at the first access."""
        if self._stored is not None:
            return self._stored.manifest
        return self._retry_without_bad_files(self._make_corpus)

    def _list_accounts(self, all_of_them: bool = False) -> list[tuple[Account, str]]:
        """List (account, outcome) pairs. An account counts the records of a step by outcome. `outcome` names the kept
        records.

        Args:
            all_of_them: If True, deduplicated documents also list the counts of the steps before the deduplication.
        """
        documents = [(manifest.ledger.find_account("records"), "documents") for manifest in self._documents]
        if not self._is_corpus:
            return documents
        corpus = [(self._corpus.ledger.find_account("documents"), "kept")]
        return [*documents, *corpus] if all_of_them else corpus


def list_documents(artifact: Artifact) -> list[Manifest]:
    """List the manifests (stored descriptions) of the documents of a stored corpus, or of stored documents themselves.

    Raises:
        Damaged: If documents of the corpus are missing.
    """
    if artifact.manifest.kind != "corpora":
        return [artifact.manifest]
    folders = [parent.folder for parent in artifact.manifest.parents if parent.role == "documents"]
    return [read_manifest_at(artifact.place, read_manifest_address(artifact.place, folder)) for folder in folders]


def write_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    """Write record batches to a Parquet or JSON-lines file.

    An existing file is replaced only when the new one is complete.

    Args:
        batches: The rows.
        schema: Schema of the rows.
        path: A file with the extension `.parquet` or `.jsonl`. In JSON, ids are hexadecimal.

    Raises:
        InputError: If the file extension is neither `.parquet` nor `.jsonl`, or the file cannot be written.
    """
    if path.suffix not in (".parquet", ".jsonl"):
        raise InputError(f"{path}: name a file that ends in .parquet or .jsonl.")
    with explain_disk_errors(path), replace_file(path) as new:
        if path.suffix == ".parquet":
            with pq.ParquetWriter(new, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            return
        with new.open("w", encoding="utf-8") as file:
            for batch in batches:
                rows = ({**row, "id": row["id"].hex()} for row in batch.to_pylist())
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read(
    source: Any,
    *,
    kind: str = "files",
    name: str | None = None,
    store: str | Path | None = None,
    workers: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Documents:
    """Read texts from files, a dump, an object store, a table or a list.

    Nothing is parsed yet: each file is only read once to compute its digest. Records that cannot be parsed are counted
    in `dropped`.

    Text files are read the way `cloze run --source` reads them: columns and encodings are guessed, and files that
    cannot be read are skipped unless `on_damage="stop"`. If that command has already been run on the store, the files
    and settings in its lock file are used.

    Args:
        source: A file, a folder or a glob, or `s3://bucket/prefix`; a list of texts or dictionaries; a table
            (DataFrame, Arrow, `datasets.Dataset`, or a dictionary of columns); or a store, of which the newest corpus
            is read: its rows as they are, with their ids, sources and locators, and what it dropped. `clean`, `judge`
            and `deduplicate` read their texts as a new source, and give them other ids.
        kind: Kind of the source, as in a recipe: "files" (text, JSON lines, CSV, Parquet, HTML, EPUB, WARC, ...),
            "wikipedia", "cc-news", "bookcorpus", "xml", ... (see docs/reference.md).
        name: Name of the source and of what is made from it (default: the name of the file or folder).
        store: A folder or `s3://bucket/prefix` in which results are stored and reused. By default a temporary folder,
            which is deleted with the last object that uses it.
        workers: Number of processes. With more than one, the program must make the call below `if __name__ ==
            "__main__":`.
        progress: Whether to show progress bars.
        settings: Keys of the source's table in a recipe: `fields`, `encoding`, `on_damage`, ...

    Returns:
        The documents. Their rows are computed when they are first needed.

    Raises:
        InputError: If there is nothing to read, or a setting is unknown.

    >>> docs = read(["A first text.", "A second one."], progress=False)
    >>> len(docs), docs[0]["text"], docs.dropped
    (2, 'A first text.', {})
    """
    return _open_source(source, "source", Workspace(store, workers, progress), kind, name, settings)


def _open_source(
    source: Any, argument: str, workspace: Workspace, kind: str, name: str | None, settings: Tables
) -> Documents:
    """Open the caller's input as documents. Nothing is parsed yet.

    Args:
        source: Anything that `read` accepts.
        argument: Name of the input in error messages.
        workspace: Workspace in which the documents are built.
        kind: Kind of the source, such as "files".
        name: Name of the source and of what is made from it. If None, the name of the file or folder.
        settings: Keys of the source's table in a recipe.

    Raises:
        InputError: If the input cannot be read, or a setting is unknown.
    """
    with translate_errors(workspace.folder):
        given = locate_input(source, argument, workspace.folder, ROWS_FILE)
        if kind == "files" and not given.is_written:
            return _open_files(given, name, workspace, settings)
        form = "stored" if given.stored is not None and not settings else "raw"
        if given.has_only_texts:
            settings = {"fields": {"text": "text"}, **settings}
        if given.is_documents:
            settings = {"fields": {**{name: name for name in DOCUMENT_COLUMNS}, "key": "id"}, **settings}
        name = name or ("texts" if given.is_written else choose_recipe_name(Path(given.path)))
        tables = {"name": name, "source": [{"kind": kind, "name": name, "path": given.path, **settings}]}
        recipe = workspace.build_recipe(tables)
        return Documents(workspace, tables, OpenedSource(given, {}, workspace.resolve_lock(recipe, Lock())), form)


def _open_files(given: InputLocation, name: str | None, workspace: Workspace, settings: Tables) -> Documents:
    """Open text files that the caller named by their path, with settings guessed as by `cloze run --source`.

    Args:
        given: The path.
        name: Name of the source and of the recipe. If None, the name of the file or folder.
        workspace: Workspace in which the documents are built.
        settings: Keys of the source's table in a recipe, which override what is guessed.

    Raises:
        InputError: If nothing can be read, or a setting is unknown.
    """
    path = given.path
    if not is_object_address(path):
        path = resolve_path(str(Path(path).expanduser()) if path[:1] == "~" else path, Path.cwd() / "recipe.toml")
    overrides = {join_key(["source", key]): to_toml(to_toml_value(value)) for key, value in settings.items()}
    if name is not None:
        overrides |= {key: to_toml(name) for key in ("name", "source.name")}
    recipe = build_folder_recipe(path, workspace.recipes, overrides)
    tables = parse_toml(recipe.text)
    lock = workspace.resolve_lock(recipe, read_lock(recipe.lock_path))
    kept = {key: tables[key] for key in ("name", "source", "documents")}
    return Documents(workspace, kept, OpenedSource(given, tables, lock))


def to_documents(docs: Any, progress: bool | None = None) -> Documents:
    """Convert anything that `read` accepts to documents. Documents are returned unchanged.

    Args:
        docs: Documents, or texts, rows, a table or files. These are read into a temporary store.
        progress: Whether such a store shows progress bars. None means True.

    Raises:
        InputError: If `docs` is none of these.
    """
    if isinstance(docs, Documents):
        return docs
    return _open_source(docs, "docs", Workspace(progress=progress is not False), "files", None, {})


def clean(docs: Any, *, progress: bool | None = None, **settings: Any) -> Documents:
    r"""Repair and normalize texts: mojibake, HTML entities, control characters, white space, and Unicode NFC.

    Args:
        docs: Documents, or anything that `read` accepts. If it is a `datasets.Dataset`, the result is a Dataset too,
            and all columns are kept.
        progress: Whether to show progress bars (default: the setting of `docs`).
        settings: Keys of a recipe's table `[clean]`: `profile` ("cased", "uncased", "roberta-brief"), `quotes`,
            `widths`.

    Raises:
        InputError: If a setting is unknown.

    >>> clean(["It doesn\u00e2\u20ac\u2122t   matter. "], quotes="straight")["text"]
    ["It doesn't matter."]
    """
    given = to_documents(docs, progress)
    made: Documents = given._to_form_of(docs, given._with("documents", progress=progress, clean=settings))
    return made


def judge(
    docs: Any,
    *,
    rules: Mapping[str, Any] | None = None,
    language: str | Sequence[str] | Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **tables: Mapping[str, Any],
) -> Documents:
    """Drop documents that are not in the wanted languages or fail a quality rule. `dropped` counts them by reason.

    Unlike a run, this does not stop if a rule drops many documents, so look at `dropped`.

    Args:
        docs: Documents, or anything that `read` accepts. For a `datasets.Dataset`, a Dataset is returned.
        rules: The recipe's `[rules]` table: `{"gopher": {"min_words": 20}, "c4": {"enabled": False}}`. By default the
            rules for web pages, but for files the rules that fit a sample of their texts, as in `cloze run --source`.
        language: The language to keep, as a code ("de"), a list of codes, or the table `[language]` of a recipe. `[]`
            keeps all languages. By default English, but for files a choice that fits the same sample.
        progress: Whether to show progress bars (default: the setting of `docs`).
        tables: Additional tables of a recipe: `lines`, `repeated_lines`, `personal_data`, `contamination`, `selection`,
            `documents`.

    Raises:
        InputError: If a table or key is unknown.

    >>> docs = judge(["Too short to say much."], language=[])
    >>> len(docs), docs.dropped
    (0, {'rules: gopher.min_words': 1})
    """
    check_keys(tables, JUDGING_TABLES, "judge")
    kept = [language] if isinstance(language, str) else language
    languages = {"language": kept if isinstance(kept, Mapping) else {"keep": [*kept]}} if kept is not None else {}
    given = to_documents(docs, progress)
    fitted = {"rules": {}, "language": {}, **given._opened.select_fitted("rules", "language", "documents")}
    asked = {**fitted, **languages, **({} if rules is None else {"rules": rules}), **tables}
    made: Documents = given._to_form_of(docs, given._with("documents", progress=progress, **asked))
    return made


def deduplicate(
    docs: Any,
    *,
    name: str = "",
    held_out: float | None = None,
    seed: int = 42,
    progress: bool | None = None,
    **settings: Any,
) -> Documents:
    """Remove exact and near duplicates. One document of each group of duplicates is kept.

    It is chosen by source priority, then quality, then id.

    Args:
        docs: Documents, or anything that `read` accepts. For a `datasets.Dataset`, a Dataset is returned.
        name: Name of the corpus (default: the name of the source).
        held_out: Fraction of the documents to hold out for evaluation, chosen by a hash of their group or id (default:
            0.01).
        seed: Seed of that hash.
        progress: Whether to show progress bars (default: the setting of `docs`).
        settings: Keys of the table `[duplicates]`: `threshold` (default: 0.8), `shingle_words`, `enabled`, ...

    Raises:
        InputError: If a setting is unknown.

    >>> text = "The ferry to the island leaves at nine, and comes back in the evening when the tide allows it."
    >>> len(deduplicate([text, text, "Something else, said once."]))
    2
    """
    share = {} if held_out is None else {"share": held_out}
    given = to_documents(docs, progress)
    asked = {
        "duplicates": {},
        **given._opened.select_fitted("duplicates"),
        **({"duplicates": settings} if settings else {}),
    }
    corpus = given._with("corpus", name, progress=progress, **asked, held_out=share, seed=seed)
    made: Documents = given._to_form_of(docs, corpus)
    return made


def similar(corpus: Any, text: str, *, threshold: float = 0.8) -> list[dict[str, Any]]:
    """Find the documents of a corpus that are similar to a text.

    Args:
        corpus: Deduplicated documents, or the address of a corpus, a store or a release (STORE@NAME).
        text: The text.
        threshold: Minimum similarity, from 0 to 1. The similarity of two texts is the fraction of their shingles (runs
            of words) that they have in common.

    Returns:
        One dictionary per document, most similar first, with `id` (hexadecimal), `source`, `title`, `place` (in the raw
        file), `similarity`, `missing` (the fraction of the text's shingles that the document lacks), `is_exact` and
        `excerpt`. Empty if there is none.

    Raises:
        InputError: If there is no corpus or more than one, or the threshold is out of range.
    """
    if isinstance(corpus, Documents) and corpus._is_corpus:
        address = corpus._place.to_address(corpus._corpus.folder)
    elif isinstance(corpus, str | Path):
        address = str(corpus)
    else:
        raise InputError("corpus: give what cloze.deduplicate returns, or the address of a corpus in a store.")
    return [build_similar_json(each) for each in find_similar(address, text, threshold)]
