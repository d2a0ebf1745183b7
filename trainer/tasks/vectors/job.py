"""The job of `embed` as the trainer's process reads it. No torch."""

from dataclasses import dataclass, field

from corpora.errors import InputError
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.vectors.settings import EmbedSettings, SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedJob:
    """Vectors of a file's records, and a search among them.

    model:   a model's folder
    file:    texts, or vectors that an earlier job wrote
    output:  the file to write; "": `file` has the vectors
    queries: the file of the queries; its path is "" if nothing is searched
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
