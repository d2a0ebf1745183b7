"""The first steps of a run, looked at by all processes together: what `health.py` finds stops them or is told."""

from collections.abc import Iterator, Mapping, Sequence

from trainer.jobs.job import TrainingJob
from trainer.objectives.contract import Term
from trainer.training.feed import STEP_COUNTS, Step
from trainer.training.health import FIRST_STEPS, FirstTexts, Health, judged_texts, stop_or_tell
from trainer.training.lines import Noted
from trainer.training.parallel import Ranks

PAIR = "pair"
OF_TEACHER = {"soft", "cosine"}


class FirstSteps:
    """What is looked at of a run; nothing where `training.health_checks` is off."""

    def __init__(self, health: Health | None, texts: FirstTexts, judged_at: int, ranks: Ranks) -> None:
        self._health = health
        self._texts = texts
        self._judged_at = judged_at
        self._ranks = ranks

    @staticmethod
    def of(job: TrainingJob, terms: Sequence[Term], ranks: Ranks) -> "FirstSteps":
        """Of a job's run."""
        health = Health(
            vocab_size=job.inputs.vocab_size,
            terms=[term.name for term in terms],
            new_weights=has_new_weights(job, terms),
            warmup=job.training.warmup_steps,
        )
        texts = FirstTexts(special_ids=job.inputs.special_ids)
        judged_at = min(FIRST_STEPS, job.training.steps)
        return FirstSteps(health if job.training.health_checks else None, texts, judged_at, ranks)

    def wants(self, step: int) -> bool:
        """Whether a step is to be looked at, whether or not it has a line in the log."""
        return self._health is not None and step <= self._judged_at

    def read(self, step: Step) -> None:
        """The examples of a step, if it is one of the first."""
        for micro_batch in step.micro_batches if self.wants(step.number) else ():
            labels = micro_batch.batch.targets.get(PAIR)
            self._texts.add(micro_batch.batch.ids.numpy(), None if labels is None else labels.numpy())

    def look(self, noted: Noted, losses: Mapping[str, float], norm: float) -> Iterator[str]:
        """What is to be told of a step. Raises InputError where nothing can come of the run. All must call it.

        losses: as `losses_of`; norm: of the gradient
        """
        if self._health is None:
            return
        number, counts = noted.step.number, noted.step.counts[len(STEP_COUNTS) :].tolist()
        of_terms = {name: losses[f"{name}_loss"] for name in self._health.terms}
        findings = self._health.look(number, of_terms, dict(zip(of_terms, counts, strict=True)), norm)
        if number == self._judged_at:
            findings += judged_texts(self._ranks.total(self._texts.counts.tolist()))
        yield from stop_or_tell(findings)


def has_new_weights(job: TrainingJob, terms: Sequence[Term]) -> bool:
    """Whether a run begins with weights that know nothing: of no other model, and not of a teacher's layers."""
    return job.start is None and not OF_TEACHER & {term.name for term in terms}
