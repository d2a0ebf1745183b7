"""A corpus that grows by generations, built stage by stage from a few records."""

import json
from pathlib import Path
from typing import Any

from corpora.build import Corpus, Generation, plan_corpus
from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.duplicates.candidates import Input, SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.judging.documents import plan_documents
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.rules import GopherRules, RulesSettings
from corpora.sources.contract import StatCache, hash_files
from corpora.sources.files.source import FilesSource
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from corpora.store.tables import read_table
from corpora.tombstones import Tombstones

SENTENCES = (
    "The {0} and the {1} of the village have to be mended. It is late in {2}. They come with {3} men of the {0}."
)
SETTINGS = DocumentsSettings(rules=RulesSettings(gopher=GopherRules(min_words=5)), part_bytes=1)


def body(number: int) -> str:
    """A text that shares few shingles with another number's."""
    return (
        SENTENCES.format(*(f"{word}{number}" for word in ("bridge", "mill", "winter", "strong")))
        + f" It ends {number}."
    )


class Builder:
    """Sources and generations built stage by stage, as the run does it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = Place(str(folder / "store"))
        self.generations: list[Generation] = []
        self.inputs: list[Input] = []

    def add(self, *lines: dict[str, Any], files: int = 1) -> Corpus:
        """One more generation of keyed records (without an id: by their bytes), spread over files."""
        number = len(self.generations) + 1
        raw = self.folder / f"raw-{number}"
        raw.mkdir()
        for file in range(files):
            text = "".join(json.dumps(line) + "\n" for line in lines[file::files])
            (raw / f"{file}.jsonl").write_text(text)
        keyed = all("id" in line for line in lines)
        fields = {"text": "text", "key": "id", "revision": "rev"} if keyed else {"text": "text"}
        source = FilesSource(name="own", path=str(raw), fields=fields)
        hashed = hash_files(source.files(), StatCache())
        parsed = build_stage(self.place, plan_documents(source, hashed, SETTINGS))
        sketched = build_stage(self.place, plan_signatures(parsed, DuplicateSettings()))
        self.inputs.append(Input(generation=number, priority=1, documents=parsed, signatures=sketched))
        stage = plan_verdicts("own", self.inputs, DuplicateSettings(), SplitSettings(share=0.5), Tombstones())
        verdicts = build_stage(self.place, stage)
        self.generations.append(Generation(number=number, inputs=tuple(self.inputs), verdicts=verdicts))
        return Corpus(self.place, build_stage(self.place, plan_corpus(self.place, "own", self.generations)))

    def rows(self, manifest: Manifest, table: str) -> list[dict[str, Any]]:
        return [row for batch in read_table(self.place, manifest, table) for row in batch.to_pylist()]


def line(id: int, text: str, rev: int = 1) -> dict[str, Any]:
    return {"id": str(id), "text": text, "rev": rev}
