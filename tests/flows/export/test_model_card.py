"""The card of a model, and what Hugging Face's own reader makes of its head."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from small_recipe import new_world, note, page, prose

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, PartWriter, Stage, build_stage
from flows.export.cards.model_card import CardFacts, export_with_card, render_model_card
from flows.export.exported import read_provenance
from flows.run.addresses import find_artifacts
from trainer.build import METRICS_TABLE
from trainer.tasks.suites.table import SuiteResult, SuiteRow

CONFIG = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 400, "num_hidden_layers": 2,
          "hidden_size": 32, "max_position_embeddings": 64}  # fmt: skip


def row(task: str, split: str, metric: str, *scores: float, majority: float | None = None) -> SuiteRow:
    return SuiteRow(
        task=task,
        split=split,
        metric=metric,
        scores=scores,
        run=1,
        interval=(scores[0] - 0.1, scores[0] + 0.1),
        majority=majority,
        examples=10,
        averaged=True,
    )


RESULT = SuiteResult(
    suite="mine <b>|",
    model="store",
    seeds=(1, 2, 3),
    rows=(
        row("glue/cola", "dev", "matthews", 0.5, 0.4, 0.6, majority=0.0),
        row("glue/cola", "dev", "accuracy", 0.7, 0.7, 0.8, majority=0.69),
        row("glue/mnli", "glue/mnli-mm dev", "accuracy", 0.8, 0.8, 0.8, majority=0.3),
        row("my own: task", "test", "f1", 0.25, 0.25, 0.25, majority=0.3),
    ),
    average=0.5,
)


def publish_model(place: Place, parents: Sequence[Manifest]) -> None:
    """A model that was made from these, without any training."""

    def build(writer: PartWriter, plan: PartPlan) -> Ledger:
        with writer.create_table("metrics", METRICS_TABLE) as sink:
            told = {"event": "evaluation", "step": 60, "phase": 1, "loss": 3.25, "masked_accuracy": 0.5,
                    "masked_tokens": 9, "tokens": 99, "sequences": 9, "deleted": 0}  # fmt: skip
            sink.write(pa.Table.from_pylist([told], METRICS_TABLE))
        account = Account(unit="slots", total=480, outcomes={"read": 480, "deleted": 0})
        figures = {"steps": 60, "parameters": 12_345, "tokens": 9_000, "masked tokens": 1_300}
        return Ledger(accounts=(account,), figures=figures)

    stage = Stage(
        kind="models",
        name="small",
        build_version=1,
        settings={"model": {"family": "bert", "layers": 2}, "training": {"learning_rate": 0.001, "schedule": ""}},
        libraries={},
        parents=tuple(manifest.as_parent() for manifest in parents),
        parts=(PartPlan(name="model", key=["small"], job=None),),
        build=build,
    )
    build_stage(place, stage)


def test_a_card_tells_what_a_model_was_made_of_and_what_it_comes_to(tmp_path: Path) -> None:
    repocard = pytest.importorskip("huggingface_hub", reason="its reader of cards is what this is held to")
    world = new_world(tmp_path)
    world.put("pages", "a", [page(str(number), prose(number)) for number in range(30)])
    world.put("notes", "a", [note(number, prose(100 + number)) for number in range(10)])
    run = world.run()
    publish_model(world.place, [run.manifest("shards"), run.manifest("vocabularies")])
    made = read_provenance(find_artifacts(world.place.address, "models")[0])
    facts = CardFacts(name="small", config=CONFIG, license="mit", provenance=made, result=RESULT, comparison=None)
    source = tmp_path / "model"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(CONFIG))
    (source / "manifest.json").write_text("{}")
    export_with_card(facts, source, tmp_path / "carded")
    assert sorted(path.name for path in (tmp_path / "carded").iterdir()) == ["README.md", "config.json"]
    card = repocard.ModelCard.load(tmp_path / "carded" / "README.md")
    found = card.data.to_dict()
    assert (found["license"], found["pipeline_tag"], found["tags"]) == ("mit", "fill-mask", ["cloze", "bert"])
    assert found["datasets"] == ["local/notes", "local/pages"]
    results = [(each.dataset_type, each.dataset_config, each.dataset_split, each.metric_type, each.metric_value)
               for each in card.data.eval_results]  # fmt: skip
    assert results == [
        ("nyu-mll/glue", "cola", "validation", "matthews", 50.0),
        ("nyu-mll/glue", "cola", "validation", "accuracy", 70.0),
        ("nyu-mll/glue", "mnli_mismatched", "validation", "accuracy", 80.0),
        ("local/my-own-task", None, "test", "f1", 25.0),
    ]
    text = card.text
    for told in (
        "12,345 parameters", "60 steps, 9,000 tokens read, 1,300 of them masked", "| `learning_rate` | `0.001` |",
        "| masked accuracy | 0.5 |", "40.0 to 60.0", "mine &lt;b&gt;\\|", "### Licences", "| pages |",
        "- glue/cola, dev: accuracy 70.0 is not surely more than one answer to everything has (69.0).",
    ):  # fmt: skip
        assert told in text, told
    assert "glue/cola, dev: matthews" not in text and str(tmp_path) not in text
    assert "Not known" not in text


def test_of_a_folder_it_says_that_its_texts_are_not_known() -> None:
    card = render_model_card(
        CardFacts(name="one", config=CONFIG, license="unknown", provenance=None, result=RESULT, comparison=None)
    )
    assert "Not known: the model is no artifact of a store that has what it was trained on." in card
    assert "Not known: the model is an artifact of no store." in card and "language:" not in card
    assert "No licence is stated for the model: whoever publishes it has to choose one." in card
