"""The settings of `embed` and `search`. No torch."""

from dataclasses import dataclass, field

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.kinds.vectors import check_pooling

BY = ("text", "word", "token")
COMBINED = ("concat", "sum", "mean")
MOST_NEGATIVES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSettings:
    """The vectors that are asked for.

    by:         "text", "word" or "token": what has a vector
    layers:     of which layers: 1 is the first, -1 the last, 0 what enters the first
    combine:    of several layers the vectors side by side ("concat"), their "sum" or "mean"
    pooling:    of a text's tokens, special ones included: "mean", "cls", "max" or others, as of the task `similarity`;
                "": as in training, or as the folder says, with what it has after a pooling; else mean
    prompt:     name of the folder's prompt that is put before each text; "": its default one
    side:       "first" or "second": by which encoder, where a model has one for queries and one for passages
    precision:  "float32" or "float16", as they are stored
    max_length: tokens of a text, special ones included; None: as in training, else all that the model reads
    """

    by: str = "text"
    layers: tuple[int, ...] = (-1,)
    combine: str = "concat"
    pooling: str = ""
    prompt: str = ""
    side: str = "first"
    precision: str = "float32"
    max_length: int | None = None

    def __post_init__(self) -> None:
        check_choice("by", self.by, BY)
        check_choice("combine", self.combine, COMBINED)
        check_pooling(self.pooling)
        check_choice("side", self.side, ("first", "second"))
        check_choice("precision", self.precision, ("float32", "float16"))
        if not self.layers or len({*self.layers}) < len(self.layers):
            raise InputError("layers: name one or more, each once: -1 is the last.")
        if self.prompt and self.by != "text":
            raise InputError("A prompt is put before whole texts: leave it out for words and tokens.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedJob:
    """Vectors of a file's records. model: a model's folder; output: the file to write"""

    model: str
    file: FileSettings
    output: str
    settings: EmbedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchJob:
    """The settings of a search.

    model:       a model's folder; "": both files hold vectors
    corpus, queries: texts, or vectors that `embed` wrote
    vectors:     of a collection of texts, as `embed` wrote them; "": they are made
    top:         documents of a query
    output:      file for the run; "": none
    judgements:  qrels; "": none
    rerank:      folder of a fine-tuned model of pairs, which scores the `top` again
    relevant:    of a reranking model with classes, the one that says a document answers; "": the last
    index_above: vectors of a collection above which an index is asked instead of all of them
    training:    file for rows of the task `retrieval`: query, positive, negatives found
    pairs:       file for rows of a cross-encoder: text, second, label 0 or 1
    negatives:   for each relevant document, so many that were found and are not judged relevant
    """

    corpus: FileSettings
    queries: FileSettings
    model: str = ""
    vectors: str = ""
    top: int = 100
    output: str = ""
    judgements: str = ""
    rerank: str = ""
    relevant: str = ""
    index_above: int = 1_000_000
    training: str = ""
    pairs: str = ""
    negatives: int = 1
    settings: EmbedSettings = field(default_factory=EmbedSettings)

    def __post_init__(self) -> None:
        check_range("top", self.top, 1, 1_000_000)
        check_range("negatives", self.negatives, 0, MOST_NEGATIVES)
        if (self.training or self.pairs) and not self.judgements:
            raise InputError(
                "Training rows are made from judgements, but none are given: name them (--judgements FILE)."
            )
        if self.settings.by != "text":
            raise InputError('Texts are searched, not their words: leave `by` at "text".')
