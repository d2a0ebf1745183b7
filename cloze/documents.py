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

from cloze.inputs import DOCUMENT_COLUMNS, InputData, map_group_starts, resolve_input
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
from corpora.store.settings import check_keys, parse_toml
from corpora.store.tables import read_table
from corpora.views import CORPUS
from flows.command.dedup import build_similar_json
from flows.dedup.similar import find_similar
from flows.recipes.guessed_fields import with_guessed_names
from flows.recipes.lock import Lock, read_lock
from flows.recipes.privacy import to_one_line
from flows.recipes.recipe import choose_recipe_name
from flows.recipes.tables import join_key, resolve_path, to_toml
from flows.run.faults.skipped_files import leave_out
from flows.run.inputs.folder_defaults import build_folder_recipe
from flows.run.pipeline import ParsedSources, make_corpora, make_documents
from trainer.complete_folders import explain_disk_errors

WITHOUT_JUDGING: Tables = {
    "language": {"keep": []},
    "rules": {rule.name: {"enabled": False} for rule in fields(STEP_TABLES["rules"])},
}
WITHOUT_CLEANING: Tables = {"clean": {"profile": "none"}}
WITHOUT_DUPLICATES: Tables = {"duplicates": {"enabled": False}}
JUDGE_TABLES = (*(name for name in STEP_TABLES if name != "clean"), "documents")
SHOWN_ROWS, SHOWN_CHARACTERS = 5, 160
ROWS_NAME = "rows"  # what the file of rows is called


@dataclass
class OpenedSource:
    """What documents were read from; all documents that are made of them share it.

    Attributes:
        given: The input as a path that can be read.
        tables: The recipe tables that were fitted to the texts of files; {} for other inputs.
        lock: The raw files. Files that cannot be read are left out of it when they are met.
    """

    given: InputData
    tables: Tables
    lock: Lock

    def get_fitted(self, *names: str) -> dict[str, Any]:
        """Return those of the named tables that were fitted to the texts."""
        return {name: self.tables[name] for name in names if name in self.tables}


class Documents:
    """Documents as a table: `len(docs)`, `docs[0]`, `docs["text"]`, `for row in docs`. `cloze.read` makes them.

    A row is a dictionary with `text`, `title`, `url`, `date`, `language`, `license`, `group`, `meta`, `quality`,
    `source`, and what identifies it: `id` (16 bytes), `revision` and `locator`, the place in its raw file. Deduplicated
    documents have `held_out`, too.
    """

    def __init__(self, workspace: Workspace, tables: Tables, opened: OpenedSource, form: str = "raw") -> None:
        """Make documents; for the functions of this package.

        Args:
            workspace: Where their stages are built.
            tables: The tables of their recipe.
            opened: What they were read from.
            form: "raw" (as read), "documents" (cleaned or judged) or "corpus" (deduplicated).
        """
        self._workspace, self._tables, self._opened, self._form = workspace, tables, opened, form
        usual = {**WITHOUT_JUDGING, **WITHOUT_DUPLICATES, **tables}
        with translate_errors(workspace.folder):
            self._recipe = workspace.build_recipe({**usual, **WITHOUT_CLEANING} if form == "raw" else usual)

    def _with(self, form: str, name: str = "", /, progress: bool | None = None, **tables: Any) -> "Documents":
        """Return documents of the same source with further tables in their recipe."""
        named = {"name": name} if name else {}
        form = "corpus" if self._form == "corpus" else form
        workspace = self._workspace.with_progress(progress)
        return Documents(workspace, {**self._tables, **named, **tables}, self._opened, form)

    def __len__(self) -> int:
        return sum(account.outcomes.get(kept, 0) for account, kept in self._list_accounts())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def __getitem__(self, at: int | slice | str) -> Any:
        """Return a row by its number, rows as a list, or a column by its name. Raises IndexError or KeyError."""
        table = self.to_arrow()
        if isinstance(at, str):
            return table.column(at).to_pylist()
        if isinstance(at, slice):
            return table.take(pa.array(range(len(table))[at], pa.int64())).to_pylist()
        if not -len(table) <= at < len(table):
            raise IndexError(f"document {at} of {len(table)}")
        return table.slice(at % len(table), 1).to_pylist()[0]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches, in the order of the raw files: a few megabytes of memory at a time."""
        num_read = 0
        while True:
            try:
                for batch in islice(self._iter_stored_batches(), num_read, None):
                    yield batch
                    num_read += 1
                return
            except Damaged as fault:
                self._workspace.mark_damaged(fault)
                for made in ("_documents", "_corpus"):
                    self.__dict__.pop(made, None)

    def _iter_stored_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the stored record batches. Raises Damaged at the first that is not as it was written."""
        if self._form == "corpus":
            yield from Corpus(self._workspace.place, self._corpus).iter_batches()
        else:
            for manifest in self._documents:
                yield from read_table(self._workspace.place, manifest, "documents", DOCUMENTS.names)

    def to_arrow(self) -> pa.Table:
        """Return all rows as a table of Arrow, which is kept."""
        return self._table

    def to_pandas(self) -> Any:
        """Return all rows as a frame of pandas. Raises ImportError if pandas is not installed."""
        return self._table.to_pandas()

    def save(self, path: str | Path) -> None:
        """Write all rows into a file, which `cloze.read` reads: `.parquet`, or lines of JSON (`.jsonl`).

        Raises InputError for another ending, or a folder that cannot be written.
        """
        write_rows(self.batches(), self._schema, Path(path))

    @property
    def dropped(self) -> dict[str, int]:
        """The number of records that were dropped so far, by step and reason, the most frequent first."""
        counts = Counter[str]()
        for account, kept in self._list_accounts(all_of_them=True):
            counts.update({name: number for name, number in account.outcomes.items() if name != kept and number})
        return {name.removeprefix("dropped: ").removeprefix("removed: "): n for name, n in counts.most_common()}

    def dropped_rows(self) -> pa.Table:
        """Return what was dropped: its place, title and beginning, step, reason, detail; of copies the survivor."""
        tables: list[pa.Table] = []
        place = self._workspace.place
        batches = [b for manifest in self._documents for b in read_table(place, manifest, "dropped", DROPPED.names)]
        if self._form == "corpus":
            tables = [pa.Table.from_batches(Corpus(place, self._corpus).iter_removed(), REMOVED)]
        dropped = pa.Table.from_batches(batches, DROPPED)
        return pa.concat_tables([dropped, *tables], promote_options="default")

    def __repr__(self) -> str:
        return f"Documents({self._recipe.name!r}, {len(self):,} rows, {sum(self.dropped.values()):,} dropped)"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how many there are, the first of them, and why others were dropped."""
        rows = "".join(
            f"<tr><td>{escape(to_one_line(row['title'] or '', SHOWN_CHARACTERS))}</td>"
            f"<td>{escape(to_one_line(row['text'], SHOWN_CHARACTERS))}</td></tr>"
            for row in islice(self, SHOWN_ROWS)
        )
        reasons = "".join(
            f"<li>{escape(to_one_line(name, SHOWN_CHARACTERS))}: {n:,}</li>" for name, n in self.dropped.items()
        )
        head = "<tr><th>title</th><th>text</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table><ul>{reasons}</ul>"

    @cached_property
    def _table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self._schema)

    @property
    def _schema(self) -> pa.Schema:
        return CORPUS if self._form == "corpus" else DOCUMENTS

    def _match_input(self, given: Any, made: "Documents") -> Any:
        """Return `made`; if `given` was a `datasets.Dataset`, its remaining rows with the new texts."""
        if given is self or self._opened.given.dataset is None:
            return made
        return made._as_dataset(given)

    def _as_dataset(self, dataset: Any) -> Any:
        """Return the rows of a `datasets.Dataset` that are documents, with their texts.

        Raises InputError if the texts are not in a column of it.
        """
        rows = self.to_arrow().select(["locator", "text"]).to_pylist()
        if not rows:
            return dataset.select([])
        begins = map_group_starts(Path(self._opened.given.path))
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

    def _run_past_faults(self, work: Callable[[], Result]) -> Result:
        """Run a function that builds stages; raw files that cannot be read are left out, and it is run again.

        Raises InputError if the source does not allow that, or for what else the user can fix.
        """
        opened, tell = self._opened, self._workspace.tell
        with translate_errors(self._workspace.folder):
            while True:
                try:
                    return self._workspace.run_past_damage(work)
                except FileFault as fault:
                    opened.lock = leave_out(self._recipe, opened.lock, [fault], tell)

    def _make_documents(self) -> ParsedSources:
        """Build the documents stages of the recipe."""
        workspace = self._workspace
        return make_documents(workspace.place, self._recipe, self._opened.lock, workspace.perform)

    def _make_corpus(self) -> Manifest:
        """Build the corpus of the recipe, and return its newest manifest."""
        workspace, parsed = self._workspace, self._make_documents()
        corpora = make_corpora(workspace.place, self._recipe, self._opened.lock, parsed, workspace.perform)
        return [corpus for _, corpus in corpora][-1]

    @cached_property
    def _documents(self) -> Sequence[Manifest]:
        return self._run_past_faults(self._make_documents).documents

    @cached_property
    def _corpus(self) -> Manifest:
        return self._run_past_faults(self._make_corpus)

    def _list_accounts(self, all_of_them: bool = False) -> list[tuple[Account, str]]:
        """List the accounts of the records, each with the name of the outcome that counts the rows.

        Args:
            all_of_them: True for those of all stages; otherwise only those of the last stage.
        """
        documents = [(manifest.ledger.find_account("records"), "documents") for manifest in self._documents]
        if self._form != "corpus":
            return documents
        corpus = [(self._corpus.ledger.find_account("documents"), "kept")]
        return [*documents, *corpus] if all_of_them else corpus


def write_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    """Write rows to a file, which appears when it is complete.

    Args:
        batches: The rows.
        schema: Their schema.
        path: The file; it must end in .parquet or .jsonl.

    Raises:
        InputError: If it ends otherwise, or cannot be written.
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
    """Read a source: files of text, a dump, an object store, a table, or texts or records.

    source:   a file, a folder or a glob, or `s3://bucket/prefix`; texts or dictionaries; a table (DataFrame, Arrow,
              `datasets.Dataset`, a dictionary of columns); or a store: then its newest corpus is read
    kind:     of the source, as in a recipe: "files" (text, JSON lines, CSV, Parquet, HTML, EPUB, WARC, ...),
              "wikipedia", "cc-news", "bookcorpus", "xml", ...
    name:     of the source and of what is made of it; default: that of the file or folder
    store:    the store for what is made, which is reused: a folder or `s3://bucket/prefix`; default: a temporary
              folder, which is removed with the last object that uses it
    workers:  processes; above one a program must call below `if __name__ == "__main__":`
    progress: whether bars are shown
    settings: keys of the source's table in a recipe: `fields`, `encoding`, `on_damage`, ...

    Files of text are read as `cloze run --source` reads them: with the same guesses, and without those that cannot be
    read, unless `on_damage="stop"`. Of a store in which that ran they have the generations and settings of its lock.
    Files are read once for their digests; their records when rows are asked for. What cannot be read is dropped, and
    counted in `dropped`. Raises InputError: nothing to read, or an unknown setting.

    >>> docs = read(["A first text.", "A second one."], progress=False)
    >>> len(docs), docs[0]["text"], docs.dropped
    (2, 'A first text.', {})
    """
    return _open_source(source, "source", Workspace(store, workers, progress), kind, name, settings)


def _open_source(
    source: Any, argument: str, workspace: Workspace, kind: str, name: str | None, settings: Tables
) -> Documents:
    """Open the input of a function.

    Args:
        source: What the caller gave.
        argument: The name of the argument in messages.
        workspace: Where it is written, and where stages are built.
        kind: The kind of source, as in a recipe.
        name: The name of the source; None for that of the file or folder.
        settings: Further keys of the source's table.

    Raises:
        InputError: If it cannot be read, or a setting is unknown.
    """
    with translate_errors(workspace.folder):
        given = resolve_input(source, argument, workspace.folder, ROWS_NAME)
        if kind == "files" and not given.written:
            return _open_files(given, name, workspace, settings)
        if given.texts:
            settings = {"fields": {"text": "text"}, **settings}
        if given.documents:
            settings = {"fields": {**{name: name for name in DOCUMENT_COLUMNS}, "key": "id"}, **settings}
        name = name or ("texts" if given.written else choose_recipe_name(Path(given.path)))
        tables = {"name": name, "source": [{"kind": kind, "name": name, "path": given.path, **settings}]}
        recipe = workspace.build_recipe(tables)
        return Documents(workspace, tables, OpenedSource(given, {}, workspace.resolve_files(recipe, Lock())))


def _open_files(given: InputData, name: str | None, workspace: Workspace, settings: Tables) -> Documents:
    """Open files of text as `cloze run --source` does, with its guesses. Raises InputError if there are none."""
    path = given.path
    if not is_object_address(path):
        path = resolve_path(str(Path(path).expanduser()) if path[:1] == "~" else path, Path.cwd() / "recipe.toml")
    overrides = {join_key(["source", key]): to_toml(to_toml_value(value)) for key, value in settings.items()}
    if name is not None:
        overrides |= {key: to_toml(name) for key in ("name", "source.name")}
    recipe = build_folder_recipe(path, workspace.recipe_folder, overrides)
    tables = parse_toml(recipe.text)
    lock = workspace.resolve_files(recipe, read_lock(recipe.lock_path))
    kept = {key: tables[key] for key in ("name", "source", "documents")}
    return Documents(workspace, kept, OpenedSource(given, tables, lock))


def to_documents(docs: Any, progress: bool | None = None) -> Documents:
    """Return `docs` if they are documents; otherwise read them. Raises InputError if they cannot be read."""
    if isinstance(docs, Documents):
        return docs
    return _open_source(docs, "docs", Workspace(progress=progress is not False), "files", None, {})


def clean(docs: Any, *, progress: bool | None = None, **settings: Any) -> Documents:
    r"""Repair texts and normalize them: mojibake, HTML entities, control characters, white space, Unicode NFC.

    docs:     documents, or what `read` takes; of a `datasets.Dataset` such a one comes back, with all its columns
    progress: whether bars are shown; default: as for the documents
    settings: keys of a recipe's table `[clean]`: `profile` ("cased", "uncased", "roberta-brief"), `quotes`, `widths`

    Raises InputError for an unknown setting.

    >>> clean(["It doesn\u00e2\u20ac\u2122t   matter. "], quotes="straight")["text"]
    ["It doesn't matter."]
    """
    given = to_documents(docs, progress)
    made: Documents = given._match_input(docs, given._with("documents", progress=progress, clean=settings))
    return made


def judge(
    docs: Any,
    *,
    rules: Mapping[str, Any] | None = None,
    language: str | Sequence[str] | Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **tables: Mapping[str, Any],
) -> Documents:
    """Drop documents in other languages and those that fail a quality rule; `dropped` counts them by reason.

    docs:     documents, or what `read` takes; of a `datasets.Dataset` such a one comes back
    rules:    the table `[rules]` of a recipe: `{"gopher": {"min_words": 20}, "c4": {"enabled": False}}`
    language: what is kept: a code ("de"), several, or the table `[language]`; `[]` for all languages
    progress: whether bars are shown; default: as for the documents
    tables:   further ones of a recipe: `lines`, `repeated_lines`, `personal_data`, `contamination`, `selection`,
              `documents`

    What is not given is as in a recipe: English, and the rules of web pages; but of files those that fit a sample of
    their texts, as for `cloze run --source`. Unlike a run, it does not stop if a rule drops many documents: look at
    `dropped`. Raises InputError for an unknown table or key.

    >>> docs = judge(["Too short to say much."], language=[])
    >>> len(docs), docs.dropped
    (0, {'rules: gopher.min_words': 1})
    """
    check_keys(tables, JUDGE_TABLES, "judge")
    kept = [language] if isinstance(language, str) else language
    languages = {"language": kept if isinstance(kept, Mapping) else {"keep": [*kept]}} if kept is not None else {}
    given = to_documents(docs, progress)
    fitted = {"rules": {}, "language": {}, **given._opened.get_fitted("rules", "language", "documents")}
    asked = {**fitted, **languages, **({} if rules is None else {"rules": rules}), **tables}
    made: Documents = given._match_input(docs, given._with("documents", progress=progress, **asked))
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
    """Remove exact and near duplicates: of each group of them one stays, by source, quality and id.

    docs:     documents, or what `read` takes; of a `datasets.Dataset` such a one comes back
    name:     of the corpus, as a recipe's `name`; default: that of the source
    held_out: share of the documents that are set apart for evaluation, by a hash of their group or id; default: a
              hundredth, as in a recipe
    seed:     of that hash
    progress: whether bars are shown; default: as for the documents
    settings: keys of the table `[duplicates]`: `threshold` (0.8 of their shingles), `shingle_words`, `enabled`, ...

    Raises InputError for an unknown setting.

    >>> text = "The ferry to the island leaves at nine, and comes back in the evening when the tide allows it."
    >>> len(deduplicate([text, text, "Something else, said once."]))
    2
    """
    share = {} if held_out is None else {"share": held_out}
    given = to_documents(docs, progress)
    asked = {
        "duplicates": {},
        **given._opened.get_fitted("duplicates"),
        **({"duplicates": settings} if settings else {}),
    }
    corpus = given._with("corpus", name, progress=progress, **asked, held_out=share, seed=seed)
    made: Documents = given._match_input(docs, corpus)
    return made


def similar(corpus: Any, text: str, *, threshold: float = 0.8) -> list[dict[str, Any]]:
    """Return the documents of a corpus that are similar to a text, the most similar first.

    corpus:    deduplicated documents; or the address of a corpus, of a store or of a release (STORE@NAME)
    text:      the text
    threshold: similarity from which a document is returned: the share of shingles that both have

    Each is a dictionary as `cloze dedup --similar ... --json` has it. Raises InputError if there is no corpus.
    """
    if isinstance(corpus, Documents) and corpus._form == "corpus":
        address = corpus._workspace.place.to_address(corpus._corpus.folder)
    elif isinstance(corpus, str | Path):
        address = str(corpus)
    else:
        raise InputError("corpus: give what cloze.deduplicate returns, or the address of a corpus in a store.")
    return [build_similar_json(each) for each in find_similar(address, text, threshold)]
