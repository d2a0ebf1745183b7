"""Finding passages: a vector for each query and each passage, compared by cosine or dot product (a dual encoder).

Learnt of queries with a passage that answers and, as far as there are, passages that do not: each query's passage
against those of all queries of the step and their hard negatives (Karpukhin et al. 2020, section 3.2). Judged by
ranking all passages of the evaluation rows for each of their queries: among a whole collection it is harder, which is
what `cloze search --judgements` measures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.store.settings import check_choice
from trainer.objectives.contract import Term
from trainer.tasks.kinds.naming import with_first
from trainer.tasks.kinds.similarity import MATCH
from trainer.tasks.kinds.vectors import SIMILARITIES, VectorExample, VectorTask, own_ranking, similarities, texts_of
from trainer.tasks.scores.classes import means

MEASURES = ("ndcg@10", "mrr@10", "map", "recall@1", "recall@10", "recall@100")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalTask(VectorTask):
    """Which passages answer a query.

    similarity: "cosine" or "dot"
    shared:     one encoder reads queries and passages; false: each has its own, which begin alike (Karpukhin et al.)
    metric:     by which an epoch is judged
    """

    similarity: str = "cosine"
    shared: bool = True
    metric: str = ""

    kind: ClassVar[str] = "retrieval"
    usual_length: ClassVar[int] = 256
    roles: ClassVar[tuple[str, ...]] = ("query", "positive", "negative")
    optional: ClassVar[frozenset[str]] = frozenset({"negative"})

    def __post_init__(self) -> None:
        super(RetrievalTask, self).__post_init__()
        check_choice("similarity", self.similarity, SIMILARITIES)
        _ = self.metrics

    @property
    def by(self) -> str:
        """The way in which vectors are compared."""
        return self.similarity

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, with the requested one first."""
        return with_first(self.metric, MEASURES)

    def terms(self) -> tuple[Term, ...]:
        """One."""
        return (MATCH,)

    def example(self, values: Mapping[str, Any], labelled: bool) -> VectorExample:
        """A query with its passages."""
        return VectorExample(*texts_of(values, "query", "positive"))

    def fitted(self, examples: Sequence[VectorExample], where: str) -> Self:
        """Return the task as it is. Raises InputError where a query has no other passage to choose from."""
        if len({text for example in examples for text in example.texts[1:]}) < 2:
            raise InputError(f"{where} has only one passage: there is nothing to compare it with. Give more.")
        return self

    def scores(self, examples: Sequence[VectorExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Return the scores of ranking among all passages of the examples; the first also for each smaller width."""
        every, main = self.metrics, self.metrics[:1]
        return self.at_widths(
            lambda width: means(own_ranking(examples, predictions, self.by, main if width else every, width)), main[0]
        )

    def row(self, example: VectorExample, prediction: Float32s) -> dict[str, Any]:
        """Return the similarities of query and passages, the answering one first."""
        values = similarities(prediction[:1], prediction[1:], self.by)
        return {"similarities": values.round(6).tolist()}
