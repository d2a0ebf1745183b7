"""The parts of a card that tell where rows come from, what was left out and why: numbers of ledgers, and settings.

Every function gives lines of Markdown. What is not known is said so; nothing is concluded from a number.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from corpora.store.damage import digest_in
from corpora.store.manifest import Manifest
from flows.export.exported import Exported, share
from flows.export.licenses import NOT_STATED
from flows.export.markdown import code, fenced, plain, table
from flows.export.provenance import Provenance
from flows.recipes.privacy import without_folders
from flows.run.accounts import COPY_OF_TOKENS, readable_bytes, records_account
from flows.run.figures import DUPLICATES
from flows.run.units import counted, parent_name, rows_in_words

MOST_ROWS = 200  # of a table whose length the data decide
LICENSES = 20  # of one source
EDITS = ("lines repaired in part", "lines removed: ", "masked: ", "meets ")


def sources(content: Exported) -> Iterator[str]:
    """What came in, by source and generation."""
    parsed = content.provenance.of_kind("documents")
    rows = []
    for manifest in parsed:
        account, files = records_account([manifest]), content.provenance.raw_files(manifest)
        raw = next(parent for parent in manifest.parents if parent.role == "raw")
        rows.append(
            (
                plain(manifest.name),
                plain(str(manifest.settings.get("source", {}).get("kind", ""))),
                _generation(content.provenance, manifest),
                plain(parent_name(raw)),
                readable_bytes(sum(file.size_bytes for file in files)) if files else "-",
                account.total,
                account.starting("dropped"),
                manifest.rows("documents"),
            )
        )
    yield from ("## Sources", "")
    head = ("source", "kind", "generation", "raw files", "raw bytes", "records", "dropped", "documents")
    rows.sort(key=lambda row: (row[0], row[2]))
    yield from table(head, rows) if rows else ("The documents that it was made from are not in the store any more.", "")


def _generation(provenance: Provenance, documents: Manifest) -> str:
    """The generation that documents came with."""
    parents = provenance.verdicts.parents if provenance.verdicts is not None else ()
    named = (p.label for p in parents if (p.role, p.fingerprint) == ("documents", documents.fingerprint))
    return next(named, "").removeprefix("generation ")


def documents(content: Exported) -> Iterator[str]:
    """The live documents, by source, split and generation."""
    if content.documents is None:
        return
    counts, whole = content.documents.by("source", "generation", "split"), content.documents.total
    rows = [(plain(of[0]), str(of[1]), of[2], number, share(number, whole)) for of, number in counts.items()]
    yield from ("## Documents", "")
    yield f"{counted(whole, 'live document')}, without those that a later generation took away:"
    yield ""
    yield from table(("source", "generation", "split", "documents", "share"), rows[:MOST_ROWS])


def tokens(content: Exported) -> Iterator[str]:
    """Tokens of documents, by source, generation and split, as they were tokenised."""
    tokenised = content.provenance.parent(content.provenance.manifest, "tokens")
    if tokenised is None:
        return
    sums: dict[tuple[str, str, str], list[int]] = {}
    chosen = content.provenance.manifest.settings.get("sources") or ()
    for part in tokenised.parts:
        source = part.labels.get("source", "several")
        if chosen and source not in (*chosen, "several"):
            continue
        for split in ("train", "held-out"):
            found = sums.setdefault((source, part.labels.get("generation", ""), split), [0, 0])
            found[0] += part.ledger.figures.get(f"{split} documents", 0)
            found[1] += part.ledger.figures.get(f"{split} tokens", 0)
    ordered = sorted((of, found) for of, found in sums.items() if any(found))
    rows = [(plain(of[0]), of[1], of[2], found[0], found[1]) for of, found in ordered]
    yield from ("## Tokens", "", "What was tokenised to make the examples, before documents were taken away again:", "")
    yield from table(("source", "generation", "split", "documents", "tokens"), rows[:MOST_ROWS])


def examples_ledger(content: Exported) -> Iterator[str]:
    """What became of the tokens: placed, truncated, left over."""
    if not content.has_examples:
        return
    accounts = content.provenance.manifest.ledger.accounts
    rows = [
        (account.unit.removeprefix(COPY_OF_TOKENS), name.replace("_", " "), number, share(number, account.total))
        for account in accounts
        if account.unit.startswith(COPY_OF_TOKENS)
        for name, number in account.outcomes.items()
    ]
    yield from ("What became of each copy's tokens:", "")
    yield from table(("copy", "outcome", "tokens", "share"), rows)


def dropped(content: Exported) -> Iterator[str]:
    """What was dropped, by step and rule; what was removed, duplicates among it; what was changed in what stayed."""
    parsed = content.provenance.of_kind("documents")
    yield from ("## What was left out", "")
    if not parsed:
        yield from ("Not known: the documents of the sources are not in the store any more.", "")
        return
    records = records_account(parsed)
    lost = records.starting("dropped: ")
    yield from (f"Of {counted(records.total, 'raw record')}, {lost:,} were dropped while they were judged:", "")
    yield from _losses("dropped: ", records.outcomes, records.total, ("step", "rule or reason", "records", "share"))
    left_out = sum(len(manifest.settings.get("left_out", ())) for manifest in parsed)
    if left_out:
        yield from (f"{counted(left_out, 'raw file')} could not be read and were left out.", "")
    verdicts = content.provenance.verdicts
    if verdicts is None:
        yield from ("What was removed afterwards is not known: the verdicts are not in the store any more.", "")
        return
    judged = verdicts.ledger.account("documents")
    duplicates = sum(judged.outcomes.get(f"removed: {name}", 0) for name in DUPLICATES)
    yield (
        f"Of {counted(judged.total, 'judged document')}, {judged.starting('removed: '):,} were removed, {duplicates:,} "
        f"of them ({share(duplicates, judged.total)} of all) as duplicates:"
    )
    yield ""
    yield from _losses("removed: ", judged.outcomes, judged.total, ("step", "reason", "documents", "share"))
    edits: dict[str, int] = {}
    for manifest in parsed:
        for name, number in manifest.ledger.figures.items():
            if name.startswith(EDITS) and number:
                edits[name] = edits.get(name, 0) + number
    if edits:
        yield from ("What was changed or met in documents that stayed:", "")
        yield from table(("what", "times"), [(plain(name), number) for name, number in sorted(edits.items())])


def _losses(prefix: str, outcomes: Mapping[str, int], total: int, head: tuple[str, ...]) -> Iterator[str]:
    """A row for each reason, the most frequent first."""
    counts = {name.removeprefix(prefix): count for name, count in outcomes.items() if name.startswith(prefix)}
    rows = []
    for name, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        step, _, reason = name.partition(": ")
        rows.append((plain(step if reason else "verdict"), plain(reason or step), number, share(number, total)))
    yield from table(head, rows[:MOST_ROWS]) if rows else ("None.", "")


def licenses(content: Exported) -> Iterator[str]:
    """Documents by source and licence."""
    yield from ("## Licences", "")
    if content.documents is None:
        yield from ("Not known: the corpus is not in the store any more.", "")
        return
    yield (
        "As the records themselves, their source or the recipe states them; nothing was looked up, and rights in "
        "single texts were not examined."
    )
    yield ""
    rows: list[tuple[str | int, ...]] = []
    for source, counts in content.licenses.items():
        shown = list(counts.items())
        rows += [(plain(source), plain(name), number) for name, number in shown[:LICENSES]]
        if len(shown) > LICENSES:
            others = sum(number for _, number in shown[LICENSES:])
            rows.append((plain(source), f"{len(shown) - LICENSES:,} others", others))
    yield from table(("source", "licence", "documents"), rows)
    if any(NOT_STATED in counts for counts in content.licenses.values()):
        yield "Where no licence is stated, whoever uses the data has to find out."
        yield ""


def languages(content: Exported) -> Iterator[str]:
    """Documents by language."""
    if not content.languages or content.documents is None:
        return
    yield from ("## Languages", "", "As they were detected, or as the records state them:", "")
    named = list(content.languages.items())
    rows: list[tuple[str | int, ...]] = [
        (plain(name) or "unknown", number, share(number, content.documents.total)) for name, number in named[:MOST_ROWS]
    ]
    yield from table(("language", "documents", "share"), rows)


def safeguards(content: Exported) -> Iterator[str]:
    """What was done about personal data and evaluation sets, by source."""
    rows = []
    for name, settings in _settings_by_source(content.provenance).items():
        private = settings.get("personal_data", {})
        masked = [kind for kind in ("email", "ip", "phone") if private.get(kind)]
        met = settings.get("contamination", {})
        sets = [str(each[0]) for each in met.get("sets", ())]
        act = "dropped" if met.get("drop", True) else "reported, and kept"
        told = f"{', '.join(plain(title) for title in sets)}: {act}" if sets else "none were compared"
        rows.append((plain(name), ", ".join(masked) or "not masked", told))
    yield from ("## Personal data and evaluation sets", "")
    if rows:
        yield from table(("source", "personal data masked", "documents that meet evaluation sets"), rows)
    yield (
        "Masking finds e-mail addresses, public IP addresses and telephone numbers by their form, and nothing else: "
        "names, postal addresses and what people tell of themselves stay in the texts."
    )
    yield ""


def _settings_by_source(provenance: Provenance) -> dict[str, Mapping[str, Any]]:
    """The settings of the documents of each source; of several generations the last."""
    return {manifest.name: manifest.settings for manifest in provenance.of_kind("documents")}


def limits(content: Exported) -> Iterator[str]:
    """What the numbers say of the limits of the data; nothing else is claimed."""
    yield from ("## Limits", "", "What follows is counted, not judged:", "")
    if content.documents is not None and content.documents.total:
        sums = {of[0]: number for of, number in content.documents.by("source").items()}
        largest = max(sums, key=lambda name: (sums[name], name))
        yield f"- {share(sums[largest], content.documents.total)} of the documents are of one source, {plain(largest)}."
        for language, number in list(content.languages.items())[:1]:
            named = plain(language) or "unknown"
            yield f"- {share(number, content.documents.total)} of the documents are in one language: {named}."
    records = records_account(content.provenance.of_kind("documents"))
    lost = records.starting("dropped: ")
    if records.total:
        yield f"- {share(lost, records.total)} of the raw records were dropped while they were judged."
    if content.has_examples:
        facts = content.provenance.manifest.facts
        unknown = facts.get("special_ids", {}).get("unk")
        yield f"- An example has at most {facts.get('length', 0):,} tokens; what is longer is cut."
        tokenised = content.provenance.parent(content.provenance.manifest, "tokens")
        if tokenised is not None and unknown is not None:
            figures = tokenised.ledger.figures
            gone = sum(figures.get(f"{split} unknown tokens", 0) for split in ("train", "held-out"))
            whole = sum(figures.get(f"{split} tokens", 0) for split in ("train", "held-out"))
            yield f"- {gone:,} of {whole:,} tokens ({share(gone, whole)}) are the unknown one: their text is lost."
    yield "- Nothing was measured of truth, toxicity, stereotypes or who is spoken of."
    yield ""


def recipe(content: Exported) -> Iterator[str]:
    """The recipe, the lock, and how the same is made again."""
    found = content.provenance
    yield from ("## Made by", "")
    if found.record is None:
        yield from ("No run of this artifact is on record.", "")
        return
    record = found.record
    of, begun = code(record.recipe), plain(record.started)
    yield f"The run {code(record.run_id)} of the recipe {of}, begun {begun}: {record.state}."
    yield ""
    if found.unread:
        yield from (f"Its recipe or lock cannot be read any more: {plain(found.unread, 500)}", "")
    yield "The recipe, with paths of the machine shortened to their last name:"
    yield ""
    yield from fenced(without_folders(record.recipe_toml), "toml")
    given = [f"{key}={without_folders(chr(34) + value + chr(34))[1:-1]}" for key, value in record.overrides.items()]
    if given:
        yield from ("Over the recipe:", "", *(f"- {code('--set ' + each)}" for each in given), "")
    yield (
        "With this recipe, its lock next to it and the same raw files, `cloze run` makes the same contents again; "
        "whether it did, the contents under Artifacts say."
    )
    yield ""


def lock(content: Exported) -> Iterator[str]:
    """The lock's digest, and the raw files by content."""
    found = content.provenance
    if found.lock is None:
        return
    files = [
        (name, str(number), file)
        for number, generation in enumerate(found.lock.generations, 1)
        for name, group in sorted(generation.items())
        for file in group
    ]
    yield from ("## Raw files", "")
    size = readable_bytes(sum(file.size_bytes for _, _, file in files))
    digest = code(digest_in(found.lock.to_bytes()))
    yield from (f"The lock (sha256 {digest}) names {counted(len(files), 'raw file')}, {size} in all.", "")
    head = ("source", "generation", "name", "bytes", "sha256")
    rows = [
        (
            plain(name),
            number,
            plain(file.name) if found.names_files else "not shown",
            file.size_bytes,
            code(file.sha256),
        )
        for name, number, file in files[:MOST_ROWS]
    ]
    if rows:
        yield from table(head, rows)
    if len(files) > MOST_ROWS:
        yield from (f"and {len(files) - MOST_ROWS:,} more.", "")


def artifacts(content: Exported) -> Iterator[str]:
    """Every artifact of the chain by fingerprint and content."""
    found = content.provenance
    yield from ("## Artifacts", "")
    yield "A fingerprint says what was asked for, a content what came out; equal contents are equal rows."
    yield ""
    head = ("artifact", "fingerprint", "content", "holds")
    rows = [
        (plain(m.stage_folder), code(m.fingerprint), code(m.content), plain(", ".join(rows_in_words(m).values()), 400))
        for m in found.chain
    ]
    yield from table(head, rows)
    if found.gone:
        yield from ("Not in the store any more: " + ", ".join(code(folder) for folder in found.gone) + ".", "")


def versions(content: Exported) -> Iterator[str]:
    """The versions that the run recorded, and the libraries that decided bytes."""
    found: dict[str, str] = {}
    for manifest in content.provenance.chain:
        found |= {name: str(version) for name, version in manifest.libraries.items()}
    if content.provenance.record is not None:
        found |= dict(content.provenance.record.versions)
    yield from ("## Versions", "")
    yield from table(("what", "version"), [(plain(name), plain(found[name])) for name in sorted(found)])
