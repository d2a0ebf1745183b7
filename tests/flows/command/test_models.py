"""Commands that call the trainer: which model an address means, what is reported, and how a refusal comes back."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
from small_models import write_model

from corpora.errors import InputError
from corpora.store.checked_folder import COMPLETE_FILE
from corpora.store.damage import Damaged
from corpora.store.ledger import Ledger
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from flows.command.finetune import FinetuneRequest, TaskFiles, find_published_task, finetune_model
from flows.command.help import JSON_KEYS
from flows.command.predict import predict_file
from flows.command.trainer_process import forward_lines, open_model_folder
from flows.run.record.task_scores import EventPrinter, format_event
from trainer.launch import TrainingFailed
from trainer.start_weights import list_model_files
from trainer.tasks.formats.records import FileSettings

FILES = ("config.json", "model.safetensors", "tokenizer.json")


def publish_model(place: Place, name: str, folder: Path) -> str:
    """The files of a model's folder as an artifact; its folder in the store."""

    def build(writer: PartWriter, plan: PartPlan) -> Ledger:
        for file in FILES:
            writer.write_file(file, (folder / file).read_bytes())
        return Ledger()

    part = PartPlan(name="model", key=[name], job=None)
    stage = Stage(
        kind="models", name=name, build_version=1, settings={}, libraries={}, parents=(), parts=(part,), build=build
    )
    return build_stage(place, stage).folder


def test_addresses_of_a_model(tmp_path: Path) -> None:
    """A folder, an artifact, a store with one or several models."""
    plain = write_model(tmp_path / "plain")
    store = tmp_path / "store"
    folders = [publish_model(Place(str(store)), name, plain) for name in ("first", "second")]
    for address, wanted in (
        (plain, plain),
        (store / folders[0], store / folders[0]),
        (store / folders[1], store / folders[1]),
        (store / "models" / "first", store / folders[0]),
        (store, store / folders[1]),  # no run is on record: the last
    ):
        with open_model_folder(str(address)) as folder:
            assert folder.samefile(wanted), address
            assert (folder / "tokenizer.json").read_bytes() == (plain / "tokenizer.json").read_bytes()


@pytest.mark.server
def test_a_model_in_an_object_store_is_copied_for_the_time_of_its_use(tmp_path: Path, s3_store: Place) -> None:
    plain = write_model(tmp_path / "plain")
    publish_model(s3_store, "far", plain)
    with open_model_folder(s3_store.address) as folder:
        assert sorted(path.name for path in folder.iterdir()) == sorted((*FILES, COMPLETE_FILE))
        assert all((folder / name).read_bytes() == (plain / name).read_bytes() for name in FILES)
    assert not folder.exists()
    weights = next(path for path in s3_store.list_files("models") if path.endswith(FILES[1]))
    s3_store.write(weights, b"other")
    with pytest.raises(Damaged), open_model_folder(s3_store.address):
        pass


def test_the_parts_of_a_model_keep_their_folders() -> None:
    """Fails if the configuration of ELECTRA's generator is taken for that of the model."""
    paths = [f"part-0/{name}" for name in ("generator/config.json", "config.json", "model.safetensors")]
    manifest: Any = SimpleNamespace(parts=[SimpleNamespace(files=[SimpleNamespace(path=path) for path in paths])])
    assert {f"part-0/{name}": file.path for name, file in list_model_files(manifest).items()} == {p: p for p in paths}


def test_wrong_settings_are_told_before_anything_starts(tmp_path: Path) -> None:
    files = TaskFiles(FileSettings(path="rows.tsv"), FileSettings(path="rows.tsv"))
    with pytest.raises(InputError, match="finetune has no key 'epoch': did you mean 'epochs'"):
        finetune_model(FinetuneRequest("classes", str(tmp_path), files, tmp_path / "out", {"epoch": "3"}), print)


def test_events_become_lines() -> None:
    ledger = {
        "accounts": {"rows": {"total": 9, "outcomes": {"given": 8, "dropped: empty text": 1}}},
        "figures": {"tokens": 70, "texts_cut": 2, "tokens_cut": 5},
    }
    told: list[str] = []
    listener = EventPrinter(told.append)
    listener.print_event(
        {
            **{"event": "start", "step": 0, "steps": 4, "settings": {"epochs": 3, "freeze": []}, "resumed": False},
            **{"training": ledger, "evaluation": ledger},
        }
    )
    rows = "8 rows, 70 tokens, 1 dropped: empty text, 2 texts cut by 5 tokens"
    assert told == [f"training: {rows}", f"evaluation: {rows}", "settings: epochs 3"]
    for step in (1, 2, 3):
        listener.print_event({"event": "step", "step": step, "epoch": 1, "loss": 0.5})
    listener.print_event({"event": "checkpoint", "step": 3})
    assert told[3:] == ["step 1/4: epoch 1, loss 0.5"]  # the others came too soon
    listener.print_event({"event": "evaluation", "step": 4, "epoch": 1, "accuracy": 2 / 3})
    assert told[4:] == ["evaluation 4/4: epoch 1, accuracy 0.6667"]
    assert format_event({"event": "done", "step": 4, "output": "x"}, 4) == "done 4/4: output x"


def test_a_published_set_is_found_in_its_folder(tmp_path: Path) -> None:
    """Fails if its columns, labels or metric are not those of the benchmark, or files are named twice."""
    (tmp_path / "SST-2").mkdir()
    for name in ("train", "dev"):
        (tmp_path / "SST-2" / f"{name}.tsv").write_text("sentence\tlabel\na film\t1\nno film\t0\n")
    kind, files, said = find_published_task("glue/sst2", tmp_path)
    assert kind == "classes" and said == {"labels": ["0", "1"], "metric": "accuracy"}
    assert files.evaluation.path.endswith("SST-2/dev.tsv") and files.training.columns["text"] == "sentence"
    with pytest.raises(InputError, match=r"glue/sst2 is a published set: .* \(--data FOLDER\); .*'classes', in its"):
        find_published_task("glue/sst2", None, Path("train.tsv"))
    with pytest.raises(InputError, match=r"^classes: name the files, .* Known sets: glue/cola"):
        find_published_task("classes", None)
    with pytest.raises(InputError, match="leave one out"):
        find_published_task("glue/sst2", tmp_path, Path("train.tsv"))
    with pytest.raises(InputError, match=r"lacks train\.tsv and dev\.tsv"):
        find_published_task("glue/qnli", tmp_path)
    assert (
        find_published_task("glue/sst2", tmp_path, file=FileSettings(path="", max_unusable=0.5))[1][0].max_unusable
        == 0.5
    )
    with pytest.raises(InputError, match="is read as it is published: leave --column, --format and --no-header out"):
        find_published_task("glue/sst2", tmp_path, file=FileSettings(path="", columns={"text": "sentence"}))
    (tmp_path / "copa-dev.xml").write_text("")
    with pytest.raises(InputError, match=r"copa has no train split .* 'choice' in its place, and files of your own"):
        find_published_task("copa", tmp_path)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in a folder that has a `trainer.py` of its own, which must not be taken for ours."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer.py").write_text("raise SystemExit(7)\n")
    return write_model(tmp_path / "model")


@pytest.mark.slow
def test_fill_from_the_command(written: Path) -> None:
    told: list[str] = []
    forward_lines(["fill", "--top", "2", "--json", "--", str(written), "a [MASK] film"], told.append)
    said = json.loads("\n".join(told))
    assert list(said) == JSON_KEYS["fill"].split()
    assert said["text"] == "a [MASK] film" and [len(mask) for mask in said["masks"]] == [2]


@pytest.mark.slow
@pytest.mark.long
def test_finetune_and_predict_from_the_command(written: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(InputError, match=r"^The text has no mask"):
        forward_lines(["fill", "--", str(written), "--top"], told.append)
    rows = "".join(f"{text}\t{label}\n" for text, label in [("a good film", "good"), ("a bad film", "bad")] * 8)
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + rows)
    table = FileSettings(path=str(tmp_path / "rows.tsv"))
    told.clear()
    asked = ("classes", str(written), TaskFiles(table, table), tmp_path / "out")
    finetune_model(FinetuneRequest(*asked, {"epochs": "2", "batch": "8", "keep": "last"}, ["all"]), told.append)
    counts = [line for line in told if line.startswith(("training:", "evaluation:"))]
    assert counts == ["training: 16 rows, 80 tokens", "evaluation: 16 rows, 80 tokens"]
    assert [line.split()[0] for line in told].count("evaluation") == 2
    assert any(line.startswith("done 4/4: epoch 2") for line in told) and (tmp_path / "out" / "config.json").is_file()
    with pytest.raises(InputError, match="is not empty: name another"):
        finetune_model(FinetuneRequest(*asked, {}, ["all"]), told.append)
    told.clear()
    facts = predict_file(str(tmp_path / "out"), table, tmp_path / "said.jsonl", True, told.append)
    assert list(facts) == JSON_KEYS["predict"].split() and next(iter(facts["scores"])) == "accuracy"
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [row["line"] for row in said] == [*range(2, 18)] and {*said[0]["probabilities"]} == {"bad", "good"}
    assert told[0] == "classes: 16 rows, 80 tokens" and told[1].startswith("accuracy ")


@pytest.mark.slow
def test_a_trainer_that_dies_is_no_fault_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch" / "__init__.py").write_text("raise RuntimeError('no torch today')\n")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    with pytest.raises(TrainingFailed, match=r"ended with exit code 1(.|\n)*no torch today"):
        forward_lines(["fill", "--", str(write_model(tmp_path / "model")), "a [MASK]"], print)
