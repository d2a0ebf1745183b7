"""The ten tasks of a newcomer, each done in a copy of the packages, in the files that CONTRIBUTING.md names for it.

The copy then runs from raw files to a fine-tuned model, and shows all ten.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from launched import ROOT, cloze, new_home

pytestmark = pytest.mark.slow

PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows")
MOST_FILES = 3
REGISTRY, RULES = "corpora/sources/registry.py", "corpora/judging/steps/rules.py"
FAMILIES, TASKS, CLI = "trainer/settings/model.py", "trainer/tasks/registry.py", "flows/command/cli.py"
PRIVACY, STATE = "flows/recipes/privacy.py", "flows/orchestration/run_state.py"
PAGE, PARTS = "flows/report/page.py", "flows/report/parts.html"
STAGE, REASONS = "corpora/store/stage.py", "flows/run/plan_run.py"
SCORES = "trainer/tasks/kinds/texts.py"
CARDS = '''"""Cards, a paragraph each."""

from dataclasses import dataclass
from typing import ClassVar

from corpora.sources.stories import StoriesSource


@dataclass(frozen=True, slots=True, kw_only=True)
class CardsSource(StoriesSource):
    """A card is what stands between two blank lines."""

    kind: ClassVar[str] = "cards"
    form: str = "blank-line"
'''
SLIM = '''"""A slim BERT."""

from dataclasses import replace

from trainer.families.bert import BERT
from trainer.families.contract import Size

SLIM = replace(BERT, name="slim", sizes={"tiny": Size(1, 32, 2, 64), "base": Size(1, 64, 2, 128)})
'''
TONE = '''"""The tone of a text: a class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from trainer.tasks.kinds.texts import ClassesTask
from trainer.tasks.kinds.texts import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class ToneTask(ClassesTask):
    """The tone of a text."""

    kind: ClassVar[str] = "tone"

    def compute_scores(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """Return the scores of classes, and the share of errors."""
        scores = super(ToneTask, self).compute_scores(examples, predictions)
        return {**scores, "errors": errors(scores)}
'''
NOTICE = '''"""What its owner says of a corpus."""

from flows.report.run import RunView


def notice_of(run: RunView) -> str:
    """Return the text of the section."""
    return f"{len(run.record.stages)} stages, says their owner"
'''
ERRORS = '''
def errors(scores: dict[str, float]) -> float:
    """Return the share of rows that are answered wrong."""
    return 1 - scores["accuracy"]
'''
GREET = '''"""`cloze greet`."""

from flows.command.terminal import console


def greet(name: str) -> int:
    """Greet somebody."""
    console.print(f"Good morning, {name}.")
    return 0
'''
TAGS = '"c4.drop_tags", (counts.hash_marks > 0) & settings.c4.drop_tags'


def put(file: str, anchor: str, text: str) -> tuple[str, str, str]:
    """An edit that puts a text before another one."""
    return file, anchor, text + anchor


# By the row of CONTRIBUTING's table: file, what stands there (nothing: the file is new), and what stands there then.
EDITS: dict[str, list[tuple[str, str, str]]] = {
    "a source that comes with Cloze": [
        ("corpora/sources/cards.py", "", CARDS),
        put(REGISTRY, '    "cc-news"', '    "cards": "corpora.sources.cards:CardsSource",\n'),
    ],
    "a quality rule": [
        put(RULES, "    min_sentences: int = 3\n", "    drop_tags: bool = later_field(neutral=False)\n"),
        put(RULES, '    "c4.min_sentences"', '    "c4.drop_tags": "{hash_marks} hash marks",\n'),
        put(RULES, '        yield "c4.min_sentences"', f"        yield {TAGS}\n"),
    ],
    "a family of encoders": [
        ("trainer/families/slim.py", "", SLIM),
        put(FAMILIES, "from trainer.objectives.contract", "from trainer.families.slim import SLIM\n"),
        (FAMILIES, "in (BERT,", "in (BERT, SLIM,"),
    ],
    "a kind of task": [
        ("trainer/tasks/kinds/tone.py", "", TONE),
        put(TASKS, "from trainer.tasks.settings", "from trainer.tasks.kinds.tone import ToneTask\n"),
        (TASKS, "_OURS = (", "_OURS = (ToneTask, "),
    ],
    "a score": [(SCORES, "\ndef build_confusion_table", ERRORS + "\n\ndef build_confusion_table")],
    "a key of a recipe": [
        (PRIVACY, "import check_choice", "import check_choice, later_field"),
        (
            PRIVACY,
            '    samples: str = "text"\n',
            '    samples: str = "text"\n    contact: str = later_field(neutral="")\n',
        ),
    ],
    "a section of the report": [
        ("flows/report/notice.py", "", NOTICE),
        put(PAGE, "from flows.report.front", "from flows.report.notice import notice_of\n"),
        put(PAGE, "        passed_over=passed_over,\n", "        notice=notice_of(run),\n"),
        put(PARTS, '{% call part("in"', '{% call part("notice", "Notice") %}{{ notice }}{% endcall %}\n'),
    ],
    "a line that a run prints": [
        put(
            STATE, "        figures = compute_final", '        self.tell(f"Questions: {self.recipe.privacy.contact}")\n'
        ),
    ],
    "a command": [
        ("flows/command/greet.py", "", GREET),
        put(CLI, '    "inspect": "inspect"', '    "greet": "greet",\n'),
    ],
}
REASON = {
    "a reason to rebuild a stage": [
        (
            STAGE,
            "            settings=self.settings,\n            parents=[",
            '            settings={**self.settings, "edition": 2},\n            parents=[',
        ),
        put(REASONS, "    if survey.done and not survey.num_reused:\n", '    reason = reason or "a second edition"\n'),
    ]
}
RECIPE = """
name = "small"
source = [{ kind = "cards", name = "cards", path = "cards.txt" }]
rules = { repetition.enabled = false, gopher.enabled = false, c4 = { min_sentences = 1, drop_tags = true } }
privacy.contact = "the librarian"
vocabulary.size = 300
shards.length = 32
model = { family = "slim", size = "tiny", max_length = 32 }
training.phase = [{ steps = 3, batch = 4 }]
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which the ten tasks are done."""
    folder = tmp_path_factory.mktemp("house")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    apply(folder, EDITS)
    return folder


def apply(folder: Path, tasks: Mapping[str, Sequence[tuple[str, str, str]]]) -> None:
    """Do tasks in a copy of the packages."""
    for name, before, after in (edit for edits in tasks.values() for edit in edits):
        path = folder / name
        text = path.read_text(encoding="utf-8") if before else ""
        assert text.count(before) == 1 or (not before and not path.exists()), (name, before)
        path.write_text(text.replace(before, after) if before else after, encoding="utf-8")


@pytest.mark.parametrize("task", [*EDITS, *REASON])
def test_a_task_takes_the_files_that_are_written_down(task: str) -> None:
    """Fails if a task touches more than three files, or others than CONTRIBUTING names."""
    [row] = [line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith(f"| {task} |")]
    files = {name for name, *_ in {**EDITS, **REASON}[task]}
    assert len(files) <= MOST_FILES
    for name in files:
        assert f"`{name}`" in row or f"`{Path(name).parent}/`" in row, (task, name)


def test_ten_tasks_of_a_newcomer(house: Path, tmp_path: Path) -> None:
    """Fails if one of the ten does not show in what the program then does."""

    home = new_home(tmp_path)

    def command(*arguments: str) -> str:
        done = cloze(home, *arguments, more={"PYTHONPATH": str(house)})
        assert done.returncode == 0, done.stdout
        return done.stdout

    cards = [f"Card {number} says that {number} ships came to the harbour and left again." for number in range(200)]
    (tmp_path / "cards.txt").write_text("\n\n".join([*cards, "This one has a # in it, which the rule forbids."]))
    (tmp_path / "small.toml").write_text(RECIPE.replace('"cards.txt"', json.dumps(str(tmp_path / "cards.txt"))))
    recipe, store = str(tmp_path / "small.toml"), str(tmp_path / "store")
    ran = command("run", recipe, "--store", store, "--no-watch")
    assert "200 documents" in ran and "rules: c4.drop_tags" in ran and "Questions: the librarian" in ran
    [report] = Path(store).glob("runs/*/report.html")
    assert "stages, says their owner" in report.read_text()
    [model] = Path(store).glob("models/*/*/config.json")
    assert json.loads(model.read_text())["hidden_size"] == 32
    rows = [json.dumps({"text": card, "label": "even" if number % 2 else "odd"}) for number, card in enumerate(cards)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows[:40]))
    data = ["--train", str(tmp_path / "rows.jsonl"), "--evaluate", str(tmp_path / "rows.jsonl"), "--accept", "all"]
    learned = command("finetune", "tone", store, *data, "--output", str(tmp_path / "tone"), "--set", "epochs=1")
    assert "errors" in learned
    assert command("greet", "Ada") == "Good morning, Ada.\n"
    assert "a second edition" not in command("plan", recipe, "--store", store)
    apply(house, REASON)
    assert "a second edition" in command("plan", recipe, "--store", store)
