"""The figures of a run: one flat table of names and numbers, and the differences between two runs.

    manifests of a run ─► figures ─► figures.json next to run.json ─► compare ─► report, `cloze diff`, bounds, releases

A name is what is counted, in parentheses the artifact or source if there are several, and after a colon the part of
it: `documents`, `documents: wikipedia`, `tokens (bytes): wikipedia`, `dropped share: rules: gopher.min_words`.

Promise: figures are those of the ledgers, and the same for the same artifacts. Some are of a sample, `MAX_PARTS` parts
at even distances: the languages of a source, the median lengths of documents and of examples, how their labels are
guessed from looks, and lost neighbours. Cost: the manifests, the sampled columns, and the metrics of a model: 0.03 s of
CPU time for the demo. They are counted when a run completes. A run in which nothing changed takes those of the run
before it.

Bounds: `list_crossings` finds the figures that are outside the bounds of a recipe. Promise: a bound of a figure that
the run does not have is reported as crossed, and so is one of a figure that is not a finite number. A mistake in a name
is refused when the recipe is read (`flows.recipes.run_settings`). Bounds on changes are skipped if there is no run
before.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from types import MappingProxyType

import pyarrow.compute as pc

from corpora.store.damage import Damaged, explain_parse_errors, seal, unseal
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from corpora.store.tables import read_part_table
from flows.recipes.run_settings import UNKNOWN_LANGUAGE, Bound
from flows.run.faults.damage import read_damage_list, write_damage_list
from flows.run.record.ledger_balance import (
    LOWER_BOUND_NAME,
    add_name,
    compute_label_deviation,
    count_tokens,
    filter_kind,
    find_newest,
    find_newest_by_name,
    iter_shares,
    measure_surface,
    sample_lengths,
    spread,
    sum_records,
)
from flows.run.record.run_record import RunRecord, iter_readable_runs, list_run_ids, print_to_stderr, read_run
from flows.run.record.task_scores import compute_worse_chances, iter_scores
from trainer.build import read_events

COUNT, SHARE, MEAN = "count", "share", "mean"
FIGURES_FILE = "figures.json"
MAX_PARTS = 12  # of an artifact, read for what no ledger counts
DUPLICATE_REASONS = ("exact duplicate", "near duplicate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One metric of a run, such as the number of documents or a share of dropped records.

    Attributes:
        value: Value of the metric.
        unit: What is counted. For a share, the unit of the whole that it is a share of.
        kind: COUNT, SHARE (between 0 and 1) or MEAN (an average or another measurement).
    """

    value: float
    unit: str
    kind: str


Figures = Mapping[str, Figure]


def compute_figures(place: Place, manifests: Sequence[Manifest]) -> dict[str, Figure]:
    """Compute the figures (metrics) of a run, by name, in the order in which they are displayed.

    Args:
        place: The store.
        manifests: Descriptions of the run's artifacts (stored results of pipeline stages), in the order in which they
            were built.

    Raises:
        Damaged: If an artifact file that the computation reads is damaged.
    """
    named: list[tuple[str, Figure]] = [
        *_iter_record_figures(manifests),
        *_iter_language_figures(place, manifests),
        *_iter_verdict_figures(manifests),
        *_iter_vocabulary_figures(manifests),
        *_iter_token_figures(place, manifests),
        *_iter_example_figures(place, manifests),
        *_iter_model_figures(place, manifests),
        *_iter_task_figures(place, manifests),
    ]
    return dict(named)


def _count(name: str, value: int, unit: str) -> tuple[str, Figure]:
    return name, Figure(value=value, unit=unit, kind=COUNT)


def _iter_ratio(kind: str, name: str, part: float, whole: float, unit: str) -> Iterator[tuple[str, Figure]]:
    """Yield a figure (metric) with the value `part` / `whole` as (name, figure), or nothing if `whole` is zero.

    Args:
        kind: SHARE or MEAN.
        name: Name of the figure.
        part: The numerator.
        whole: The denominator.
        unit: What is counted. For a share, the unit of the whole that it is a share of.
    """
    if whole:
        yield name, Figure(value=part / whole, unit=unit, kind=kind)


def _iter_record_figures(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield the metrics of raw files, records and documents, in total and by source, as (name, figure).

    Yields nothing if the manifests describe no parsed documents.

    Args:
        manifests: Descriptions of the run's artifacts.
    """
    parsed, by_source = filter_kind(manifests, "documents"), _group_by_source(manifests)
    if not parsed:
        return
    yield from _iter_by_source("raw files", "files", count_raw_files, by_source)
    yield _count("raw files left out", sum(len(m.settings.get("left_out", ())) for m in parsed), "files")
    yield from _iter_by_source("raw records", "records", lambda parsed_of: sum_records(parsed_of).total, by_source)
    yield from _iter_by_source("documents", "documents", _count_documents, by_source)
    yield from _iter_by_source("text bytes", "bytes", _count_bytes, by_source)
    for name, parsed_of in {"": parsed, **by_source}.items():
        mean = _add_detail("mean bytes a document", name)
        yield from _iter_ratio(MEAN, mean, _count_bytes(parsed_of), _count_documents(parsed_of), "bytes a document")
    records = sum_records(parsed)
    yield from _iter_losses("dropped", records.outcomes, records.total, "records")
    for name, parsed_of in by_source.items() if len(by_source) > 1 else ():
        account = sum_records(parsed_of)
        lost = account.sum_outcomes("dropped: ")
        yield from _iter_ratio(SHARE, add_name("dropped share", name), lost, account.total, "records")
    edits = sum((Counter(manifest.ledger.figures) for manifest in parsed), Counter[str]())
    yield from (_count(name, number, "times") for name, number in sorted(edits.items()) if name != "text bytes")


def _group_by_source(manifests: Sequence[Manifest]) -> dict[str, list[Manifest]]:
    """Return the manifests of the parsed documents, in lists by source name. Other manifests are omitted."""
    by_source: dict[str, list[Manifest]] = {}
    for manifest in filter_kind(manifests, "documents"):
        by_source.setdefault(manifest.name, []).append(manifest)
    return by_source


def _iter_by_source(
    what: str, unit: str, number: Callable[[Sequence[Manifest]], int], by_source: Mapping[str, Sequence[Manifest]]
) -> Iterator[tuple[str, Figure]]:
    """Yield a count in total and for each source, as (name, figure).

    Args:
        what: Name of the total. To count a source, its name is appended.
        unit: What is counted.
        number: Function that returns the count for the manifests of parsed documents.
        by_source: Manifests of the parsed documents, by source name.
    """
    counts = {name: number(parsed) for name, parsed in by_source.items()}
    yield _count(what, sum(counts.values()), unit)
    yield from (_count(_add_detail(what, name), value, unit) for name, value in counts.items())


def _add_detail(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what


def count_raw_files(parsed: Iterable[Manifest]) -> int:
    """Count the raw files that some artifacts of parsed documents were built from.

    Args:
        parsed: Manifests (descriptions) of these artifacts.
    """
    raw = (parent for manifest in parsed for parent in manifest.parents if parent.role == "raw")
    return sum(int(parent.name.removesuffix(" files")) for parent in raw)


def _count_documents(parsed: Iterable[Manifest]) -> int:
    return sum(manifest.count_rows("documents") for manifest in parsed)


def _count_bytes(parsed: Iterable[Manifest]) -> int:
    return sum(manifest.ledger.figures.get("text bytes", 0) for manifest in parsed)


def _iter_losses(what: str, outcomes: Mapping[str, int], total: int, unit: str) -> Iterator[tuple[str, Figure]]:
    """Yield the number of dropped or removed items in total and by reason (largest first), then their shares.

    Args:
        what: "dropped" or "removed".
        outcomes: Number of items by outcome, such as "dropped: parse: empty".
        total: Number of all items.
        unit: What is counted.

    Yields:
        (name, figure), with names such as "dropped", "dropped: parse: empty", "dropped share".
    """
    lost = {name.removeprefix(f"{what}: "): count for name, count in outcomes.items() if name.startswith(f"{what}: ")}
    reasons = sorted(lost, key=lambda name: (-lost[name], name))
    yield _count(what, sum(lost.values()), unit)
    yield from (_count(f"{what}: {reason}", lost[reason], unit) for reason in reasons)
    yield from _iter_ratio(SHARE, f"{what} share", sum(lost.values()), total, unit)
    for reason in reasons:
        yield from _iter_ratio(SHARE, f"{what} share: {reason}", lost[reason], total, unit)


def _iter_language_figures(place: Place, manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield the share of each language in all documents and, if there are several sources, in each source.

    Args:
        place: The store.
        manifests: Descriptions of the run's artifacts.

    Yields:
        (name, figure), with names such as "language share: en".
    """
    by_source = _group_by_source(manifests)
    shares = {name: _compute_language_shares(place, parsed) for name, parsed in by_source.items()}
    documents = {name: _count_documents(parsed) for name, parsed in by_source.items()}
    overall = defaultdict[str, float](float)
    for name, language_shares in shares.items():
        for language, share in language_shares.items():
            overall[language] += share * documents[name] / sum(documents.values())
    for name, language_shares in {"": overall, **(shares if len(shares) > 1 else {})}.items():
        for language, share in sorted(language_shares.items(), key=lambda item: (-item[1], item[0])):
            called = f"{add_name('language share', name)}: {language}"
            yield called, Figure(value=share, unit="documents", kind=SHARE)


def _compute_language_shares(place: Place, parsed: Sequence[Manifest]) -> dict[str, float]:
    """Compute the share (0 to 1) of each language in a sample of one source's documents, by language code.

    Args:
        place: The store.
        parsed: Manifests of the source's parsed documents.
    """
    holding = [(manifest, part) for manifest in parsed for part in manifest.parts if part.count_rows("documents")]
    counts = Counter[str]()
    for manifest, part in spread(holding, MAX_PARTS):
        for batch in read_part_table(place, manifest.stage_folder, part, "documents", ("language",)):
            for row in pc.value_counts(batch.column("language")).to_pylist():
                counts[row["values"] or UNKNOWN_LANGUAGE] += row["counts"]
    return {language: count / counts.total() for language, count in counts.items()}


def _iter_verdict_figures(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield the numbers and shares of documents that deduplication kept and removed, as (name, figure).

    Yields nothing if the run did not reach deduplication.

    Args:
        manifests: Descriptions of the run's artifacts.
    """
    verdicts = find_newest(manifests, "verdicts")
    if verdicts is None:
        return
    judged = verdicts.ledger.find_account("documents")
    yield _count("kept", judged.outcomes.get("kept", 0), "documents")
    yield from _iter_losses("removed", judged.outcomes, judged.total, "documents")
    duplicates = sum(judged.outcomes.get(f"removed: {name}", 0) for name in DUPLICATE_REASONS)
    yield _count("duplicates", duplicates, "documents")
    yield from _iter_ratio(SHARE, "duplicate share", duplicates, judged.total, "documents")


def _iter_vocabulary_figures(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    for name, vocabulary in find_newest_by_name(manifests, "vocabularies").items():
        yield _count(add_name("vocabulary", name), vocabulary.count_rows("tokens"), "tokens")


def _iter_token_figures(place: Place, manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield token metrics for each vocabulary: number of tokens, document lengths, tokens per word, unknown tokens.

    Args:
        place: The store.
        manifests: Descriptions of the run's artifacts.

    Yields:
        (name, figure), with names such as "tokens" and "median tokens a document".
    """
    for name, tokens in find_newest_by_name(manifests, "tokens").items():
        by_source: dict[str, list[Part]] = {}
        for part in tokens.parts:
            by_source.setdefault(part.labels.get("source", ""), []).append(part)
        sources = {source: parts for source, parts in by_source.items() if source}
        yield _count(add_name("tokens", name), count_tokens(tokens.parts), "tokens")
        for source, parts in sources.items():
            yield _count(f"{add_name('tokens', name)}: {source}", count_tokens(parts), "tokens")
        for source, parts in {"": [*tokens.parts], **sources}.items():
            yield from _iter_token_means(name, source, parts)
        sample = sample_lengths(place, tokens, "tokens", most=MAX_PARTS).lengths
        if len(sample):
            yield _compute_median(add_name("median tokens a document", name), sample.tolist(), "tokens a document")


def _iter_token_means(name: str, source: str, parts: Iterable[Part]) -> Iterator[tuple[str, Figure]]:
    figures = sum((Counter(part.ledger.figures) for part in parts), Counter[str]())
    tokens, documents = (figures[f"train {what}"] + figures[f"held-out {what}"] for what in ("tokens", "documents"))

    def called(what: str) -> str:
        return _add_detail(add_name(what, name), source)

    yield from _iter_ratio(MEAN, called("mean tokens a document"), tokens, documents, "tokens a document")
    yield from _iter_ratio(
        MEAN, called("tokens a word"), figures["train tokens"], figures["train words"], "tokens a word"
    )
    if not source:
        unknown = figures["train unknown tokens"] + figures["held-out unknown tokens"]
        yield from _iter_ratio(SHARE, called("unknown token share"), unknown, tokens, "tokens")


def _compute_median(name: str, lengths: list[int], unit: str) -> tuple[str, Figure]:
    return name, Figure(value=sorted(lengths)[(len(lengths) - 1) // 2], unit=unit, kind=MEAN)


def _iter_example_figures(place: Place, manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield metrics of each shard set (training data): numbers of examples, tokens, unused tokens and labels.

    Args:
        place: The store.
        manifests: Descriptions of the run's artifacts.

    Yields:
        (name, figure), with names such as "examples" and "example tokens".
    """
    for name, shards in find_newest_by_name(manifests, "shards").items():
        tokens = shards.ledger.figures.get("example tokens", 0)
        yield _count(add_name("examples", name), shards.count_rows("examples"), "examples")
        yield _count(add_name("example tokens", name), tokens, "tokens")
        mean = add_name("mean tokens an example", name)
        yield from _iter_ratio(MEAN, mean, tokens, shards.count_rows("examples"), "tokens an example")
        for what, part, whole, unit in iter_shares(place, shards):
            yield from _iter_ratio(SHARE, add_name(what, name), part, whole, unit)
        if (deviation := compute_label_deviation(shards)) is not None:
            yield add_name("label deviation", name), Figure(value=deviation, unit="standard deviations", kind=MEAN)
        if (guessed := measure_surface(place, shards)) is not None:
            yield add_name("surface accuracy", name), Figure(value=guessed.accuracy, unit="examples", kind=SHARE)
            yield add_name(LOWER_BOUND_NAME, name), Figure(value=guessed.lower_bound, unit="examples", kind=SHARE)
        sample = sample_lengths(place, shards, "examples", most=MAX_PARTS).lengths
        if len(sample):
            yield _compute_median(add_name("median tokens an example", name), sample.tolist(), "tokens an example")


_MEASURED = {
    "held-out loss": ("masked_loss", "nats a token", MEAN),
    "held-out unigram entropy": ("unigram_entropy", "nats a token", MEAN),
    "held-out accuracy": ("masked_accuracy", "hidden tokens", SHARE),
    "held-out accuracy on rarer words": ("rare_word_accuracy", "hidden words", SHARE),
    "held-out pair accuracy": ("pair_accuracy", "pairs", SHARE),
}


def _iter_model_figures(place: Place, manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield the number of parameters and training steps of each model, and the results of its last evaluation.

    Args:
        place: The store.
        manifests: Descriptions of the run's artifacts.

    Yields:
        (name, figure), with names such as "parameters" and "held-out loss".
    """
    for name, model in find_newest_by_name(manifests, "models").items():
        yield _count(add_name("parameters", name), model.ledger.figures["parameters"], "parameters")
        yield _count(add_name("training steps", name), model.ledger.figures["steps"], "steps")
        last = {row["event"]: row for row in read_events(place, model)}
        if (loss := last.get("step", {}).get("masked_loss")) is not None:
            yield add_name("training loss", name), Figure(value=loss, unit="nats a token", kind=MEAN)
        for what, (column, unit, kind) in _MEASURED.items():
            if (value := last.get("evaluation", {}).get(column)) is not None:
                yield add_name(what, name), Figure(value=value, unit=unit, kind=kind)


def _iter_task_figures(place: Place, manifests: Sequence[Manifest]) -> Iterator[tuple[str, Figure]]:
    """Yield the scores of each fine-tuning task, and their gains over the majority class and the baseline model.

    Args:
        place: The store.
        manifests: Descriptions of the run's artifacts.

    Yields:
        (name, figure), with names such as "task sentiment: accuracy".
    """
    for name, tasks in find_newest_by_name(manifests, "tasks").items():
        for score in iter_scores(place, tasks, name):
            yield score.name, Figure(value=score.value, unit=score.unit, kind=MEAN)


def read_stored_manifests(place: Place, record: RunRecord) -> list[Manifest]:
    """Read the manifests (artifact descriptions) that the metrics of a run are computed from, in the order of the run.

    Artifacts that are no longer in the store are omitted. Of the artifacts that were complete before the run, only the
    parsed documents and the last deduplication decisions are included, because they are needed to count the whole
    corpus.

    Args:
        place: The store.
        record: The record of the run.

    Raises:
        Damaged: If a manifest is damaged.
    """
    return [manifest for folder in _list_folders(record) if (manifest := read_manifest(place, folder)) is not None]


def _list_folders(record: RunRecord) -> list[str]:
    """Return the folders of the artifacts that the metrics of a run are computed from, in the order of the run."""
    of_kind = {kind: [f for f in record.settled if f.startswith(f"{kind}/")] for kind in ("documents", "verdicts")}
    own = (stage.folder for stage in record.stages)
    return list(dict.fromkeys([*of_kind["documents"], *of_kind["verdicts"][-1:], *own]))


def count_figures(place: Place, record: RunRecord) -> Figures | None:
    """Compute the figures (metrics) of a recorded run, by name.

    Returns None if an artifact (stored stage result) of the run is no longer in the store.

    Raises:
        Damaged: If an artifact file that the computation reads is damaged.
    """
    manifests = read_stored_manifests(place, record)
    return compute_figures(place, manifests) if len(manifests) == len(_list_folders(record)) else None


def get_figures(place: Place, record: RunRecord) -> Figures | None:
    """Return the figures (metrics) of a recorded run, by name. They are read from its figures file or recomputed.

    Returns:
        The figures; None if the file is missing or damaged and an artifact of the run is no longer in the store.

    Raises:
        Damaged: If an artifact file that the computation reads is damaged.
    """
    with suppress(FileNotFoundError, Damaged):  # counted again
        return read_figures(place, record.run_id)
    return count_figures(place, record)


def read_figures(place: Place, run_id: str) -> Figures:
    """Read the figures (metrics), by name, from the file that was written when a run was recorded.

    Raises:
        FileNotFoundError: If there is no such file.
        Damaged: If the file is damaged.
    """
    path = get_figures_path(run_id)

    def parse(data: bytes) -> Figures:
        with explain_parse_errors(path, "the figures of a run"):
            figures = {name: Figure(**figure) for name, figure in unseal(data, path)["figures"].items()}
        if not figures:
            raise Damaged(path, "it holds no figures")
        return figures

    return place.read_checked(path, parse)


def find_figures_before(
    place: Place, record: RunRecord, tell: Callable[[str], None] = print_to_stderr
) -> tuple[RunRecord, Figures] | None:
    """Find the previous completed run of the same recipe, and its figures (metrics).

    Args:
        place: The store.
        record: Record of the later run.
        tell: Called with a line to print if damaged files prevent a comparison.

    Returns:
        The record and the figures by name of the previous run, or None if there is no previous run, or its figures can
        no longer be computed.
    """
    before = find_run_before(place, record, tell)
    if before is None:
        return None
    try:
        figures = get_figures(place, before)
    except Damaged as fault:
        tell(f"{fault.path} is damaged: {fault.what}. So there is no comparison with the run {before.run_id}.")
        return None
    return (before, figures) if figures is not None else None


def write_figures(place: Place, record: RunRecord, figures: Figures) -> None:
    """Write the figures (metrics) of a run, by name, into the folder of its record.

    Raises:
        InputError: If the store is not writable.
    """
    place.write(get_figures_path(record.run_id), serialize_figures(figures), is_final=True)


def rebuild_figures(place: Place) -> None:
    """Rebuild the damaged figures files (metrics of runs) of a store, and remove them from its damage list.

    A file stays on the list if artifacts of its run are missing or damaged.

    Raises:
        InputError: If the list itself is damaged, or the store is not writable.
    """
    damaged = read_damage_list(place)
    for path in [path for path in damaged if path.endswith(f"/{FIGURES_FILE}")]:
        with suppress(FileNotFoundError, Damaged):
            record = read_run(place, path.split("/")[1])
            if (figures := count_figures(place, record)) is not None:
                write_figures(place, record, figures)
                del damaged[path]
                write_damage_list(place, damaged)


def compute_final_figures(place: Place, record: RunRecord) -> Figures:
    """Compute the figures (metrics) of a completed run, by name.

    If the previous run of the recipe has the same artifacts (stored stage results), its figures are returned.

    Raises:
        Damaged: If an artifact file that the computation reads is damaged.
    """
    before = find_run_before(place, record, lambda line: None)
    same = before is not None and before.folders == record.folders
    figures = get_figures(place, before) if same and before is not None else count_figures(place, record)
    assert figures is not None, "a run that is complete has its artifacts"
    return figures


def serialize_figures(figures: Figures) -> bytes:
    """Serialize figures (metrics), given by name, as JSON with a digest at the end. Each figure has a separate line."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(asdict(figure))}" for name, figure in figures.items())
    return seal(f'{{\n "figures": {{\n{lines}\n }}\n}}\n'.encode())


def get_figures_path(run_id: str) -> str:
    """Return the path of the file with a run's figures (metrics), relative to the store."""
    return f"runs/{run_id}/{FIGURES_FILE}"


def find_run_before(place: Place, run: RunRecord, tell: Callable[[str], None] = print_to_stderr) -> RunRecord | None:
    """Return the previous completed run of the same recipe, or None if there is none.

    Args:
        place: The store.
        run: Record of the later run.
        tell: Called with a line to print about each damaged run record. Such records are skipped.
    """
    ids = (each for each in reversed(list_run_ids(place)) if each < run.run_id and each.partition("-")[2] == run.recipe)
    earlier = (each for each in iter_readable_runs(place, ids, tell) if each.state == "completed")
    return next((each for each in earlier if each.recipe == run.recipe), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The values of one figure (metric) in two runs.

    Attributes:
        name, unit, kind: As in `Figure`; the name is that of the figure.
        before, after: The value in the earlier and the later run; None if the run does not have the figure.
    """

    name: str
    unit: str
    kind: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """The later value minus the earlier one, or None if either is missing. Shares are fractions."""
        return self.after - self.before if self.before is not None and self.after is not None else None

    @property
    def relative(self) -> float | None:
        """The change divided by the earlier value, or None if a value is missing or the earlier one is zero."""
        return self.change / self.before if self.change is not None and self.before else None


def compare_figures(before: Figures, after: Figures) -> list[Change]:
    """Compare the figures (metrics) of two runs. Each argument has the figures of one run by name.

    A count or share for a source or reason, such as "dropped: parse: empty", may be missing in one run. If this run has
    another figure with the same name before the first colon, the missing value is taken as zero.

    Returns:
        One change for each name: first the names in `after`, in order, then those that only `before` has.
    """
    names = [*after, *(name for name in before if name not in after)]
    return [
        Change(
            name=name,
            unit=(after.get(name) or before[name]).unit,
            kind=(after.get(name) or before[name]).kind,
            before=_get_value(before, name, after),
            after=_get_value(after, name, before),
        )
        for name in names
    ]


def _get_value(figures: Figures, name: str, other: Figures) -> float | None:
    if name in figures:
        return figures[name].value
    family, colon, _ = name.partition(": ")
    counted = other[name].kind != MEAN and colon
    return 0 if counted and any(each == family or each.startswith(f"{family}: ") for each in figures) else None


def list_crossings(
    bounds: Sequence[Bound], after: Figures, before: Figures | None, chances: Mapping[str, float] = MappingProxyType({})
) -> list[str]:
    """List the limits in the recipe that are exceeded by a figure (metric) or have no figure, with one line for each.

    Args:
        bounds: The limits, from the recipe's `[bounds]`.
        after: The figures of the run, by name.
        before: The figures of the run to compare with. If None, limits on changes are not checked.
        chances: P-values of the task scores that decreased, by figure name.

    Returns:
        Lines such as "documents is 850 documents and was 1,000 documents: the bound is fall = 0.1".
    """
    changes = compare_figures(before if before is not None else {}, after)
    return [line for bound in bounds for line in _iter_bound_crossings(bound, changes, chances)]


def list_run_crossings(
    place: Place, bounds: Sequence[Bound], run: RunRecord, after: Figures, before: tuple[RunRecord, Figures] | None
) -> tuple[str, ...]:
    """List the limits that the figures (metrics) of a recorded run exceed, with lines as from `list_crossings`.

    If the recipe has a limit `worse`, paired significance tests of the predictions are computed.

    Args:
        place: The store.
        bounds: The limits, from the recipe's `[bounds]`.
        run: Record of the run.
        after: The figures of the run, by name.
        before: The record and figures of the run to compare with; None if there is none.

    Raises:
        Damaged: If stored predictions that the tests read are damaged.
    """
    chances = {}
    if before is not None and any(bound.settings.worse is not None for bound in bounds):
        chances = compute_worse_chances(place, *(read_stored_manifests(place, each) for each in (run, before[0])))
    return tuple(list_crossings(bounds, after, before and before[1], chances))


def _iter_bound_crossings(bound: Bound, changes: Sequence[Change], chances: Mapping[str, float]) -> Iterator[str]:
    concerned = [change for change in changes if bound.is_for(change.name)]
    if not concerned and not (absent := _list_absent(bound, changes)):
        yield f"{bound.figure} is no figure of this run: the bound is of another name"
        return
    for change in concerned or absent:
        yield from _iter_change_crossings(bound, change)
        yield from _iter_worse_crossings(bound, change, chances)


def _list_absent(bound: Bound, changes: Sequence[Change]) -> list[Change]:
    """Return a list with one change from zero to zero for a figure that has a limit but is missing in both runs.

    Returns [] unless the figure is a count or share for a source or reason, and the runs have other figures with the
    same name before the colon.

    Args:
        bound: The limit.
        changes: The figures of both runs.
    """
    family, colon, _ = bound.figure.partition(": ")
    relatives = [change for change in changes if change.name == family or change.name.startswith(f"{family}: ")]
    if not colon or not relatives or relatives[0].kind == MEAN:
        return []
    return [Change(name=bound.figure, unit=relatives[0].unit, kind=relatives[0].kind, before=0.0, after=0.0)]


def _iter_change_crossings(bound: Bound, change: Change) -> Iterator[str]:
    after, before, held = change.after, change.before, bound.settings
    if after is None or not isfinite(after):
        yield _format_crossing(change, "a number")
        return
    if held.min is not None and after < held.min:
        yield _format_crossing(change, f"min = {held.min:g}")
    if held.max is not None and after > held.max:
        yield _format_crossing(change, f"max = {held.max:g}")
    if before is None:
        return
    for key, share in (("fall", held.fall), ("rise", held.rise)):
        if share is not None and _compute_move(key, before, after) > share * abs(before):
            yield _format_crossing(change, f"{key} = {share:g}")
    for key, most in (("fall_by", held.fall_by), ("rise_by", held.rise_by)):
        if most is not None and _compute_move(key, before, after) > most:
            yield _format_crossing(change, f"{key} = {most:g}")


def _iter_worse_crossings(bound: Bound, change: Change, chances: Mapping[str, float]) -> Iterator[str]:
    """Yield a line if a task score is significantly lower than in the previous run, or lower and cannot be tested.

    Args:
        bound: The limit. Its `worse` is the p-value below which a decrease is significant. If it has none, nothing is
            yielded.
        change: The score in both runs.
        chances: P-values by figure name. A score without a p-value cannot be tested.
    """
    most = bound.settings.worse
    if most is None or change.after is None or change.before is None or change.after >= change.before:
        return
    chance = chances.get(change.name)
    if chance is None:
        yield _format_crossing(change, f"worse = {most:g}", " on other examples, so that no test tells them apart")
    elif chance < most:
        yield _format_crossing(change, f"worse = {most:g}", f" on the same examples, p {chance:.2g}")


def _compute_move(key: str, before: float, after: float) -> float:
    """Compute how far a figure moved from `before` to `after`. The result is positive in the restricted direction.

    Args:
        key: Name of the limit: "fall" or "fall_by" for a decrease, "rise" or "rise_by" for an increase.
        before: Value of the figure in the earlier run.
        after: Value of the figure in the later run.
    """
    return before - after if key.startswith("fall") else after - before


def parse_bound(crossing: str) -> str:
    """Extract the name of the figure (metric) and its limit, without the values, from a line of `list_crossings`.

    >>> parse_bound("documents: what is new is 850 documents and was 1,000 documents: the bound is fall = 0.1")
    'documents: what is new: fall = 0.1'
    """
    name = re.match(r"(.*) is (?:[-\d]|not |no figure)", crossing, re.DOTALL)
    return f"{name[1] if name else crossing}: {crossing.rpartition(': the bound is ')[2]}"


def _format_crossing(change: Change, bound: str, how: str = "") -> str:
    was = "" if change.before is None else f" and was {format_with_unit(change.before, change.unit, change.kind)}"
    after = "not there" if change.after is None else format_with_unit(change.after, change.unit, change.kind)
    return f"{change.name} is {after}{was}{how}: the bound is {bound}"


def format_with_unit(value: float, unit: str, kind: str) -> str:
    """Format the value of a figure (metric) with its unit. Shares are formatted as percentages.

    Args:
        value: The value. If it is infinite or NaN, the result is "not finite".
        unit: What is counted.
        kind: COUNT, SHARE or MEAN.

    >>> format_with_unit(1234, "documents", COUNT), format_with_unit(0.0312, "records", SHARE)
    ('1,234 documents', '3.12 % of the records')
    """
    if not isfinite(value):
        return "not finite"
    if kind == SHARE:
        return f"{100 * value:.3g} % of the {unit}"
    return f"{value:,.0f} {unit}" if kind == COUNT else f"{value:.4g} {unit}"
