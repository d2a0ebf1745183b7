"""Suites as files: what is read of them, and what is refused in one paragraph."""

from pathlib import Path

import pytest

from corpora.errors import InputError
from trainer.tasks.suites.suite import Suite, list_shipped_suites, read_suite

GLUE_HEADS = {
    "SST-2": ("sentence\tlabel", "index\tsentence"),
    "MRPC": ("Quality\t#1 String\t#2 String", "index\t#1 String\t#2 String"),
    "STS-B": ("index\tsentence1\tsentence2\tscore", "index\tsentence1\tsentence2"),
    "QQP": ("id\tquestion1\tquestion2\tis_duplicate", "id\tquestion1\tquestion2"),
    "QNLI": ("index\tquestion\tsentence\tlabel", "index\tquestion\tsentence"),
    "RTE": ("index\tsentence1\tsentence2\tlabel", "index\tsentence1\tsentence2"),
    "WNLI": ("index\tsentence1\tsentence2\tlabel", "index\tsentence1\tsentence2"),
}


def write_glue(folder: Path) -> Path:
    """GLUE's archive with a first line in every file."""
    pairs = ("index\tsentence1\tsentence2\tgold_label", "index\tsentence1\tsentence2")
    files = {f"{name}/{split}.tsv": heads[split == "test"] for name, heads in GLUE_HEADS.items()
             for split in ("train", "dev", "test")}  # fmt: skip
    files |= {"CoLA/train.tsv": "gj04\t1\t\tA.", "CoLA/dev.tsv": "gj04\t1\t\tA.", "CoLA/test.tsv": "index\tsentence"}
    files |= {f"MNLI/{name}.tsv": pairs[name.startswith("test")] for name in
              ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")}  # fmt: skip
    files["diagnostic/diagnostic.tsv"] = pairs[1]
    for name, line in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{line}\n")
    return folder


def suite_of(folder: Path, text: str) -> Suite:
    """The suite that a text says, with two files of one task next to it."""
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("text\tlabel\na film\tgood\n")
    (folder / "mine.toml").write_text(text)
    return read_suite(str(folder / "mine.toml"))


MINE = '[task.mine]\nkind = "classes"\ntrain = "train.tsv"\ndev = "dev.tsv"\n'


def test_glue_is_nine_tasks_and_mnli_answers_three_sets(tmp_path: Path) -> None:
    suite = read_suite("glue", write_glue(tmp_path))
    assert "glue" in list_shipped_suites() and len(suite.tasks) == 9 and suite.average and len(suite.seeds) == 5
    mnli = next(task for task in suite.tasks if task.name == "glue/mnli")
    named = ["dev", "test", "glue/mnli-mm dev", "glue/mnli-mm test", "glue/ax test"]
    assert [split.name for split in mnli.splits] == named
    assert [split.labelled for split in mnli.splits] == [True, False, True, False, False]
    assert [split.averaged for split in mnli.splits] == [True, False, True, False, False]
    cola, mrpc = suite.tasks[0], suite.tasks[2]
    assert cola.task["metric"] == "matthews" and cola.task["labels"] == ["0", "1"]
    assert mrpc.task["metric"] == "f1" and mrpc.splits[0].metrics == ("f1", "accuracy")
    assert suite.tasks[3].task == {"kind": "number", "metric": "pearson"}


def test_settings_of_a_task_are_over_those_of_all(tmp_path: Path) -> None:
    text = f"seeds = [7]\n[settings]\nepochs = 2\nbatch = 8\n{MINE}epochs = 5\nempty_classes = true\n"
    [task] = suite_of(tmp_path, text).tasks
    assert (task.settings.epochs, task.settings.batch) == (5, 8)
    assert task.task == {"kind": "classes", "empty_classes": True}
    assert task.splits[0].metrics[0] == "accuracy" and task.splits[0].labelled
    assert task.evaluation.path == str(tmp_path / "dev.tsv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tasks = ["mine", "mine"]\n' + MINE, "names a task twice"),
        (MINE + MINE, "is not TOML"),
        ("seeds = [1]\n", "names no task"),
        ("seeds = [1, 1]\n" + MINE, r"seeds = \[1, 1\]: give one or more different"),
        (MINE + "epoch = 3\n", "has no key 'epoch': did you mean 'epochs'"),
        (MINE + "seed = 3\n", "has no key 'seed'"),
        (MINE.replace("dev.tsv", "eval.tsv"), r"there is no .*eval\.tsv: give its path"),
        ('[task.mine]\nkind = "classes"\ntrain = "train.tsv"\n', "names no file for dev"),
        ('tasks = ["glue/sst3"]\n', "did you mean 'glue/sst2'"),
        ('tasks = ["glue/mnli"]\n', r"task\.glue/mnli: .* does not hold glue/mnli .*: it lacks dev_matched\.tsv"),
        ('tasks = ["glue/ax"]\n', "glue/ax has no train and dev split"),
        ('tasks = ["mine"]\n[task.mina]\n' + MINE, "has no key 'mina': did you mean 'mine'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_paragraph(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as told:
        suite_of(tmp_path, text)
    assert "\n" not in str(told.value)


def test_a_suite_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'glue'"):
        read_suite(str(tmp_path / "gleu"))
