"""The job of the command `embed`, which a process of the trainer executes. No torch."""

from dataclasses import dataclass, field

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import EmbedSettings, SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedJob:
    """The job of computing the vectors of a file's records and searching among them.

    model:   folder of a model
    file:    file of texts, or a vector file that an earlier job wrote
    output:  vector file to write; "" if `file` is a vector file
    settings: the units that get a vector, and how vectors are computed
    queries: file of queries; its path is "" if nothing is searched
    search:  settings of the search
    """

    model: str
    file: FileSettings
    output: str
    settings: EmbedSettings
    queries: FileSettings = field(default_factory=lambda: FileSettings(path=""))
    search: SearchSettings = field(default_factory=SearchSettings)

    def __post_init__(self) -> None:
        if self.queries.path and self.settings.by != "text":
            raise InputError("Texts are searched, not their words: leave `by` at text.")
