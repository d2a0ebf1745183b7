"""What a plan says of its estimates: what was sampled, what could not be, and between which bounds a figure is."""

from collections.abc import Iterable, Mapping, Sequence

from flows.run.accounts import readable_bytes
from flows.run.estimates import limits
from flows.run.estimates.estimator import Estimator
from flows.run.estimates.figures import StageEstimate
from flows.run.estimates.limits import KeptRange
from flows.run.estimates.sampling import SourceSample
from flows.run.units import counted


def basis_lines(
    samples: Mapping[str, SourceSample],
    estimator: Estimator,
    stages: Sequence[StageEstimate],
    ranges: Mapping[str, Sequence[int]],
) -> Iterable[str]:
    """What estimates rest on, and what they cannot say, in lines."""
    yield _sampled_line(samples)
    if short := [name for name, sample in samples.items() if sample.cut_short]:
        yield f"The sample of {', '.join(short)} was cut short, for reading it took long."
    if faulty := {name: sample.unreadable for name, sample in samples.items() if sample.unreadable}:
        yield f"Of {', '.join(faulty)}, {counted(sum(faulty.values()), 'file')} of the sample cannot be read."
    if estimator.rehearsal.ended:
        yield from _ended_lines(samples, estimator, stages)
    if ranges:
        yield _copies_line(estimator.copies(), ranges)
    if estimator.rehearsal.unseen and estimator.text > 1:
        yield "Tokens are counted with vocabularies that were trained on the sample."
    if not estimator.recorded:
        yield "Times are those of the sample on this machine, alone: no run of this store shows what its stages take."


def _sampled_line(samples: Mapping[str, SourceSample]) -> str:
    raw, read = (sum(getattr(sample, name) for sample in samples.values()) for name in ("raw_bytes", "read_bytes"))
    strata = [stratum for sample in samples.values() for stratum in sample.strata]
    sampled, records = sum(len(stratum.sampled) for stratum in strata), sum(stratum.records for stratum in strata)
    if all(sample.whole for sample in samples.values()):
        return f"Estimated from all {counted(sampled, 'record')}, judged by the recipe's own steps."
    share = f" in {readable_bytes(read)} of {readable_bytes(raw)} of raw files" if read < raw else ""
    return f"Estimated from {sampled:,} of about {round(records):,} records{share}, judged by the recipe's own steps."


def _ended_lines(
    samples: Mapping[str, SourceSample], estimator: Estimator, stages: Sequence[StageEstimate]
) -> Iterable[str]:
    """What is said where the sample does not come to the last stage, and what bounds the stages after it."""
    yield f"With the sample a run would end before its last stage. {estimator.rehearsal.ended}"
    strata = [stratum for sample in samples.values() for stratum in sample.strata]
    sampled, records = sum(len(stratum.sampled) for stratum in strata), sum(stratum.records for stratum in strata)
    characters = sum(stratum.characters for stratum in strata)
    if not estimator.documents:
        yield limits.nothing_seen(sampled, records)
        characters *= min(1.0, limits.most_seen(0) / max(1, sampled))
    missing = dict.fromkeys(entry.stage for entry in estimator.planned if entry.state != "reuse")
    if left := [stage for stage in missing if stage not in {found.stage for found in stages}]:
        yield f"Not estimated: {', '.join(left)}. A token has a byte at least: at most {round(characters):,} tokens."


def _copies_line(copies: KeptRange, ranges: Mapping[str, Sequence[int]]) -> str:
    said = ", ".join(f"{name} {low:,} to {high:,}" for name, (low, high) in ranges.items())
    return (
        f"Copies grow with a corpus, and a sample sees few of them: of the documents {round(copies.low):,} to "
        f"{round(copies.high):,} may be no copy of another (95 of 100 cases, copies in pairs). So: {said}."
    )
