"""The card of a model: README.md, whose head Hugging Face's hub reads, and whose text is for people.

Its text is `model_card.jinja`; it describes its data as their own card does (`sections.jinja`).

Promise: every number comes from a manifest, a ledger, the model's metrics or the table of a suite; what is unknown is
named as unknown. Names and texts from outside are shown as they are and act on nothing (`markdown.py`). The model's own
files are copied unchanged: an artifact of a store has no card in it, so what is in stores stays as it was.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.export.cards.data_card import templates
from flows.export.cards.licenses import TAGS
from flows.export.exported import Exported, Provenance, exported, new_folder
from flows.run.addresses import Artifact
from trainer.build import read_events
from trainer.tasks.formats.published import PUBLISHED
from trainer.tasks.suites.compare import SuiteComparison, iter_conclusions
from trainer.tasks.suites.table import (
    HEAD,
    SuiteResult,
    SuiteRow,
    format_average,
    format_cells,
    format_score,
    iter_notes,
    list_unconvincing,
)

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


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """The facts that a card reports.

    name:     how the model is called
    config:   its `config.json`
    license:  under which whoever publishes it gives it to others: a tag of the hub
    made:     what it was made from; None if it is an artifact of no store
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
    def family(self) -> str:
        """The family that the configuration names."""
        return str(self.config.get("model_type", UNKNOWN))

    @property
    def guesses(self) -> bool:
        """Return whether it predicts masked tokens."""
        return bool(GUESSES & {*self.config.get("architectures", ())})

    @property
    def figures(self) -> Mapping[str, int]:
        """The figures of its training; none if it is not an artifact of a store."""
        return self.made.manifest.ledger.figures if self.made is not None else {}

    @property
    def start(self) -> str:
        """The name of the model that its training began with; "" for random weights."""
        recipe = self.made.recipe if self.made is not None else None
        start = recipe.model.settings.start if recipe is not None and recipe.model is not None else None
        return Path(start).name if start else ""

    @property
    def held_out(self) -> Mapping[str, Any] | None:
        """The last evaluation on held-out text."""
        events = read_events(self.made.place, self.made.manifest) if self.made is not None else ()
        evaluations = [event for event in events if event["event"] == "evaluation"]
        return evaluations[-1] if evaluations else None

    @property
    def training_data(self) -> list[Exported]:
        """The shard sets that it was trained on, as far as they are in the store."""
        made = self.made
        shard_sets = made.of_kind("shards") if made is not None else ()
        return [exported(Artifact(place=made.place, manifest=manifest)) for manifest in shard_sets if made is not None]


def export_with_card(facts: CardFacts, model: Path, target: Path) -> None:
    """Copy a model's files to a new folder, with its card. Raises InputError."""
    with new_folder(target) as folder:
        for name in FILES:
            if (model / name).is_file():
                shutil.copyfile(model / name, folder / name)
        (folder / CARD).write_text(model_card(facts), encoding="utf-8")


def model_card(facts: CardFacts) -> str:
    """Return the card of a model. A name that comes only from this store, and not from the hub, is `local/NAME`."""
    data = facts.training_data
    return (
        templates()
        .get_template("model_card.jinja")
        .render(
            facts=facts,
            data=data,
            languages=sorted({name for each in data for name in each.language_codes}),
            sources=sorted({name for each in data for name in each.licenses}),
            stated={name for each in data for name in each.stated},
            unknown=UNKNOWN,
            head=HEAD,
            tuned=TUNED,
            format_average=format_average,
            bare=bare,
            benchmarks=benchmarks,
            format_cells=format_cells,
            format_score=format_score,
            iter_notes=iter_notes,
            list_unconvincing=list_unconvincing,
            iter_conclusions=iter_conclusions,
        )
    )


def benchmarks(result: SuiteResult) -> Iterator[dict[str, Any]]:
    """Yield each task and split as the hub calls it, with its rows: one for every metric after fine-tuning."""
    splits: dict[tuple[str, str], list[SuiteRow]] = {}
    for row in result.rows:
        splits.setdefault((row.task, row.split), []).append(row)
    for (task, split), rows in splits.items():
        name = split.partition(" ")[0] if " " in split else task
        benchmark, _, config = name.partition("/")
        hub, called = HUB_SETS.get(benchmark), split.rpartition(" ")[2]
        yield {
            "task": task,
            "kind": TASK_TYPES.get(benchmark, "text-classification") if name in PUBLISHED else "other",
            "type": hub or f"local/{bare(name)}",
            "name": name,
            "config": HUB_CONFIGS.get(config, config) if hub else "",
            "split": HUB_SPLITS.get(called, called) if hub else called,
            "rows": rows,
        }


def bare(name: str) -> str:
    """Return a name of letters, digits, dots and hyphens, as the hub takes it.

    >>> bare("glue/mnli-mm"), bare("  my model ")
    ('glue-mnli-mm', 'my-model')
    """
    return re.sub(r"[^\w.-]+", "-", name.strip(), flags=re.ASCII).strip("-.") or UNKNOWN


def license_choices() -> tuple[str, ...]:
    """Return the hub's tags that a card may state."""
    return (UNKNOWN, "other", *sorted({*TAGS.values()}))
