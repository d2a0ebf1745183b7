"""The card of a model: README.md, with a head for the Hugging Face hub, and a text for people.

The text is `model_card.jinja`; it describes the training data as the card of the data does (`sections.jinja`).

Promise: every number comes from a manifest, its ledger (counts), the model's metrics or the table of a suite; what is
unknown is called unknown. Names and texts from outside are escaped. The model's own files are copied unchanged: an
artifact in a store has no card.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.export.cards.data_card import build_environment
from flows.export.cards.licenses import TAGS
from flows.export.exported import ExportContent, Provenance, collect_content, open_new_folder
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

CARD_FILE = "README.md"
CONFIG_FILE = "config.json"
MODEL_FILES = (
    *(CONFIG_FILE, "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
)
UNKNOWN = "unknown"
TASK_TYPES = {"glue": "text-classification", "superglue": "text-classification", "squad": "question-answering"}
HUB_SETS = {"glue": "nyu-mll/glue", "superglue": "aps/super_glue"}
HUB_CONFIGS = {"mnli": "mnli_matched", "mnli-mm": "mnli_mismatched"}  # where it is not the set's own name
HUB_SPLITS = {"dev": "validation"}
SHOWN_SETTINGS = ("epochs", "batch", "learning_rate", "warmup", "weight_decay", "layer_decay", "schedule")
MASKED_LM_CLASSES = {
    *("BertForPreTraining", "BertForMaskedLM", "RobertaForMaskedLM", "AlbertForMaskedLM", "AlbertForPreTraining"),
    *("DistilBertForMaskedLM", "ModernBertForMaskedLM", "ElectraForMaskedLM"),
}


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """The facts reported by a model card.

    Attributes:
        name: Name of the model.
        config: The content of the model's `config.json`.
        license: Hugging Face Hub tag of the model's license.
        provenance: The stored stage results from which the model was built; None if the model is not in a store.
        result: Scores of the models that were fine-tuned from this model.
        comparison: Comparison with another model; None if there is none.
        task_settings: Maps the name of each task to its fine-tuning settings.
    """

    name: str
    config: Mapping[str, Any]
    license: str
    provenance: Provenance | None
    result: SuiteResult
    comparison: SuiteComparison | None
    task_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The model type, such as "bert"."""
        return str(self.config.get("model_type", UNKNOWN))

    @property
    def predicts_masked_tokens(self) -> bool:
        """True if the model has a masked-token head."""
        return bool(MASKED_LM_CLASSES & {*self.config.get("architectures", ())})

    @property
    def figures(self) -> Mapping[str, int]:
        """Training counts by name, such as the numbers of steps and tokens; empty if the model is not in a store."""
        return self.provenance.manifest.ledger.figures if self.provenance is not None else {}

    @property
    def start_model(self) -> str:
        """The name of the model that training started from, or "" if it started from random weights."""
        recipe = self.provenance.recipe if self.provenance is not None else None
        start = recipe.model.settings.start if recipe is not None and recipe.model is not None else None
        return Path(start).name if start else ""

    @property
    def last_evaluation(self) -> Mapping[str, Any] | None:
        """The metrics of the last evaluation on held-out text; None if there was none."""
        events = read_events(self.provenance.place, self.provenance.manifest) if self.provenance is not None else ()
        evaluations = [event for event in events if event["event"] == "evaluation"]
        return evaluations[-1] if evaluations else None

    @property
    def training_data(self) -> list[ExportContent]:
        """The content of the shard sets on which the model was trained; empty if the store no longer has them."""
        if self.provenance is None:
            return []
        place, shard_sets = self.provenance.place, self.provenance.find_all("shards")
        return [collect_content(Artifact(place=place, manifest=manifest)) for manifest in shard_sets]


def export_with_card(facts: CardFacts, model: Path, target: Path) -> None:
    """Copy the files of a model to a new folder, and write a model card.

    Args:
        facts: The facts for the card.
        model: Folder of the model. Files that are not in this folder are skipped.
        target: A folder that does not exist or is empty.

    Raises:
        InputError: If the target cannot be used, or a disk error occurs.
    """
    with open_new_folder(target) as folder:
        for name in MODEL_FILES:
            if (model / name).is_file():
                shutil.copyfile(model / name, folder / name)
        (folder / CARD_FILE).write_text(render_model_card(facts), encoding="utf-8")


def render_model_card(facts: CardFacts) -> str:
    """Render a model card as Markdown. Models and data sets that are not on the Hub are called `local/NAME`."""
    data = facts.training_data
    return (
        build_environment()
        .get_template("model_card.jinja")
        .render(
            facts=facts,
            data=data,
            languages=sorted({name for each in data for name in each.language_codes}),
            sources=sorted({name for each in data for name in each.licenses}),
            stated={name for each in data for name in each.stated_licenses},
            unknown=UNKNOWN,
            head=HEAD,
            tuned=SHOWN_SETTINGS,
            format_average=format_average,
            bare=to_hub_name,
            benchmarks=iter_benchmarks,
            format_cells=format_cells,
            format_score=format_score,
            iter_notes=iter_notes,
            list_unconvincing=list_unconvincing,
            iter_conclusions=iter_conclusions,
        )
    )


def iter_benchmarks(result: SuiteResult) -> Iterator[dict[str, Any]]:
    """Yield a dictionary for each task and split of a result, for the header of a model card.

    The keys are "task", "kind" (the Hub's task type), "type", "name", "config" and "split" (of the data set, as named
    on the Hub), and "rows" (one `SuiteRow` per metric).
    """
    splits: dict[tuple[str, str], list[SuiteRow]] = {}
    for row in result.rows:
        splits.setdefault((row.task, row.split), []).append(row)
    for (task, split), rows in splits.items():
        name = split.partition(" ")[0] if " " in split else task
        benchmark, _, config = name.partition("/")
        hub, hub_split = HUB_SETS.get(benchmark), split.rpartition(" ")[2]
        yield {
            "task": task,
            "kind": TASK_TYPES.get(benchmark, "text-classification") if name in PUBLISHED else "other",
            "type": hub or f"local/{to_hub_name(name)}",
            "name": name,
            "config": HUB_CONFIGS.get(config, config) if hub else "",
            "split": HUB_SPLITS.get(hub_split, hub_split) if hub else hub_split,
            "rows": rows,
        }


def to_hub_name(name: str) -> str:
    """Replace characters that the Hugging Face Hub does not allow in a name with hyphens.

    Letters, digits, dots, underscores and hyphens are allowed. Returns UNKNOWN if nothing is left.

    >>> to_hub_name("glue/mnli-mm"), to_hub_name("  my model ")
    ('glue-mnli-mm', 'my-model')
    """
    return re.sub(r"[^\w.-]+", "-", name.strip(), flags=re.ASCII).strip("-.") or UNKNOWN


def list_license_choices() -> tuple[str, ...]:
    """List the Hugging Face Hub license tags that a model card may use, starting with "unknown" and "other"."""
    return (UNKNOWN, "other", *sorted({*TAGS.values()}))
