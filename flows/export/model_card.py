"""The card of a model: README.md, whose head Hugging Face's hub reads, and whose text is for people.

Promise: every number comes from a manifest, a ledger, the model's metrics or the table of a suite; what is not known is
said to be so. Names and texts from outside are shown as they are and act on nothing (`markdown.py`). The model's own
files are copied as they are: an artifact of a store has no card in it, so what is in stores stays as it was.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.export import sections
from flows.export.counts import count_documents
from flows.export.exported import Exported, share
from flows.export.files import FORMATS
from flows.export.folder import new_folder
from flows.export.licenses import TAGS, license_tags
from flows.export.markdown import code, fenced, plain, table, yaml_lines
from flows.export.provenance import Provenance, provenance_of
from flows.run.addresses import Artifact
from flows.run.units import counted
from trainer.build import read_events
from trainer.tasks.formats.published import PUBLISHED
from trainer.tasks.suites.comparing import SuiteComparison, verdict_lines
from trainer.tasks.suites.table import HEAD, SuiteResult, SuiteRow, average_line, cells_of, hundredfold, notes

CARD = "README.md"
CONFIG = "config.json"
FILES = (
    *(CONFIG, "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
)
UNKNOWN = "unknown"
TASK_TYPES = {"glue": "text-classification", "superglue": "text-classification", "squad": "question-answering"}
HUB_SETS = {"glue": "nyu-mll/glue", "superglue": "aps/super_glue"}
HUB_CONFIGS = {"mnli": "mnli_matched", "mnli-mm": "mnli_mismatched"}  # where it is not the set's own name
HUB_SPLITS = {"dev": "validation"}
TUNED = ("epochs", "batch", "learning_rate", "warmup", "weight_decay", "layer_decay", "schedule")
GUESSES = {"BertForPreTraining", "BertForMaskedLM", "RobertaForMaskedLM", "AlbertForMaskedLM", "AlbertForPreTraining",
           "DistilBertForMaskedLM", "ModernBertForMaskedLM", "ElectraForMaskedLM"}  # fmt: skip
_LANGUAGE = re.compile("[a-z]{2,3}")


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What a card tells of.

    name:     how the model is called
    config:   its `config.json`
    license:  under which whoever publishes it gives it to others: a tag of the hub
    made:     what it was made from; None where it is an artifact of no store
    tuned:    by task the settings of its fine-tuning
    """

    name: str
    config: Mapping[str, Any]
    license: str
    made: Provenance | None
    result: SuiteResult
    comparison: SuiteComparison | None
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def training_data(self) -> list[Exported]:
        """The shard sets that it was trained on, as far as they are in the store."""
        return [_shards(self.made, manifest.folder) for manifest in self.made.of_kind("shards")] if self.made else []


def _shards(made: Provenance, folder: str) -> Exported:
    """A shard set with the documents behind it."""
    manifest = next(manifest for manifest in made.chain if manifest.folder == folder)
    found = provenance_of(Artifact(place=made.place, manifest=manifest))
    chosen = manifest.settings.get("sources") or ()
    documents = count_documents(found.place, found.corpus, chosen) if found.corpus is not None else None
    return Exported(
        provenance=found, format=FORMATS["parquet"], schema=pa.schema([]), files=(), extra=(), units={},
        documents=documents,
    )  # fmt: skip


def export_with_card(facts: CardFacts, model: Path, target: Path) -> None:
    """Copy a model's files to a folder that is not there yet, with its card. Raises InputError."""
    with new_folder(target) as folder:
        for name in FILES:
            if (model / name).is_file():
                shutil.copyfile(model / name, folder / name)
        (folder / CARD).write_text(model_card(facts), encoding="utf-8")


def model_card(facts: CardFacts) -> str:
    """The card of a model."""
    data = facts.training_data
    return "\n".join(["---", *yaml_lines(metadata(facts, data)), "---", "", *_body(facts, data)]) + "\n"


# The head.


def metadata(facts: CardFacts, data: list[Exported]) -> dict[str, Any]:
    """What programs read. What has its name from this store alone, and not from the hub, is `local/NAME`."""
    languages = sorted({name for each in data for name in each.languages if _LANGUAGE.fullmatch(name)})
    sources = sorted({name for each in data for name in each.licenses})
    recipe = facts.made.recipe if facts.made is not None else None
    start = recipe.model.settings.start if recipe is not None and recipe.model is not None else ""
    guesses = GUESSES & {*facts.config.get("architectures", ())}
    return {
        "license": facts.license,
        **({"language": languages} if languages else {}),
        "library_name": "transformers",
        **({"pipeline_tag": "fill-mask"} if guesses else {}),
        "tags": ["cloze", str(facts.config.get("model_type", UNKNOWN))],
        **({"datasets": [f"local/{_bare(name)}" for name in sources]} if sources else {}),
        **({"base_model": f"local/{_bare(Path(start).name)}"} if start else {}),
        "model-index": [{"name": _bare(facts.name), "results": list(_results(facts.result))}],
    }


def _results(result: SuiteResult) -> Iterator[dict[str, Any]]:
    """Of each task and split its metrics, after fine-tuning."""
    splits: dict[tuple[str, str], list[SuiteRow]] = {}
    for row in result.rows:
        splits.setdefault((row.task, row.split), []).append(row)
    for (task, split), rows in splits.items():
        of = split.partition(" ")[0] if " " in split else task
        benchmark, _, config = of.partition("/")
        called = split.rpartition(" ")[2]
        kind = TASK_TYPES.get(benchmark, "text-classification") if of in PUBLISHED else "other"
        known = HUB_SETS.get(benchmark)
        yield {
            "task": {"type": kind, "name": f"{task}, fine-tuned"},
            "dataset": {
                "type": known or f"local/{_bare(of)}",
                "name": of,
                **({"config": HUB_CONFIGS.get(config, config)} if known else {}),
                "split": HUB_SPLITS.get(called, called) if known else called,
            },
            "metrics": [
                {"type": row.metric, "value": round(100 * row.median, 2), "name": f"{row.metric}, median of "
                 f"{counted(len(row.scores), 'seed')}"}
                for row in rows
            ],
        }  # fmt: skip


def _bare(name: str) -> str:
    """A name of letters, digits, dots and hyphens, as the hub takes it.

    >>> _bare("glue/mnli-mm"), _bare("  my model ")
    ('glue-mnli-mm', 'my-model')
    """
    return re.sub(r"[^\w.-]+", "-", name.strip(), flags=re.ASCII).strip("-.") or UNKNOWN


# The body.


def _body(facts: CardFacts, data: list[Exported]) -> Iterator[str]:
    yield from (f"# {plain(facts.name)}", "", _what_it_is(facts), "")
    yield from _use(facts)
    yield from _results_section(facts)
    yield from _data_sections(facts, data)
    yield from _training(facts)
    yield from _limits(facts, data)


def _what_it_is(facts: CardFacts) -> str:
    config = facts.config
    layers = config.get("num_hidden_layers", config.get("n_layers", UNKNOWN))
    width = config.get("hidden_size", config.get("dim", UNKNOWN))
    figures = facts.made.manifest.ledger.figures if facts.made else {}
    weights = f", {figures['parameters']:,} parameters" if "parameters" in figures else ""
    return (
        f"An encoder of the family {plain(str(config.get('model_type', UNKNOWN)))}, made by Cloze: {layers} layers of "
        f"{width}, a vocabulary of {config.get('vocab_size', UNKNOWN)} tokens, at most "
        f"{config.get('max_position_embeddings', UNKNOWN)} positions{weights}. It is meant to be fine-tuned; the "
        "numbers below are of models that were fine-tuned from it."
    )


def _use(facts: CardFacts) -> Iterator[str]:
    lines = [
        "from transformers import AutoModel, AutoTokenizer",
        "",
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        'model = AutoModel.from_pretrained(".")',
        'states = model(**tokenizer("A text.", return_tensors="pt")).last_hidden_state',
    ]
    yield from ("## Use", "", "In this folder:", "", *fenced("\n".join(lines), "python"))


def _results_section(facts: CardFacts) -> Iterator[str]:
    result = facts.result
    yield from ("## Results", "")
    yield from (f"The suite {plain(result.suite)}, each task learnt from {counted(len(result.seeds), 'seed')}:", "")
    yield from table(HEAD, [[plain(cell) for cell in cells_of(row)] for row in result.rows])
    if result.average is not None:
        yield from (average_line(result), "")
    for note in notes(result):
        yield from (note, "")
    if facts.tuned:
        yield from ("Fine-tuned with:", "")
        rows = [[plain(task), *(f"{settings[key]}" for key in TUNED)] for task, settings in facts.tuned.items()]
        yield from table(("task", *(name.replace("_", " ") for name in TUNED)), rows)
    if facts.comparison is not None:
        yield from (f"Next to {plain(facts.comparison.second)}, on the same examples:", "")
        for line in verdict_lines(facts.comparison):
            yield f"- {plain(line, 2_000)}"
        yield ""


def _data_sections(facts: CardFacts, data: list[Exported]) -> Iterator[str]:
    """The data card's own, of every shard set."""
    yield from ("## Training data", "")
    if not data:
        yield from ("Not known: the model is no artifact of a store that has what it was trained on.", "")
        return
    for content in data:
        if len(data) > 1:
            yield from (f"The shard set {code(content.provenance.manifest.folder)}:", "")
        told = (sections.sources, sections.documents, sections.tokens, sections.licenses, sections.languages,
                sections.safeguards)  # fmt: skip
        for section in told:
            yield from (f"#{line}" if line.startswith("## ") else line for line in section(content))


def _training(facts: CardFacts) -> Iterator[str]:
    """The recipe, the hyper-parameters, and what training came to."""
    yield from ("## Training", "")
    if facts.made is None:
        yield from ("Not known: the model is an artifact of no store.", "")
        return
    manifest = facts.made.manifest
    figures = manifest.ledger.figures
    yield (
        f"{counted(figures.get('steps', 0), 'step')}, {counted(figures.get('tokens', 0), 'token')} read, "
        f"{figures.get('masked tokens', 0):,} of them masked. The artifact is {code(manifest.folder)}, its content "
        f"{code(manifest.content)}."
    )
    yield ""
    for name in ("model", "training"):
        yield from _settings(name, manifest.settings.get(name, {}))
    yield from _held_out(facts.made)
    content = Exported(
        provenance=facts.made, format=FORMATS["parquet"], schema=pa.schema([]), files=(), extra=(), units={},
        documents=None,
    )  # fmt: skip
    for section in (sections.recipe, sections.artifacts, sections.versions):
        yield from (f"#{line}" if line.startswith("## ") else line for line in section(content))


def _settings(name: str, settings: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (code(key), code(json.dumps(value, ensure_ascii=False), 500))
        for key, value in settings.items()
        if value not in (None, [], {}, "")
    ]
    yield from (f"### Settings of the {name}", "")
    yield from table(("key", "value"), rows)


def _held_out(made: Provenance) -> Iterator[str]:
    """What the last evaluation on held-out text came to."""
    judged = [event for event in read_events(made.place, made.manifest) if event["event"] == "evaluation"]
    if not judged:
        return
    last = judged[-1]
    rows = [(plain(name.replace("_", " ")), f"{value:.4g}") for name, value in last.items()
            if isinstance(value, float)]  # fmt: skip
    yield from (f"On held-out text, after step {last['step']:,}:", "")
    yield from table(("what", "value"), rows)


def _limits(facts: CardFacts, data: list[Exported]) -> Iterator[str]:
    """What the numbers say of the limits; nothing else is claimed."""
    yield from ("## Limits", "", "What follows is counted, not judged:", "")
    for row in facts.result.rows:
        if row.majority is not None and (row.interval[0] if row.interval else row.median) <= row.majority:
            yield (
                f"- {plain(row.task)}, {plain(row.split)}: {row.metric} {hundredfold(row.median)} is not surely more "
                f"than one answer to everything has ({hundredfold(row.majority)})."
            )
    for content in data:
        yield from _of_one_kind(content)
    yield f"- It reads at most {facts.config.get('max_position_embeddings', UNKNOWN)} positions; what is longer is cut."
    stated = {name for content in data for counts in content.licenses.values() for name in counts}
    if facts.license == UNKNOWN:
        yield (
            "- No licence is stated for the model: whoever publishes it has to choose one. The texts that it learnt "
            f"from are under {', '.join(map(plain, license_tags(stated)))}."
        )
    yield "- It says what its texts say. Nothing was measured of truth, toxicity, stereotypes or who is spoken of."
    yield ""


def _of_one_kind(content: Exported) -> Iterator[str]:
    """How much of the documents is of one source, and in one language."""
    if content.documents is None or not content.documents.total:
        return
    whole = content.documents.total
    sums = {of[0]: number for of, number in content.documents.by("source").items()}
    largest = max(sums, key=lambda name: (sums[name], name))
    yield f"- {share(sums[largest], whole)} of its {counted(whole, 'document')} are of one source, {plain(largest)}."
    for language, number in list(content.languages.items())[:1]:
        yield f"- {share(number, whole)} of them are in one language: {plain(language) or UNKNOWN}."


def license_choices() -> tuple[str, ...]:
    """The hub's tags that a card may state."""
    return (UNKNOWN, "other", *sorted({*TAGS.values()}))
