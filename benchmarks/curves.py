"""Do the families learn words? Each at one tiny size, on the same examples, one after another on one thread.

    python -m benchmarks.curves                             the contracts in ../shared/data, or in $CLOZE_SHARED/data
    python -m benchmarks.curves --text FOLDER --times 2     the files of a folder, twice the steps
    python -m benchmarks.curves --models bert distilbert    some of them

Measured on held-out documents: of the masked tokens that begin a word and are not among the 100 commonest pieces, the
share guessed right; for ELECTRA's discriminator the area under its ROC curve; for DistilBERT its lead over the
same student without its teacher, at equal steps, and over one that begins like it and gets no answers. The contents of
`RECIPE`, `SIZES` and `training` are the same for all; the steps of a family, and its other settings, are in
`ENTRIES`. A family brings its own objective; the student has one layer, and begins with that of its teacher, the BERT
before it, which has two.

CPU seconds are those of a model's own process, from its start to its export, evaluations included. Table and verdicts
are printed; `curves.svg` and `curves.json` are written after each model. The store with the models stays next to
them: an interrupted call resumes there, and one with other steps trains those that differ.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import cpu_of_children, figure
from benchmarks.record import Others, processor
from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.command.trainer_process import model_folder
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import parse_recipe
from flows.report.drawing.plot import ALONE, Plot, from_zero
from flows.run.pipeline import Outcome, run_recipe
from trainer.build import plan_model
from trainer.jobs.job import TrainingJob
from trainer.jobs.start import Start, start_of
from trainer.launching.launch import train
from trainer.metrics import METRICS_FILE, Event, read_metrics
from trainer.settings.model import ModelSettings
from trainer.settings.phases import PhaseSettings, Schedule
from trainer.settings.training import TrainingSettings

TEXT = "data/domains/legal-contracts"
LENGTH, BATCH, EVALUATIONS = 32, 64, 8
WORDS_GOAL, AREA_GOAL = 0.10, 0.7
WORDS, AREA = "rare_word_accuracy", "replaced_auc"
LABEL = "share of rarer words guessed"
SPENT = "cpu-seconds"  # in a model's work folder, the cost of its training in all calls that finished

RECIPE = """
name = "curves"

[[source]]
kind = "files"
name = "text"
path = {path}

[held_out]
share = 0.1

[vocabulary]
algorithm = "wordpiece"
size = 2000

[shards]
input = "full-sentences"
length = {length}
masking = {{ kind = "dynamic", unit = "token", rate = 0.2 }}
"""
SIZES: Mapping[str, Any] = {
    "size": "tiny",
    "hidden_size": 128,
    "heads": 4,
    "feed_forward_size": 256,
    "max_length": 64,
    "initializer_range": 0.06,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
COLOURS = ("#2f6fb3", "#d1495b", "#66a182", "#8d5fb3", "#e08e1b", "#9a9a9a", "#5c4a3d", "#1aa6a6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A model that is trained.

    rate:      peak of the learning rate
    sizes:     over `SIZES`
    objective: keys of its table, where it is not the family's own as it comes
    teacher:   the entry that it learns from
    behind:    those that it should be ahead of
    """

    name: str
    family: str
    steps: int
    layers: int = 2
    rate: float = 2e-3
    sizes: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=dict)
    teacher: str = ""
    behind: tuple[str, ...] = ()

    def settings(self, teachers: Mapping[str, Start]) -> ModelSettings:
        """Return the encoder, and its objective where that is not the family's own. teachers: folders by entry"""
        taught = {"kind": "distillation", "teacher": teachers[self.teacher].folder} if self.teacher else {}
        objective = {**self.objective, **taught} or None
        return ModelSettings(**{**SIZES, **self.sizes}, family=self.family, layers=self.layers, objective=objective)


ENTRIES = (
    Entry(name="bert", family="bert", steps=800),
    Entry(
        name="electra",
        family="electra",
        steps=1_900,
        rate=1e-3,
        sizes={"feed_forward_size": 512, "initializer_range": 0.08},
        objective={"kind": "replaced", "generator_size": 0.25},
    ),
    Entry(name="albert", family="albert", steps=1_050),
    Entry(name="modernbert", family="modernbert", steps=500),
    Entry(name="roberta", family="roberta", steps=800),
    Entry(
        name="distilbert",
        family="distilbert",
        steps=200,
        layers=1,
        teacher="bert",
        behind=("student alone", "begun alike"),
    ),
    Entry(name="student alone", family="distilbert", steps=200, layers=1),
    Entry(
        name="begun alike",
        family="distilbert",
        steps=200,
        layers=1,
        teacher="bert",
        objective={"soft": 0.0, "cosine": 1e-6},  # in effect both 0, which a teacher does not allow
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The result of a model: its events, and the CPU seconds of its process."""

    entry: Entry
    seconds: float
    events: Sequence[Event]

    @property
    def evaluations(self) -> list[Event]:
        """The evaluations on the held-out documents, in order."""
        return [event for event in self.events if event["event"] == "evaluation"]

    @property
    def judged(self) -> str:
        """The measure: the area of a discriminator, or words."""
        return AREA if AREA in self.evaluations[-1] else WORDS

    @property
    def reached(self) -> int | None:
        """The step of the first evaluation that reaches the goal."""
        goal = AREA_GOAL if self.judged == AREA else WORDS_GOAL
        return next((event["step"] for event in self.evaluations if (event.get(self.judged) or 0.0) >= goal), None)

    def to_json(self) -> dict[str, Any]:
        """Return the row of the table, and the evaluations."""
        last, done = self.evaluations[-1], next(event for event in self.events if event["event"] == "done")
        measured = {name: last.get(name) for name in ("masked_loss", "unigram_entropy", WORDS, "rare_words", AREA)}
        return {
            "name": self.entry.name,
            "parameters": done["parameters"],
            "steps": last["step"],
            "tokens": done["tokens"],
            "cpu_seconds": round(self.seconds, 1),
            **measured,
            "goal_at_step": self.reached,
            "evaluations": self.evaluations,
        }


# Training.


def build_shards(place: Place, text: Path, home: Path) -> Outcome:
    """Build the examples that all models read. Raises InputError where there is no text."""
    recipe = parse_recipe(RECIPE.format(path=json.dumps(str(text.resolve())), length=LENGTH), home / "recipe.toml", {})
    lock = resolve(recipe, Lock(), StatCache()).lock
    return run_recipe(place, recipe, lock, lambda stages: [build_stage(place, stage) for stage in stages])


def training(steps: int, rate: float) -> TrainingSettings:
    """Return the training settings of all of them."""
    return TrainingSettings(
        phase=(PhaseSettings(steps=steps, batch=BATCH),),
        learning_rate=rate,
        schedule=Schedule(kind="wsd", decay_share=0.3),
        warmup_steps=min(120, steps // 10),
        beta2=0.98,
        device="cpu",
        processes=1,
        log_every=max(1, steps // 200),
        evaluate_every=max(1, steps // EVALUATIONS),
        evaluate_examples=4_000,
    )


def plan(place: Place, built: Outcome, entry: Entry, times: float, teachers: Mapping[str, Start]) -> Stage:
    """Return the stage that trains a model. times: its steps"""
    name, teacher = entry.name.replace(" ", "-"), teachers.get(entry.teacher)
    settings = entry.settings(teachers)
    return plan_model(
        place,
        name,
        [built.shards],
        built.vocabulary,
        settings,
        training(max(1, round(times * entry.steps)), entry.rate),
        teacher=teacher,
    )


def train_all(place: Place, built: Outcome, entries: Sequence[Entry], times: float) -> Iterator[Trained]:
    """Train one after another. times: the steps of each"""
    teachers: dict[str, Start] = {}
    for entry in entries:
        stage = plan(place, built, entry, times, teachers)
        job: TrainingJob = stage.parts[0].job
        spent, before = Path(job.work) / SPENT, cpu_of_children()
        train(job)
        earlier = float(spent.read_text(encoding="ascii")) if spent.exists() else 0.0
        seconds = earlier + cpu_of_children() - before
        spent.write_text(f"{seconds}\n", encoding="ascii")
        yield Trained(entry=entry, seconds=seconds, events=[*read_metrics(Path(job.work) / METRICS_FILE)])
        if any(other.teacher == entry.name for other in entries):
            published = build_stage(place, stage)
            with model_folder(place.full_path(published.folder)) as folder:
                teachers[entry.name] = start_of(folder)


def chosen_entries(names: Sequence[str]) -> tuple[Entry, ...]:
    """Return those named, and what they learn from, in the usual order."""
    wanted = {*names} | {entry.teacher for entry in ENTRIES if entry.name in names}
    return tuple(entry for entry in ENTRIES if entry.name in wanted)


# Showing.


def table(results: Sequence[Trained]) -> Iterator[str]:
    """Yield the measures as a table of Markdown."""
    yield "| model | parameters | steps | CPU s | held-out loss | unigram entropy | words | AUC | goal at step |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in (each.to_json() for each in results):
        words, area = row[WORDS], row[AREA]
        cells = (
            row["name"],
            f"{row['parameters']:,}",
            f"{row['steps']:,}",
            f"{row['cpu_seconds']:.0f}",
            f"{row['masked_loss']:.3f}",
            f"{row['unigram_entropy']:.3f}",
            "" if words is None else f"{words:.1%} of {row['rare_words']:,}",
            "" if area is None else f"{area:.3f}",
            "not reached" if row["goal_at_step"] is None else f"{row['goal_at_step']:,}",
        )
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")


def verdicts(results: Sequence[Trained]) -> Iterator[str]:
    """Yield each goal, what was reached of it, and whether that is enough."""
    by_name = {each.entry.name: each for each in results}
    for each in results:
        value = each.evaluations[-1].get(each.judged) or 0.0
        met = "met" if value >= (AREA_GOAL if each.judged == AREA else WORDS_GOAL) else "not met"
        if each.judged == AREA:
            yield f"{each.entry.name}: area {value:.3f}, the goal is {AREA_GOAL}: {met}"
        elif not any(each.entry.name in other.behind for other in ENTRIES):
            yield f"{each.entry.name}: {value:.1%} of the words, the goal is {WORDS_GOAL:.0%}: {met}"
        for behind in (name for name in each.entry.behind if name in by_name):
            ours, theirs = (run.evaluations[-1] for run in (each, by_name[behind]))
            losses = f"held-out loss {ours['masked_loss']:.3f} against {theirs['masked_loss']:.3f}"
            words = f"{ours[WORDS]:.1%} of the words against {theirs[WORDS]:.1%}"
            ahead = ours["masked_loss"] < theirs["masked_loss"] and ours[WORDS] > theirs[WORDS]
            yield f"{each.entry.name} and {behind}: {losses}, {words}: {'ahead' if ahead else 'not ahead'}"


def overlay(results: Sequence[Trained]) -> str:
    """Return the shares of words of all models in one picture, with the goal as a dotted line."""
    drawn = [(each, [(float(e["step"]), e[WORDS]) for e in each.evaluations if e.get(WORDS)]) for each in results]
    curves = [(each, points) for each, points in drawn if points]
    steps = [across for _, points in curves for across, _ in points]
    values = [up for _, points in curves for _, up in points]
    up = from_zero(max([*values, WORDS_GOAL]), LABEL, whole=False)
    across = from_zero(max(steps, default=1.0), "steps", 8)
    plot = Plot(width=640.0, height=280.0, across=across, up=up, rows=1, colours=ALONE)
    lines, legend = [], []
    for each, points in curves:
        colour = COLOURS[ENTRIES.index(each.entry)]
        lines += [plot.line(points, colour, 1.4), plot.dots(points, colour, 1.8)]
        legend.append((each.entry.name, colour, False))
    lines.append(plot.line([(0.0, WORDS_GOAL), (across.high, WORDS_GOAL)], ALONE.ink, 0.8, dotted=True))
    return plot.picture(LABEL.replace(" ", "-"), [*lines, plot.legend(legend)], inline=False)


def write(folder: Path, results: Sequence[Trained], notes: Sequence[str]) -> None:
    """Write both files."""
    rows = [each.to_json() for each in results]
    (folder / "curves.svg").write_text(overlay(results), encoding="utf-8")
    (folder / "curves.json").write_text(json.dumps({"notes": [*notes], "models": rows}, indent=1), encoding="utf-8")


# The command.


def main(arguments: Sequence[str] | None = None, tell: Callable[[str], None] = print) -> int:
    """Train them all; returns 0, also where the text is missing, which is reported."""
    shared = Path(os.environ.get("CLOZE_SHARED", "../shared"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description="Learning curves of all families.")
    parser.add_argument("--text", type=Path, default=shared / TEXT, help="a folder of files (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("curves"), help="where to write (default: %(default)s)")
    parser.add_argument("--times", type=float, default=1.0, help="the steps of each model (default: %(default)s)")
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--models", nargs="+", default=names, choices=names, help="some of them (default: all)")
    asked = parser.parse_args(arguments)
    if not asked.text.is_dir():
        tell(f"There is no folder {asked.text}: nothing is trained. Give --text a folder of files.")
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    entries, others = chosen_entries(asked.models), Others.now()
    asked.out.mkdir(parents=True, exist_ok=True)
    results: list[Trained] = []
    place = Place(str(asked.out / "store"))
    built = build_shards(place, asked.text, asked.out)
    notes = [described(asked.text, built)]
    for trained in train_all(place, built, entries, asked.times):
        results.append(trained)
        write(asked.out, results, notes)
        tell(f"{trained.entry.name}: {trained.seconds:.0f} CPU s")
    notes.append(f"{time.strftime('%Y-%m-%d')}, {processor()}, one thread, others {others.share():.0%} of the machine")
    write(asked.out, results, notes)
    for line in (*notes, "", *table(results), "", *verdicts(results)):
        tell(line)
    return 0


def described(text: Path, built: Outcome) -> str:
    """Describe the text in a line."""
    raw = sum(path.stat().st_size for path in text.rglob("*.txt"))
    documents, examples = built.corpus.rows("documents"), built.shards.rows("examples")
    size = f"{figure(raw / 1e6)} MB of .txt in {text.name}, {documents} documents"
    return f"{size}, {examples:,} examples of up to {LENGTH} tokens, {BATCH} a step"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"benchmarks.curves: {error}")
