"""Published sets: the files of each as they are published, what their records hold, what is missing.

Where a set is not among the samples its files are made here, with the header lines that are published.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from task_records import TaskRecord, read_records

from corpora.errors import InputError
from trainer.tasks.formats.published import PUBLISHED, find_published_set, get_published_set
from trainer.tasks.formats.reading import FORMATS
from trainer.tasks.formats.records import FileSettings, RowCounts

ROLES = {
    "classes": ("text", "label"), "number": ("text", "second", "label"), "choice": ("context", "choices", "label"),
    "tags": ("words", "tags"), "span": ("id", "question", "context", "answers"),
}  # fmt: skip


def read(file: FileSettings, kind: str, labelled: bool = True) -> list[TaskRecord]:
    roles = [role for role in ROLES[kind] if labelled or role not in ("label", "tags", "answers")]
    return list(read_records(file, RowCounts(), roles, ("second", "id", "label")))


MNLI = ("index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
        "sentence2_parse\tsentence1\tsentence2")  # fmt: skip
# Of each split the header and a row, as GLUE has them; a row ends with its label where it has one.
GLUE: dict[str, dict[str, str]] = {
    "cola": {"train": "gj04\t1\t\tIt \"is.", "dev": "gj04\t0\t*\tIt is.", "test": "index\tsentence\n0\tIt is."},
    "sst2": {"train": "sentence\tlabel\nit 's \t1", "dev": "sentence\tlabel\nit\t0", "test": "index\tsentence\n0\tit"},
    "mrpc": {
        "train": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tA.\tB.",
        "dev": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tA.\tB.",
        "test": "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tA.\tB.",
    },
    "stsb": {
        split: "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2" + more
        for split, more in (
            ("train", "\tscore\n0\tnews\tx\t2012\t1\tnone\tnone\tA.\tB.\t5.000"),
            ("dev", "\tscore\n0\tnews\tx\t2012\t1\tnone\tnone\tA.\tB.\t2.5"),
            ("test", "\n0\tnews\tx\t2012\t1\tnone\tnone\tA.\tB."),
        )
    },
    "qqp": {
        "train": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n3\t1\t2\tA?\tB?\t1",
        "dev": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n3\t1\t2\tA?\tB?\t0",
        "test": "id\tquestion1\tquestion2\n0\tA?\tB?",
    },
    "qnli": {
        "train": "index\tquestion\tsentence\tlabel\n0\tA?\tB.\tentailment",
        "dev": "index\tquestion\tsentence\tlabel\n0\tA?\tB.\tnot_entailment",
        "test": "index\tquestion\tsentence\n0\tA?\tB.",
    },
    "rte": {
        "train": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment",
        "dev": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment",
        "test": "index\tsentence1\tsentence2\n0\tA.\tB.",
    },
    "wnli": {
        "train": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1",
        "dev": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t0",
        "test": "index\tsentence1\tsentence2\n0\tA.\tB.",
    },
    "mnli": {
        "train": f"{MNLI}\tlabel1\tgold_label\n0\t1\t1e\tx\t( A .\t( B .\t(R\t(R\tA.\tB.\tneutral\tentailment",
        "dev": f"{MNLI}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
               "0\t1\t1e\tx\t( A .\t( B .\t(R\t(R\tA.\tB.\tneutral\tneutral\tentailment\tneutral\tneutral\tneutral",
        "test": f"{MNLI}\n0\t1\t1e\tx\t( A .\t( B .\t(R\t(R\tA.\tB.",
    },
    "ax": {"test": "index\tsentence1\tsentence2\n0\tA.\tB."},
}  # fmt: skip
GLUE["mnli-mm"] = GLUE["mnli"]
LABELS = {"stsb": ["5.000", "2.5"], "qnli": ["entailment", "not_entailment"], "rte": ["entailment", "not_entailment"],
          "mnli": ["entailment", "neutral"], "mnli-mm": ["entailment", "neutral"]}  # fmt: skip


@pytest.mark.parametrize("name", GLUE)
def test_glue_as_it_is_published(tmp_path: Path, name: str) -> None:
    """Fails if a column of a split is named otherwise, or the test split is read as if it had labels."""
    known = get_published_set(f"glue/{name}")
    folder = tmp_path / known.folder
    folder.mkdir()
    for split, text in GLUE[name].items():
        (folder / known.layouts[0].files[split]).write_text(text + "\n", encoding="utf-8")
    found = find_published_set(f"glue/{name}", str(tmp_path))
    assert {*found.files} == {*GLUE[name]}
    labels = []
    for split, file in found.files.items():
        (record,) = read(file, known.kind, split != "test")
        assert ("label" in record.values) == (split != "test") and str(record.values["text"])[:1].lower() in "ia"
        assert ("second" in record.values) == (name not in ("cola", "sst2"))
        assert record.values.get("id", "3") == ("3" if split != "test" and name in ("qqp", "mrpc", "cola", "sst2")
                                                else "0")  # fmt: skip
        labels += [record.values["label"]] if split != "test" else []
    assert labels == LABELS.get(name, ["1", "0"] if name != "ax" else [])
    assert {*labels} <= {*known.labels} or known.kind == "number"
    assert known.hidden


PASSAGE = {"text": "In Oslo.", "questions": [{"question": "Where?", "idx": 0, "answers": [
    {"text": "Oslo", "idx": 0, "label": 1}]}]}  # fmt: skip
RECORD = {"text": "Ada met.", "entities": [{"start": 0, "end": 2}]}
SUPERGLUE: dict[str, dict[str, Any]] = {
    "boolq": {"question": "is it", "passage": "It is.", "idx": 0, "label": True},
    "cb": {"premise": "A.", "hypothesis": "B.", "label": "neutral", "idx": 0},
    "copa": {"premise": "A.", "choice1": "B.", "choice2": "C.", "question": "cause", "label": 1, "idx": 0},
    "multirc": {"idx": 0, "version": 1.1, "passage": PASSAGE},
    "record": {"source": "x", "passage": RECORD, "idx": 0,
               "qas": [{"query": "@placeholder met.", "answers": [{"start": 0, "end": 2, "text": "Ada"}], "idx": 1}]},
    "rte": {"premise": "A.", "hypothesis": "B.", "label": "entailment", "idx": 0},
    "wic": {"word": "bank", "sentence1": "A bank.", "sentence2": "Banks.", "idx": 0, "label": False, "start1": 2,
            "start2": 0, "end1": 6, "end2": 5, "version": 1.1},
    "wsc": {"text": "Ada said she won.", "target": {"span1_index": 0, "span1_text": "Ada", "span2_index": 2,
            "span2_text": "she"}, "idx": 0, "label": True},
}  # fmt: skip
DIAGNOSTIC: dict[str, tuple[str, dict[str, Any]]] = {
    "axb": ("AX-b", {"sentence1": "A.", "sentence2": "B.", "idx": 0, "label": "not_entailment", "logic": "Negation"}),
    "axg": ("AX-g", {"hypothesis": "B.", "idx": 0, "label": "entailment", "pair_id": 551, "premise": "A."}),
}  # fmt: skip


@pytest.mark.parametrize("name", SUPERGLUE)
def test_superglue_as_it_is_published(tmp_path: Path, name: str) -> None:
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(SUPERGLUE[name]) + "\n")
    found = find_published_set(f"superglue/{name}", str(tmp_path))
    assert {*found.files} == {"train", "dev"}
    for file in found.files.values():
        (record,) = read(file, found.published.kind)
        assert "id" in record.values
        if found.published.labels:
            assert str(record.values["label"]).lower() in found.published.labels
    unlabelled = {key: value for key, value in SUPERGLUE[name].items() if key not in ("label", "qas", "passage")}
    if {*unlabelled} & {"premise", "sentence1", "target"}:
        (tmp_path / "test.jsonl").write_text(json.dumps(unlabelled) + "\n")
        test = find_published_set(f"superglue/{name}", str(tmp_path)).files["test"]
        assert len(read(test, found.published.kind, labelled=False)) == 1


@pytest.mark.parametrize("name", DIAGNOSTIC)
def test_diagnostic_sets_have_labels(tmp_path: Path, name: str) -> None:
    folder, line = DIAGNOSTIC[name]
    (tmp_path / folder).mkdir()
    (tmp_path / folder / f"{folder}.jsonl").write_text(json.dumps(line) + "\n")
    found = find_published_set(f"superglue/{name}", str(tmp_path), ("test",))
    (record,) = read(found.files["test"], "classes")
    assert record.values == {"text": "A.", "second": "B.", "label": line["label"], "id": 0}
    assert not found.published.hidden


@pytest.mark.parametrize(
    ("name", "folder", "rows"),
    [
        ("glue/cola", "tasks/cola", {"train": 8551, "dev": 527, "dev-out": 516}),
        ("glue/sst2", "tasks/sst2", {"train": 6920, "dev": 1821}),
        ("glue/qnli", "tasks/qnli", {"dev": 5463}),
        ("glue/wnli", "tasks/wnli", {"train": 518, "dev": 71}),
        ("stsb-multi", "tasks/stsb", {"train": 5749, "dev": 1500, "test": 1379}),
        ("copa", "tasks/copa", {"dev": 500, "test": 500}),
        ("superglue/boolq", "tasks/fewglue", {"train": 32}),
        ("wnut17", "tasks/wnut17", {"train": 3394, "dev": 1009, "test": 1287}),
        ("ewt-pos", "gold/ud-english-ewt", {"dev": 2001}),
        ("ncbi", "domains/biomedical", {"train": 5779}),
    ],
)  # fmt: skip
def test_samples_of_published_sets(shared: Path, name: str, folder: str, rows: dict[str, int]) -> None:
    """The real files, of which a few are not there: every record is given, and every label is a known one."""
    splits = tuple(split for split in ("train", "dev") if split in rows)
    found = find_published_set(name, str(shared / "data" / folder), splits)
    labels = set[str]()
    for split, number in rows.items():
        records = read(found.files[split], found.published.kind)
        assert len(records) == number, split
        labels |= {str(record.values["label"]).lower() for record in records if "label" in record.values}
    assert {*found.files} == {*rows}
    assert labels == {*found.published.labels} or not found.published.labels


def test_conll_2003_is_read_as_bio(tmp_path: Path) -> None:
    for file in ("eng.train", "eng.testa"):
        (tmp_path / file).write_text(
            "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nUN NNP I-NP B-ORG\n\nall DT I-NP O\nPeter NNP I-NP I-PER\n"
        )
    records = read(find_published_set("conll2003", str(tmp_path)).files["train"], "tags")
    assert [record.values["tags"] for record in records] == [["B-ORG", "B-ORG"], ["O", "B-PER"]]
    (tmp_path / "eng.train").rename(tmp_path / "train.txt")
    (tmp_path / "eng.testa").rename(tmp_path / "valid.txt")
    found = find_published_set("conll2003-pos", str(tmp_path))
    assert read(found.files["dev"], "tags")[0].values["tags"] == ["NNP", "NNP"]


def test_folders_and_packed_files_are_found(tmp_path: Path) -> None:
    article = {"article": "A.", "questions": ["Q?"], "options": [["1", "2"]], "answers": ["B"], "id": "high1.txt"}
    for split in ("train", "dev"):
        (tmp_path / "RACE" / split / "high").mkdir(parents=True)
        (tmp_path / "RACE" / split / "high" / "1.txt").write_text(json.dumps(article))
    for name in ("race", "race/high"):
        (record,) = read(find_published_set(name, str(tmp_path)).files["train"], "choice")
        assert (record.values["label"], record.values["level"]) == (1, "high")
    for split in ("train", "dev"):
        (tmp_path / f"{split}-v1.1.json.gz").write_bytes(b"")
    assert find_published_set("squad/1.1", str(tmp_path)).files["dev"].path.endswith("dev-v1.1.json.gz")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
    with pytest.raises(InputError, match=r"does not hold glue/rte as it is published: it lacks train\.tsv\. Give the"):
        find_published_set("glue/rte", str(tmp_path))
    with pytest.raises(InputError, match=r"eng\.train and eng\.testa, or train\.txt and valid\.txt"):
        find_published_set("conll2003", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"lacks diagnostic\.tsv, or AX\.tsv, or test\.tsv"):
        find_published_set("glue/ax", str(tmp_path))
    with pytest.raises(InputError, match="has no key 'glue/sst': did you mean 'glue/sst2'"):
        find_published_set("glue/sst", str(tmp_path))


def test_the_table_is_whole() -> None:
    """Fails if a set has a format or a role that there is not, or classes without labels."""
    assert {"race", "swag", "squad/1.1", "squad/2.0", "stsb-multi", "stsb-multi/de", "ncbi"} <= {*PUBLISHED}
    for name, each in PUBLISHED.items():
        assert each.metrics and each.kind in ROLES, name
        assert bool(each.labels) == (each.kind == "classes"), name
        for layout in each.layouts:
            form = FORMATS[layout.format] if layout.format else None
            assert form is None or not form.roles or {*ROLES[each.kind]} <= {*form.roles}, name


def test_the_sts_benchmark_of_its_authors_is_read_whole(tmp_path: Path) -> None:
    """Fails if rows with a licence and a source at their end are dropped, or quotes join rows."""
    rows = ['main-news\tMSRpar\t2012test\t0001\t5.000\tA "plane" left.\t"A plane left.',
            "main-forums\tdeft\t2014\t0002\t1.250\tA.\tB.\thttps://example.org\tCC BY"]  # fmt: skip
    for split in ("train", "dev", "test"):
        (tmp_path / f"sts-{split}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for file in find_published_set("sts-benchmark", str(tmp_path)).files.values():
        assert [(*record.values.values(),) for record in read(file, "number", True)] == [
            ('A "plane" left.', '"A plane left.', "5.000"), ("A.", "B.", "1.250")]  # fmt: skip


def test_mrpc_as_its_authors_publish_it(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"msr_paraphrase_{split}.txt").write_text(GLUE["mrpc"]["train"] + "\n", encoding="utf-8")
    found = find_published_set("glue/mrpc", str(tmp_path), ("train", "test"))
    assert [len(read(file, "classes")) for file in found.files.values()] == [1, 1]
    with pytest.raises(InputError, match=r"or a dev split next to msr_paraphrase_train\.txt and msr_para"):
        find_published_set("glue/mrpc", str(tmp_path))
