"""Documents: read from files or lists, cleaned, judged, and freed of near-duplicates.

    docs = cloze.read("tickets", fields={"text": "body"})     the texts as the files have them
    docs = cloze.clean(docs)                                  repaired and normalized
    docs = cloze.judge(docs, language="de")                   without what fails a rule; docs.dropped counts the reasons
    docs = cloze.deduplicate(docs)                            without near-duplicates

Each call returns new documents and computes nothing: rows are made when they are first asked for, by the stages of a
run. These clean before they judge, in whatever order they are called, and what is judged is always cleaned.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from cloze.workspace import Tables, Workspace
from corpora.build import CORPUS, REMOVED, Corpus
from corpora.errors import InputError
from corpora.judging.batches import STEP_TABLES, STEPS, Judged, judge_records
from corpora.judging.documents import cut_files, in_batches, read_slices
from corpora.schema import DOCUMENTS, DROPPED
from corpora.sources.contract import Tally
from corpora.store.ledger import Account
from corpora.store.manifest import Manifest
from corpora.store.settings import check_keys
from corpora.store.tables import read_table
from flows.recipes.guesses.fields import reading
from flows.recipes.lock import Lock
from flows.recipes.recipe import name_of_folder
from flows.recipes.settings.privacy import visible
from flows.run.pipeline import Parsed, make_corpora, make_documents

NOTHING_JUDGED: Tables = {
    "language": {"keep": []},
    "rules": {rule.name: {"enabled": False} for rule in fields(STEP_TABLES["rules"])},
}
KEPT_AS_THEY_ARE: Tables = {"duplicates": {"enabled": False}}
JUDGED = (*(name for name in STEP_TABLES if name != "clean"), "documents")
SHOWN_ROWS, SHOWN_CHARACTERS = 5, 160


class Documents:
    """Documents as a table: `len(docs)`, `docs[0]`, `docs["text"]`, `for row in docs`. `cloze.read` makes them.

    A row is a dictionary with `text`, `title`, `url`, `date`, `language`, `license`, `group`, `meta`, `quality`,
    `source`, and what identifies it: `id` (16 bytes), `revision` and `locator`, the place in its raw file. Deduplicated
    documents have `held_out`, too.
    """

    def __init__(self, workspace: Workspace, tables: Tables, lock: Lock | None = None, form: str = "raw") -> None:
        """For the functions of this package. form: "raw", "documents" or "corpus"."""
        self._workspace, self._tables, self._form = workspace, tables, form
        self._recipe = workspace.recipe({**NOTHING_JUDGED, **KEPT_AS_THEY_ARE, **tables})
        self._lock = workspace.resolved(self._recipe) if lock is None else lock

    def _with(self, form: str, name: str = "", /, **tables: Any) -> "Documents":
        """Return the documents with other tables of the recipe."""
        named = {"name": name} if name else {}
        form = "corpus" if self._form == "corpus" else form
        return Documents(self._workspace, {**self._tables, **named, **tables}, self._lock, form)

    def __len__(self) -> int:
        if self._form == "raw":
            rows: int = self.to_arrow().num_rows
            return rows
        return sum(account.outcomes.get(kept, 0) for account, kept in self._accounts())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def __getitem__(self, at: int | str) -> Any:
        """Return a row by its number, or a column by its name. Raises IndexError or KeyError."""
        table = self.to_arrow()
        if isinstance(at, str):
            return table.column(at).to_pylist()
        if not -len(table) <= at < len(table):
            raise IndexError(f"document {at} of {len(table)}")
        return table.slice(at % len(table), 1).to_pylist()[0]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches, in the order of the raw files: a few megabytes of memory at a time."""
        if self._form == "raw":
            yield from (judged.documents for judged in self._raw())
        elif self._form == "corpus":
            yield from Corpus(self._workspace.place, self._corpus).batches()
        else:
            for manifest in self._documents:
                yield from read_table(self._workspace.place, manifest, "documents", DOCUMENTS.names)

    def to_arrow(self) -> pa.Table:
        """Return all rows as a table of Arrow, which is kept."""
        return self._table

    def to_pandas(self) -> Any:
        """Return all rows as a frame of pandas. Raises ImportError where pandas is not installed."""
        return self._table.to_pandas()

    @property
    def dropped(self) -> dict[str, int]:
        """How many records were dropped so far, by step and reason, the most frequent first."""
        if self._form == "raw":
            counts = Counter(reason for judged in self._raw() for reason in judged.reasons)
        else:
            counts = Counter()
            for account, kept in self._accounts(all_of_them=True):
                counts.update({name: number for name, number in account.outcomes.items() if name != kept and number})
        return {name.removeprefix("dropped: ").removeprefix("removed: "): n for name, n in counts.most_common()}

    def dropped_rows(self) -> pa.Table:
        """Return what was dropped: its place, title and beginning, step, reason, detail; of copies the survivor."""
        tables: list[pa.Table] = []
        if self._form == "raw":
            batches = [judged.dropped for judged in self._raw()]
        else:
            place = self._workspace.place
            batches = [b for manifest in self._documents for b in read_table(place, manifest, "dropped", DROPPED.names)]
        if self._form == "corpus":
            tables = [pa.Table.from_batches(Corpus(place, self._corpus).removed(), REMOVED)]
        dropped = pa.Table.from_batches(batches, DROPPED)
        return pa.concat_tables([dropped, *tables], promote_options="default")

    def __repr__(self) -> str:
        return f"Documents({self._recipe.name!r}, {len(self):,} rows, {sum(self.dropped.values()):,} dropped)"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how many there are, the first of them, and why others were dropped."""
        rows = "".join(
            f"<tr><td>{escape(visible(row['title'] or '', SHOWN_CHARACTERS))}</td>"
            f"<td>{escape(visible(row['text'], SHOWN_CHARACTERS))}</td></tr>"
            for row in islice(self, SHOWN_ROWS)
        )
        reasons = "".join(
            f"<li>{escape(visible(name, SHOWN_CHARACTERS))}: {n:,}</li>" for name, n in self.dropped.items()
        )
        head = "<tr><th>title</th><th>text</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table><ul>{reasons}</ul>"

    @cached_property
    def _table(self) -> pa.Table:
        schema = CORPUS if self._form == "corpus" else DOCUMENTS
        return pa.Table.from_batches(self.batches(), schema)

    def _raw(self) -> Iterator[Judged]:
        """Yield the records as their sources give them, in batches."""
        steps = [step for step in STEPS if step.name != "clean"]
        for entry in self._recipe.sources:
            source, files = reading(entry.source, self._lock.guessed, 1), self._lock.generations[0]
            slices = cut_files(source, files.get(source.name, ()))
            for records in in_batches(read_slices(source, slices, Tally())):
                yield judge_records(records, source.name, entry.documents, steps=steps)

    def _made(self) -> Parsed:
        """Have the documents made, by the stages of a run."""
        workspace = self._workspace
        return make_documents(workspace.place, self._recipe, self._lock, workspace.perform)

    def _made_corpus(self) -> Manifest:
        """Have the corpus of the documents made."""
        workspace, parsed = self._workspace, self._made()
        corpora = make_corpora(workspace.place, self._recipe, self._lock, parsed, workspace.perform)
        return [corpus for _, corpus in corpora][-1]

    @cached_property
    def _documents(self) -> Sequence[Manifest]:
        return self._workspace.past_damage(self._made).documents

    @cached_property
    def _corpus(self) -> Manifest:
        return self._workspace.past_damage(self._made_corpus)

    def _accounts(self, all_of_them: bool = False) -> list[tuple[Account, str]]:
        """Return what became of the records: of the documents, of the corpus; with the outcome that is no drop."""
        documents = [(manifest.ledger.account("records"), "documents") for manifest in self._documents]
        if self._form != "corpus":
            return documents
        corpus = [(self._corpus.ledger.account("documents"), "kept")]
        return [*documents, *corpus] if all_of_them else corpus


def read(
    source: str | Path | Iterable[str] | Iterable[Mapping[str, Any]],
    *,
    kind: str = "files",
    name: str | None = None,
    store: str | Path | None = None,
    workers: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Documents:
    """Read a source: files of text, a dump, an object store, or a list of texts or of records.

    source:   a file, a folder or a glob, or `s3://bucket/prefix`; or texts, or dictionaries
    kind:     of the source, as in a recipe: "files" (text, JSON lines, CSV, Parquet, HTML, EPUB, WARC, ...),
              "wikipedia", "cc-news", "bookcorpus", "xml", ...
    name:     of the source and of what is made of it; default: that of the file or folder
    store:    where what is made is kept, and looked for: a folder or `s3://bucket/prefix`; default: a temporary folder,
              which goes with the last object that uses it
    workers:  processes; above one a program must call below `if __name__ == "__main__":`
    progress: whether bars are shown
    settings: keys of the source's table in a recipe: `fields`, `encoding`, `on_damage`, ...

    Files are read once for their digests; their records when rows are asked for. What cannot be read is dropped, and
    counted in `dropped`. Raises InputError: nothing to read, or an unknown setting.

    >>> docs = read(["A first text.", "A second one."], progress=False)
    >>> len(docs), docs[0]["text"], docs.dropped
    (2, 'A first text.', {})
    """
    workspace = Workspace(store, workers, progress)
    if isinstance(source, str | Path):
        path, name = str(source), name or name_of_folder(Path(str(source)))
    else:
        rows = [{"text": row} if isinstance(row, str) else row for row in source]
        name = name or "texts"
        path = str(workspace.write_rows(rows, "rows"))
        if all(row.keys() == {"text"} for row in rows):
            settings = {"fields": {"text": "text"}, **settings}
    return Documents(workspace, {"name": name, "source": [{"kind": kind, "name": name, "path": path, **settings}]})


def documents_of(docs: Documents | Iterable[str]) -> Documents:
    """Return documents, made of a list of texts where they are none."""
    if isinstance(docs, str):
        raise InputError(f"{visible(docs, 60)!r} is a text or a path: read it first, as in cloze.read([text]).")
    return docs if isinstance(docs, Documents) else read(docs)


def clean(docs: Documents | Iterable[str], **settings: Any) -> Documents:
    r"""Repair texts and normalize them: mojibake, HTML entities, control characters, white space, Unicode NFC.

    settings: keys of a recipe's table `[clean]`: `profile` ("cased", "uncased", "roberta-brief"), `quotes`, `widths`

    Raises InputError for an unknown setting.

    >>> clean(["It doesn\u00e2\u20ac\u2122t   matter. "], quotes="straight")["text"]
    ["It doesn't matter."]
    """
    return documents_of(docs)._with("documents", clean=settings)


def judge(
    docs: Documents | Iterable[str],
    *,
    rules: Mapping[str, Any] | None = None,
    language: str | Sequence[str] | Mapping[str, Any] | None = None,
    **tables: Mapping[str, Any],
) -> Documents:
    """Drop documents in other languages and those that fail a quality rule; `dropped` counts them by reason.

    rules:    the table `[rules]` of a recipe: `{"gopher": {"min_words": 20}, "c4": {"enabled": False}}`
    language: what is kept: a code ("de"), several, or the table `[language]`; default: English, as in a recipe; `[]`
              for all languages
    tables:   further ones of a recipe: `lines`, `repeated_lines`, `personal_data`, `contamination`, `selection`,
              `documents`

    Unlike a run, it does not stop where a rule drops many documents: look at `dropped`. Raises InputError for an
    unknown table or key.

    >>> docs = judge(["Too short to say much."], language=[])
    >>> len(docs), docs.dropped
    (0, {'rules: gopher.min_words': 1})
    """
    check_keys(tables, JUDGED, "judge")
    kept = [language] if isinstance(language, str) else language
    languages = {} if kept is None else kept if isinstance(kept, Mapping) else {"keep": [*kept]}
    return documents_of(docs)._with("documents", rules=rules or {}, language=languages, **tables)


def deduplicate(
    docs: Documents | Iterable[str], *, name: str = "", held_out: float | None = None, seed: int = 42, **settings: Any
) -> Documents:
    """Remove exact and near duplicates: of each group of them one stays, by source, quality and id.

    name:     of the corpus, as a recipe's `name`; default: that of the source
    held_out: share of the documents that are set apart for evaluation, by a hash of their group or id; default: a
              hundredth, as in a recipe
    seed:     of that hash
    settings: keys of the table `[duplicates]`: `threshold` (0.8 of their shingles), `shingle_words`, `enabled`, ...

    Raises InputError for an unknown setting.

    >>> text = "The ferry to the island leaves at nine, and comes back in the evening when the tide allows it."
    >>> len(deduplicate([text, text, "Something else, said once."]))
    2
    """
    share = {} if held_out is None else {"share": held_out}
    return documents_of(docs)._with("corpus", name, duplicates=settings, held_out=share, seed=seed)
