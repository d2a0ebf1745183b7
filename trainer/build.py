"""The models stage: shards in, a trained model out, as a folder that Hugging Face's classes open. No torch.

    shards of every phase, vocabulary ─► job ─► training, in separate processes (trainer.launch) ─► work/export
                                                           └► config.json, model.safetensors, the vocabulary's files,
                                                              and the table of metrics

The stage has one part. Its fingerprint depends on the settings and on the contents of shards and vocabulary, but not on
the number of processes or on how often the run was interrupted. `work` is next to the part's files in a local store;
for an object store it is under `~/.cache/cloze`.

A file of the export is published only if it still has the bytes that were written.

In the ledger, slots = read + deleted, in total and for each phase and shard set. Memory: twice the size of the model's
file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.checked_folder import describe_bytes
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Manifest
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.settings import to_settings_json
from corpora.store.stage import PartPlan, Stage
from corpora.store.tables import read_table
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.config import read_tokenizer_files
from trainer.huggingface.start_model import check_special_ids, check_teacher, list_new_heads
from trainer.job import (
    CACHE,
    JobInput,
    SettledTraining,
    TrainingJob,
    build_seen_ledger,
    describe_repeats,
    settle_phases,
)
from trainer.launch import train
from trainer.metrics import METRICS_FILE, read_metrics
from trainer.settings.model import ModelSettings, to_model_json
from trainer.settings.training import TrainingSettings
from trainer.start_weights import StartModel, find_origin

BUILD_VERSION = 2

COMPONENT_PREFIX = "evaluation of "  # how the event begins that judges one component of a mixture

FIGURES = (
    *("loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy", "rare_word_accuracy"),
    *("unigram_entropy", "unigram_loss", "learning_rate", "gradient_norm"),
)
METRICS_TABLE = pa.schema(
    [
        pa.field("event", pa.string(), nullable=False),  # "step", "evaluation", "evaluation of NAME" of a component
        pa.field("step", pa.int64(), nullable=False),
        pa.field("phase", pa.int32(), nullable=False),
        *(pa.field(name, pa.float64()) for name in FIGURES),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("masked_tokens", "tokens", "sequences", "deleted")),
    ]
)


def plan_model(
    place: Place,
    name: str,
    shards: Sequence[Manifest],
    vocabulary: Manifest,
    model: ModelSettings,
    training: TrainingSettings,
    start: StartModel | None = None,
    teacher: StartModel | None = None,
) -> Stage:
    """Plan the pipeline stage that trains a model and publishes its files. Nothing is trained or written yet.

    Args:
        place: The store.
        name: The name of the model.
        shards: The shard sets of all phases, in phase order. A phase with a mixture has one shard set per component, in
            the mixture's order.
        vocabulary: The vocabulary of the shards.
        model: The settings of the model.
        training: The settings of the training run.
        start: The model that training starts from; None for random weights. It must match the settings and the
            vocabulary.
        teacher: The model that a student learns from; None for other objectives.

    Returns:
        The stage. Its single part holds the `TrainingJob`.

    Raises:
        InputError: If shards have another vocabulary, no masks, or examples that are too long for the model or the
            token budget; if shards cannot be mixed; or if the student cannot learn from the teacher.
    """
    _check_phases(shards, vocabulary, model, training)
    models = Path(place.to_full_path("")) if place.is_local else CACHE.expanduser()
    origin = find_origin(training, models, model, vocabulary.content)
    if origin is not None and start is not None:
        raise InputError(
            "model.start and training.continue_from both set what the training begins with: leave out one of them. "
            "The first brings weights alone, the second weights, optimizer and place in the shards."
        )
    before = {} if origin is None else origin.read
    settled = settle_phases(training, shards, before)
    facts = settled.shards[0].facts
    inputs = ModelInputs(
        vocab_size=facts["vocab_size"],
        special_ids=SpecialIds.from_roles(facts["special_ids"]),
        pair_labels=all(manifest.facts["pair_labels"] for manifest in settled.shards),
    )
    if teacher is not None:
        check_teacher(teacher, model, inputs, max(manifest.facts["length"] for manifest in settled.shards))
    job = TrainingJob(
        name=name,
        store=place.address,
        shards=tuple(JobInput(folder=manifest.folder, content=manifest.content) for manifest in settled.shards),
        vocabulary=JobInput(folder=vocabulary.folder, content=vocabulary.content),
        model=model,
        training=settled.training,
        inputs=inputs,
        start=start,
        teacher=teacher,
        work="",
        shares=settled.shares if any(len(shares) > 1 for shares in settled.shares) else (),
        origin=origin,
    )
    notice = describe_repeats(settled.iter_reads(before))
    stage = _build_stage(job, settled, vocabulary, notice)
    job = replace(job, work=str(locate_work_folder(place, stage)))
    return replace(stage, parts=(replace(stage.parts[0], job=job),))


def _build_stage(job: TrainingJob, settled: SettledTraining, vocabulary: Manifest, notice: str) -> Stage:
    """Build the pipeline stage of a training job without a work folder yet.

    Args:
        job: The job.
        settled: The settings with the number of steps of each phase, and the shard sets that each phase reads.
        vocabulary: The vocabulary of the shards.
        notice: A warning for the user, stored with the stage; "" for none.
    """
    shards, model, inputs = settled.shards, job.model, job.inputs
    distinct = {manifest.fingerprint: manifest for manifest in (*shards, vocabulary)}
    contents: Json = {"shards": [manifest.content for manifest in shards], "vocabulary": vocabulary.content}
    left = iter(shards)
    mixtures = [[{"content": next(left).content, "share": share} for share in shares] for shares in settled.shares]
    begins: Json = {name: job.identity[name] for name in ("origin", "start", "teacher") if name in job.identity}
    return Stage(
        kind="models",
        name=job.name,
        build_version=BUILD_VERSION,
        settings={
            "model": to_model_json(model),
            "training": to_settings_json(job.training),
            "phases": [parts[0]["content"] if len(parts) == 1 else parts for parts in mixtures],
            **begins,
        },
        parents=tuple(manifest.as_parent() for manifest in distinct.values()),
        libraries={},
        parts=(PartPlan(name="model", key=contents),),
        build=build_model_part,
        facts={
            "family": model.family,
            "vocab_size": inputs.vocab_size,
            "special_ids": shards[0].facts["special_ids"],
            "positions": model.positions,
            "pair_labels": inputs.pair_labels,
            "steps": job.training.steps,
            **({"notice": notice} if notice else {}),
            **({} if job.start is None else {"start": _describe_start(job.start, model, inputs)}),
            **({} if job.teacher is None else {"teacher": job.teacher.content}),
        },
    )


def _check_phases(
    shards: Sequence[Manifest], vocabulary: Manifest, model: ModelSettings, training: TrainingSettings
) -> None:
    """Check that each phase can train the model on its shards: vocabulary, length of examples, masks and mask rate.

    `shards` has one manifest per phase, or one per component if the phase reads a mixture. Raises InputError for the
    first problem.
    """
    phases = [number for number, phase in enumerate(training.phase, 1) for _ in phase.mixture or (None,)]
    for number, manifest in zip(phases, shards, strict=True):
        _check_shards(f"phase {number}", manifest, vocabulary, model)
        training.check_length(f"The shards {manifest.name!r} of phase {number}", manifest.facts["length"])
        model.objective_settings.check_shards(f"The shards {manifest.name!r} of phase {number}", manifest.facts)
        masks = manifest.facts["masking"], bool(manifest.settings["masking"].get("schedule"))
        training.phase[number - 1].check_mask_rate(f"training.phase {number}", repr(manifest.name), *masks)


def _describe_start(start: StartModel, model: ModelSettings, inputs: ModelInputs) -> Json:
    """Describe a start model as a dictionary with the keys `content`, `new_tokens` and `first_heads`.

    Their values are the digest of its files, the number of tokens that it lacks, and the names of the heads that it
    lacks. Raises InputError if its special tokens have other ids.
    """
    check_special_ids(start, inputs)
    heads = list_new_heads(start, model, inputs)
    return {"content": start.content, "new_tokens": len(start.rows), "first_heads": [*heads]}


def locate_work_folder(place: Place, stage: Stage) -> Path:
    """Return the local folder for a model's checkpoints, metrics and export during training.

    It is in the stage's folder in the store, or below `~/.cache/cloze` if the store is not on a local disk.
    """
    root = Path(place.to_full_path("")) if place.is_local else CACHE.expanduser()
    return root / stage.folder / "work"


def _check_shards(what: str, shards: Manifest, vocabulary: Manifest, model: ModelSettings) -> None:
    """Raise InputError if the shards have another vocabulary, or examples longer than the model's maximum.

    `what` is the phase that reads the shards, such as "phase 1", for the message.
    """
    made_with = [parent.fingerprint for parent in shards.parents if parent.role == vocabulary.kind]
    size = vocabulary.count_rows("tokens")
    if made_with != [vocabulary.fingerprint] or shards.facts["vocab_size"] != size:
        raise InputError(
            f"The shards {shards.name!r} of {what} have a different vocabulary ({shards.facts['vocab_size']} tokens) "
            f"from {vocabulary.name!r} ({size} tokens), which the model is to be trained with: all phases of a "
            "training must read shards of one vocabulary."
        )
    if shards.facts["length"] > model.positions:
        raise InputError(
            f"The shards {shards.name!r} of {what} hold examples of up to {shards.facts['length']} tokens, and the "
            f"model has {model.positions} positions: raise model.max_length, or make shorter examples."
        )


def build_model_part(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Train the model unless that is done, and write its weights, tokenizer files and metrics table to the store.

    Args:
        writer: Writes the files of this part of the stage.
        plan: The plan of the part. Its `job` is a `TrainingJob`.

    Returns:
        The ledger: the number of examples read and deleted, in total and for each shard set.

    Raises:
        InputError: If training fails, or if a file of the export was changed after it was written.
    """
    job: TrainingJob = plan.job
    train(job)
    facts = job.read_export()
    assert facts is not None, "training ends with an export"
    tokenizer = read_tokenizer_files(writer.place, job.vocabulary.folder, job.model.positions)
    for folder in job.export_folders:
        for name in ("config.json", "model.safetensors"):
            writer.write_file(folder + name, _read_export(job, facts, folder + name))
        for name, data in tokenizer.items():
            writer.write_file(folder + name, data)
    with writer.create_table("metrics", build_metrics_schema(job.model, job.inputs)) as sink:
        sink.write(build_metrics_table(job))
    return _build_ledger(job, facts)


def _read_export(job: TrainingJob, facts: Mapping[str, Json], name: str) -> bytes:
    """Read a file of the exported model.

    Args:
        job: The job.
        facts: The facts of the export; `files` maps names to their size and digest.
        name: The path of the file within the export's folder.

    Raises:
        InputError: If the contents differ from what was written.
    """
    data = (job.export / name).read_bytes()
    if describe_bytes(data) != facts["files"].get(name, describe_bytes(data)):
        raise InputError(
            f"{job.export / name} is damaged: its bytes are not those that were written. Run the same command again: "
            "it rewrites the file from the newest checkpoint."
        )
    return data


def build_metrics_table(job: TrainingJob) -> pa.Table:
    """Build the table of a run's logged steps and evaluations, one row each, from the log in its work folder.

    The columns are those of `build_metrics_schema`. An evaluation on a mixture has an additional row for each
    component.
    """
    logged = [e for e in read_metrics(Path(job.work) / METRICS_FILE) if e["event"] in ("step", "evaluation")]
    events = [
        {"step": event["step"], "phase": event["phase"], **figures, "event": called}
        for event in logged
        for called, figures in [
            *((f"{COMPONENT_PREFIX}{name}", part) for name, part in event.get("components", {}).items()),
            (event["event"], event),
        ]
    ]
    schema = build_metrics_schema(job.model, job.inputs)
    return pa.Table.from_pylist([{name: event.get(name) for name in schema.names} for event in events], schema)


def build_metrics_schema(model: ModelSettings, inputs: ModelInputs) -> pa.Schema:
    """Build the schema of a model's table of metrics.

    The columns for masked tokens and sentence pairs always exist. After them come the loss, accuracy and AUC columns of
    the objective's other loss terms.
    """
    terms = model.objective_settings.list_terms(model.family_row, inputs)
    names = [f"{term.name}_{what}" for term in terms for what in ("loss", "accuracy")[: 1 + term.has_rights]]
    names += [f"{term.name}_auc" for term in terms if term.has_area]
    added = [pa.field(name, pa.float64()) for name in names if name not in METRICS_TABLE.names]
    return pa.schema([*METRICS_TABLE, *added])


def read_events(place: Place, model: Manifest) -> list[dict[str, Any]]:
    """Read the table of metrics of a trained model from the store, as one dictionary per row.

    The keys are the columns of `build_metrics_schema`. Raises Damaged if the table is damaged.
    """
    return [row for batch in read_table(place, model, "metrics", columns=None) for row in batch.to_pylist()]


def _build_ledger(job: TrainingJob, facts: Mapping[str, Json]) -> Ledger:
    slots = sum(phase.slots for phase in job.training.phase)
    account = Account(unit="slots", total=slots, outcomes={"read": facts["sequences"], "deleted": facts["deleted"]})
    figures = {name: facts[name] for name in ("steps", "parameters", "tokens", "masked_tokens")}
    named = {name.replace("_", " "): count for name, count in figures.items()}
    return Ledger(accounts=(account,), figures=named) + build_seen_ledger(job, facts)
