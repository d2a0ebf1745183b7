"""Builds the first parts of a run while its orchestrator starts, which takes as long as a small run.

Promise: the run goes through its stages as it would have, with the surveys from before this began. The task of a range
waits for those of its parts that are under way, and finds those that are finished in the store. What fails here is
tried again there, and told there. All workers but one take part: one core is left to the server.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice

from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, Survey, build_parts
from flows.engines.contract import RunEngine

MOST_PARTS = 1_000  # a server has long answered by then


class HeadStart:
    """The first stages that the store lacks, each with its survey, and what is under way of their parts."""

    def __init__(self, stages: Sequence[tuple[Stage, Survey]] = ()) -> None:
        self._stages = stages
        self._surveys = {stage.folder: survey for stage, survey in stages}
        self._under_way: Mapping[tuple[str, str], Future[object]] = {}
        self._over = threading.Event()

    @contextmanager
    def begun(self, place: Place, engine: RunEngine) -> Iterator[None]:
        """Build parts on an engine during the block, until a survey is asked for."""
        missing = ((stage, plan) for stage, survey in self._stages for plan in survey.missing)
        threads = ThreadPoolExecutor(max(1, engine.workers - 1), "head start")

        def build(stage: Stage, plan: PartPlan) -> None:
            if not self._over.is_set():
                engine.run(build_parts, place, stage, [plan])

        self._under_way = {
            (stage.folder, plan.name): threads.submit(build, stage.bare, plan)
            for stage, plan in islice(missing, MOST_PARTS)
        }
        try:
            yield
        finally:
            self._over.set()
            threads.shutdown(wait=False)

    def survey_of(self, stage: Stage) -> Survey | None:
        """Begin no other part; return the survey of a stage as it was before this began, once, if there is one."""
        self._over.set()
        return self._surveys.pop(stage.folder, None)

    def wait_for(self, stage: Stage, plans: Sequence[PartPlan]) -> None:
        """Wait for those of some parts that are under way, however they end; the others are not begun any more."""
        begun = (self._under_way.get((stage.folder, plan.name)) for plan in plans)
        wait([future for future in begun if future is not None and not future.cancel()])
