"""What a caller gives is looked at: the law is that nothing is taken for something else.

Each kind of input goes through each function that takes texts, rows or files. It is either read, and then each row of
it is there in the result, or refused with an InputError that says what to write instead.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_recipe import prose

import cloze

pytest.importorskip("torch")
from small_models import write_model
from small_tasks import exported_model

from trainer.tasks.kinds.texts import ClassesTask

TEXTS = [prose(n) for n in range(6)]
LABELS = [f"label {n % 2}" for n in range(6)]
REFUSED = {
    "one text": ("One text, and no list of such.", r"no file or folder .*list: \[text\]"),
    "bytes": (b"bytes", r"\.decode\(\)"),
    "a set": ({"a", "b"}, "sorted"),
    "None": (None, "NoneType: give texts, rows or a file"),
    "a number": (7, "int: give texts, rows or a file"),
    "a class": (dict, "a class: give texts"),
    "one record": ({"text": "One."}, r"\[record\]"),
    "numbers": ([1, 2], r"\[0\] is of the type int: rows are texts, or dictionaries"),
    "rows of lists": ([["a"], ["b"]], r"\[0\] is of the type list"),
    "what JSON lacks": ([{"text": "One.", "more": object()}], r"\[0\] holds .*object"),
    "an open file": (io.StringIO("text"), "give its path"),
    "a missing path": (Path("no/such.jsonl"), "no file or folder"),
}


class Made(NamedTuple):
    """Things of this package, and a folder for files."""

    folder: Path
    docs: cloze.Documents
    vocab: cloze.Vocabulary
    shards: cloze.Shards
    model: cloze.Model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("inputs")
    docs = cloze.deduplicate(cloze.read(TEXTS, store=folder / "store", progress=False), held_out=0.0)
    vocab = cloze.train_vocabulary(docs, size=200)
    shards = cloze.build_shards(docs, vocab, 64, input="single", progress=False)
    exported_model(ClassesTask(labels=("bad", "good")), write_model(folder / "encoder"), folder / "model", {})
    return Made(folder, docs, vocab, shards, cloze.load_model(folder / "model"))


def rows() -> list[dict[str, str]]:
    return [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]


def table() -> pa.Table:
    return pa.table({"text": TEXTS, "label": LABELS})


def file(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(table(), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return path


def pandas(made: Made) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows(), index=range(10, 16))


def dataset(made: Made) -> Any:
    backwards = pytest.importorskip("datasets").Dataset.from_list(rows()[::-1])
    return backwards.select(range(len(TEXTS) - 1, -1, -1))


def generator(made: Made) -> Iterator[str]:
    return (text for text in TEXTS)


READ: dict[str, Callable[[Made], Any]] = {
    "list of texts": lambda made: TEXTS,
    "tuple": lambda made: tuple(TEXTS),
    "generator": generator,
    "array": lambda made: np.array(TEXTS),
    "list of rows": lambda made: rows(),
    "generator of rows": lambda made: iter(rows()),
    "columns": lambda made: {"text": TEXTS, "label": LABELS},
    "DataFrame": pandas,
    "Series": lambda made: pandas(made)["text"],
    "Arrow table": lambda made: table(),
    "Arrow batch": lambda made: table().to_batches()[0],
    "Arrow reader": lambda made: table().to_reader(2),
    "Arrow array": lambda made: table().column("text"),
    "Dataset": dataset,
    "column of a Dataset": lambda made: dataset(made)["text"],
    "IterableDataset": lambda made: dataset(made).to_iterable_dataset(),
    "path": lambda made: file(made.folder, "rows.jsonl"),
    "path of Parquet": lambda made: str(file(made.folder, "rows.parquet")),
    "documents": lambda made: made.docs,
    "store": lambda made: made.folder / "store",
    "corpus of a store": lambda made: Path(made.docs._workspace.place.to_address(made.docs._corpus.folder)),
    "documents of a store": lambda made: made.folder / "store" / "documents",
}
OURS: dict[str, tuple[Callable[[Made], Any], str]] = {
    "a vocabulary": (lambda made: made.vocab, "a Vocabulary, which has no texts"),
    "shards": (lambda made: made.shards, "a Shards, which has no texts"),
    "a model": (lambda made: made.model, "a Model, which has no texts"),
    "shards of a store": (lambda made: made.shards.artifact, r"cloze\.open_shards"),
    "vocabulary of a store": (lambda made: made.folder / "store" / "vocabularies", r"cloze\.load_vocabulary"),
    "splits": (
        lambda made: pytest.importorskip("datasets").DatasetDict({"train": dataset(made)}),
        r"one of its splits, as in dataset\['train'\]",
    ),
}


OFF = {name: {"enabled": False} for name in ("c4", "gopher", "repetition")}
OF_DOCUMENTS: dict[str, Callable[[Any], Any]] = {
    "read": lambda given: cloze.read(given, progress=False),
    "clean": lambda given: cloze.clean(given, progress=False),
    "judge": lambda given: cloze.judge(given, rules=OFF, language=[], progress=False),
    "deduplicate": lambda given: cloze.deduplicate(given, progress=False),
}
TELLING = ("generator of rows", "DataFrame", "Dataset", "store")  # each of another way of reading
LABELLED = ("list of rows", "generator of rows", "columns", "DataFrame", "Arrow table", "Dataset", "path")


def quickly(functions: Sequence[str]) -> Iterator[Any]:
    """Each function with each kind of input; those that are told by others already in the long tier."""
    for function in functions:
        for kind in READ:
            long = function != functions[0] and kind not in TELLING
            yield pytest.param(function, kind, marks=[pytest.mark.long] if long else [], id=f"{function}-{kind}")


@pytest.mark.parametrize(("function", "kind"), [*quickly([*OF_DOCUMENTS])])
def test_each_kind_of_input_becomes_its_documents(function: str, kind: str, made: Made) -> None:
    """Fails if a function of documents takes a kind of input for something else, or loses a row of it."""
    result = OF_DOCUMENTS[function](READ[kind](made))
    assert sorted(result["text"]) == sorted(TEXTS)
    assert kind != "Dataset" or function == "read" or result.column_names == ["text", "label"]


@pytest.mark.long
@pytest.mark.parametrize("kind", READ)
def test_vocabularies_and_shards_are_made_of_each_kind_of_input(kind: str, made: Made) -> None:
    """Fails if what is made of an input is not what is made of its texts."""
    vocab, shards = cloze.train_vocabulary(TEXTS, size=200), cloze.build_shards(TEXTS, made.vocab, 64, input="single")
    assert [*cloze.train_vocabulary(READ[kind](made), size=200, progress=False)] == [*vocab]
    assert len(cloze.build_shards(READ[kind](made), made.vocab, 64, input="single", progress=False)) == len(shards)


@pytest.mark.parametrize("kind", READ)
def test_each_kind_of_input_is_answered_row_by_row(kind: str, made: Made) -> None:
    """Fails if a model answers other rows than those it was given, or others for a table than for a list."""
    answers, vectors = made.model.predict(TEXTS, progress=False), made.model.encode(TEXTS, progress=False)
    order = sorted(range(6), key=TEXTS.__getitem__)
    given = made.model.predict(READ[kind](made), progress=False)
    also = made.model.encode(READ[kind](made), progress=False)
    if kind == "Dataset":
        assert given.column_names == ["text", "label", "predicted_label", "probabilities"]
        assert given["predicted_label"] == [answer["label"] for answer in answers]
        assert np.allclose(also["vector"], vectors, atol=1e-6)
        return
    same = range(6) if "docu" not in kind and "store" not in kind else order  # documents come in their own order
    labels = [answers[number]["label"] for number in same]
    assert [answer["label"] for answer in given] == labels if same is not order else len(given) == 6
    assert np.allclose(np.sort(also, 0), np.sort(vectors, 0), atol=1e-6)


@pytest.mark.parametrize("kind", LABELLED)
def test_each_kind_of_rows_is_labelled_rows(kind: str, made: Made) -> None:
    """Fails if rows to learn from are counted otherwise than they are."""
    report = cloze.check("classes", READ[kind](made))
    assert [*report["rows"].values()] == [6]
    assert kind == "path" or ([*report["rows"]] == ["train"] and ".parquet" not in str(report))


def test_a_call_takes_columns_of_texts_and_nothing_else(made: Made) -> None:
    """Fails if a vocabulary encodes the names of columns, or what is no text."""
    expected = made.vocab(TEXTS).input_ids
    for kind in ("tuple", "generator", "array", "Series", "Arrow array", "column of a Dataset"):
        assert made.vocab(READ[kind](made)).input_ids == expected, kind
    for value in (READ["DataFrame"](made), READ["columns"](made), READ["Dataset"](made), b"a", 7, {"a"}, [None], made):
        with pytest.raises(cloze.InputError, match="text"):
            made.vocab(value)


def test_what_is_empty_is_empty(made: Made) -> None:
    """Fails if an input without rows is refused, or gives a row."""
    empty = table().slice(0, 0)
    for value in ([], iter(()), {}, {"text": []}, empty, empty.to_pandas(), dataset(made).select([])):
        docs = cloze.clean(value, progress=False)
        assert [*docs] == []
        assert made.model.predict(value, progress=False)[:] in ([], {"text": [], "label": []})
        assert len(made.model.encode(value, progress=False)) == 0


def test_a_dataset_keeps_its_rows(made: Made) -> None:
    """Fails if the rows of a Dataset that are left are not its own, in its order, with all their columns."""
    datasets = pytest.importorskip("datasets")
    texts = [f"{'A  doubled' if n % 3 else 'Another'} text {n // 2}." for n in range(30)]
    given = datasets.Dataset.from_dict({"body": texts, "number": range(30), "predicted_label": texts})
    given = given.select([n for n in range(29, -1, -1) if n != 7])
    cleaned = cloze.clean(given, progress=False)
    assert cleaned["number"] == given["number"] and cleaned["predicted_label"] == given["predicted_label"]
    assert cleaned["body"] == [text.replace("  ", " ") for text in given["body"]]
    kept = cloze.deduplicate(given, progress=False)
    assert kept["number"] == sorted(kept["number"], reverse=True) and len({*kept["body"]}) == len(kept) < 29
    answered = made.model.predict(given, columns={"text": "body"}, progress=False)
    assert (
        answered["predicted_label"] == given["predicted_label"]
        and "predicted_predicted_label" not in given.column_names
    )
    with pytest.raises(cloze.InputError, match=r"not in a column of it, but in more\.text: read"):
        cloze.clean(datasets.Dataset.from_dict({"more": [{"text": prose(n)} for n in range(3)]}), progress=False)


FUNCTIONS: dict[str, Callable[[Made, Any], Any]] = {
    **{name: lambda made, given, call=call: call(given) for name, call in OF_DOCUMENTS.items()},
    "train_vocabulary": lambda made, given: cloze.train_vocabulary(given, size=200),
    "build_shards": lambda made, given: cloze.build_shards(given, made.vocab),
    "check": lambda made, given: cloze.check("classes", given),
    "finetune": lambda made, given: cloze.finetune(made.model, "classes", given, rows(), progress=False),
    "predict": lambda made, given: cloze.predict(made.model, given, progress=False),
    "embed": lambda made, given: cloze.embed(made.model, given, progress=False),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_input_is_refused_with_what_to_write(function: str, made: Made) -> None:
    """Fails if a function reads what has no texts, ends in a traceback, or does not say what to give instead."""
    for value, message in [*REFUSED.values(), *((make(made), message) for make, message in OURS.values())]:
        with pytest.raises(cloze.InputError, match=message):
            FUNCTIONS[function](made, value)


@pytest.mark.parametrize(
    "call",
    [
        lambda made: cloze.predict(TEXTS, TEXTS),
        lambda made: cloze.train(made.docs, steps=1),
        lambda made: cloze.build_shards(TEXTS, "a/folder"),
        lambda made: cloze.open_shards(made.shards),
        lambda made: cloze.similar(made.vocab, "a text"),
        lambda made: cloze.similar(cloze.read(TEXTS, progress=False), "a text"),
        lambda made: cloze.trace(made.shards, made.docs),
        lambda made: cloze.fill(made.model, TEXTS),
    ],
)
def test_one_thing_is_not_taken_for_another(call: Callable[[Made], Any], made: Made) -> None:
    """Fails if documents are taken for shards, a list for a model, and so on."""
    with pytest.raises(cloze.InputError, match="give"):
        call(made)
