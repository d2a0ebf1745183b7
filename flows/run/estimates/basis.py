"""Lines that a plan prints with its figures: what was sampled, what was not, and what the recipe's rules would drop."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from corpora.judging.documents import most_dropped, rules_over_limit
from flows.run.estimates.estimator import Estimator
from flows.run.estimates.figures import StageEstimate
from flows.run.faults.rule_limits import template_hint
from flows.run.record.counts_text import counted
from flows.run.record.ledger_balance import readable_bytes

MOST_DROPS = 8


def basis_lines(estimator: Estimator, stages: Sequence[StageEstimate]) -> Iterable[str]:
    """Yield lines about what the estimates are based on, and what they cannot say."""
    samples = estimator.samples
    yield _sampled_line(estimator)
    if short := [name for name, sample in samples.items() if sample.cut_short]:
        yield f"The sample of {', '.join(short)} was cut short because reading it took long."
    if faulty := {name: sample.unreadable for name, sample in samples.items() if sample.unreadable}:
        yield f"Of {', '.join(faulty)}, {counted(sum(faulty.values()), 'file')} of the sample cannot be read."
    if estimator.rehearsal.ended:
        yield from _ended_lines(estimator, stages)
    if not all(sample.whole for sample in samples.values()):
        yield (
            "Copies grow with a corpus, and a sample sees few of them: of documents and tokens less may be left. "
            "Tokens are counted with vocabularies that were trained on the sample."
        )
    yield "Times are those of the sample on this machine, alone."


def _sampled_line(estimator: Estimator) -> str:
    samples = estimator.samples.values()
    raw, read = sum(sample.raw_bytes for sample in samples), sum(sample.read_bytes for sample in samples)
    sampled, records = _records(estimator)
    if all(sample.whole for sample in samples):
        return f"Estimated from all {counted(sampled, 'record')}, judged by the recipe's own steps."
    share = f" in {readable_bytes(read)} of {readable_bytes(raw)} of raw files" if read < raw else ""
    return f"Estimated from {sampled:,} of about {records:,} records{share}, judged by the recipe's own steps."


def _records(estimator: Estimator) -> tuple[int, int]:
    """Return how many records were sampled, and out of how many."""
    samples = estimator.samples.values()
    return sum(len(sample.sampled) for sample in samples), round(sum(sample.records for sample in samples))


def _ended_lines(estimator: Estimator, stages: Sequence[StageEstimate]) -> Iterable[str]:
    """Yield the lines for a sample that does not reach the last stage."""
    yield f"With the sample a run would end before its last stage. {estimator.rehearsal.ended}"
    sampled, records = _records(estimator)
    if not estimator.documents:
        yield (  # in one of 20 cases none is seen of what is expected three times
            f"Of {counted(sampled, 'record')} of the sample none is left, so of about {records:,} at most "
            f"{round(min(1.0, 3 / max(1, sampled)) * records):,} are (95 of 100 cases)."
        )
    missing = dict.fromkeys(entry.stage for entry in estimator.planned if entry.state != "reuse")
    if left := [stage for stage in missing if stage not in {estimate.stage for estimate in stages}]:
        yield f"Not estimated: {', '.join(left)}."


def rules_that_stop(estimator: Estimator) -> Iterable[str]:
    """Yield what would stop the run: rules over their bounds, and the template that fits the texts better."""
    for entry in estimator.recipe.sources:
        name, settings = entry.source.name, entry.documents
        judged = estimator.judged.get(name)
        rules = []
        for rule in rules_over_limit(judged, settings) if judged is not None else ():
            times = estimator.scales[name].documents
            documents = round(rule.documents * times)
            whole = replace(rule, dropped=round(rule.dropped * times), documents=documents)
            rules += [str(whole)] if whole.dropped > most_dropped(documents, settings) else []
        yield from rules
        if rules:
            texts = [record.text for record in estimator.samples[name].sampled if record.drop is None]
            yield from filter(None, [template_hint(texts, name)])


def dropped(estimator: Estimator) -> dict[str, int]:
    """Count the documents that steps drop, by source and reason, the most frequent first."""
    counts: dict[str, int] = {}
    for name, judged in estimator.judged.items():
        for outcome, count in judged.ledger.account("records").outcomes.items():
            if outcome.startswith("dropped"):
                reason = f"{name}: {outcome.removeprefix('dropped: ')}"
                counts[reason] = round(count * estimator.scales[name].documents)
    most = sorted(counts.items(), key=lambda item: -item[1])[:MOST_DROPS]
    return {reason: count for reason, count in most if count}
