"""The settings of `cloze embed`, used by the command and by its job. Nothing heavy is imported."""

from dataclasses import dataclass

from corpora.errors import InputError

UNITS = ("text", "word", "token")
COMBINATIONS = ("concat", "sum", "mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSettings:
    """The settings of `cloze embed`: the units that get a vector, and how vectors are computed."""

    by: str = "text"
    """The unit that gets a vector: text, word or token."""
    layers: tuple[int, ...] = (-1,)
    """A layer to read: 1 is the first, -1 the last, 0 what enters the first; may be repeated."""
    combine: str = "concat"
    """How to combine several layers: concat, sum or mean."""
    pooling: str = ""
    """How to pool a text's tokens: mean, cls, max, ...; default: as in training or the folder."""
    prompt: str = ""
    """The folder's prompt to put before each text: query, passage, ...; default: its own."""
    side: str = "first"
    """second: use the encoder of passages of a model that has two."""
    precision: str = "float32"
    """Type of the stored numbers: float32 or float16."""
    max_length: int | None = None
    """Cut texts after this many tokens."""

    def __post_init__(self) -> None:
        from corpora.store.settings import COUNT, check_choice
        from trainer.tasks.kinds.vectors import check_pooling

        check_choice("by", self.by, UNITS)
        check_choice("combine", self.combine, COMBINATIONS)
        check_pooling(self.pooling)
        check_choice("side", self.side, ("first", "second"))
        check_choice("precision", self.precision, ("float32", "float16"))
        if self.max_length is not None:
            COUNT.check("max_length", self.max_length)
        if not self.layers or len({*self.layers}) < len(self.layers):
            raise InputError("layers: name one or more, each once: -1 is the last.")
        if self.prompt and self.by != "text":
            raise InputError("A prompt is put before whole texts: leave it out for words and tokens.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of a search among vectors, and of the training rows made from it."""

    query: str = ""
    """A query, or a file of queries: find the texts of FILE that are most like each."""
    top: int = 10
    """Texts to show for each query."""
    judgements: str = ""
    """Which texts are relevant to which query (qrels): report nDCG, MRR, MAP and recall."""
    training: str = ""
    """File for rows of the task retrieval, made from the judgments."""
    pairs: str = ""
    """File for rows of a model that reranks, made from the judgments."""
    negatives: int = 1
    """Irrelevant texts for each relevant one in these rows."""

    def __post_init__(self) -> None:
        from corpora.store.settings import COUNT, POSITION

        COUNT.check("top", self.top)
        POSITION.check("negatives", self.negatives)
        if self.judgements and not self.query:
            raise InputError("Judgements are of queries, and none are given: name them (--query FILE).")
        if (self.training or self.pairs) and not self.judgements:
            raise InputError("Training rows are made from judgements: name these (--judgements FILE).")
