"""Published sets by name: what is learnt from them, their files as they are published, and how answers are handed in.

A name is looked up in `PUBLISHED`; with a folder given, `published` finds the files of its splits, packed or not, and
says how each is read. A set that is published in several ways has a layout for each, of which the first is taken that
has all splits asked for. Promise: no file is read further than its first line, and none is guessed: what is missing is
named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from corpora.errors import InputError
from corpora.sources.bytes.endings import PACKED_ENDINGS
from corpora.store.settings import unknown_key
from trainer.tasks.formats.opening import lines_of, opened
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.formats.submissions import Submission

CLASSES, NUMBER, CHOICE, TAGS, SPAN = "classes", "number", "choice", "tags", "span"
TRAINED = ("train", "dev")

Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """One way in which a set is published.

    files:   for each split its file, or its folder
    columns: of all splits but those of `others`, which have their own, and a header
    ragged:  whether rows have more cells than the first one, which tell where a text is from
    first:   with what the first line of the train split begins, where files of one name differ
    """

    files: Mapping[str, str]
    format: str = ""
    header: bool = True
    ragged: bool = False
    columns: Columns = field(default_factory=dict)
    others: Mapping[str, Columns] = field(default_factory=dict)
    first: str = ""

    def settings(self, split: str, path: Path) -> FileSettings:
        """How a split's file is read."""
        own = self.others.get(split)
        return FileSettings(
            path=str(path),
            format=self.format,
            header=self.header or own is not None,
            ragged=self.ragged,
            columns=self.columns if own is None else own,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSet:
    """A set of labelled data.

    kind:       "classes", "number", "choice", "tags" or "span"
    folder:     what its folder is called within the benchmark's
    labels:     the classes in the order of their outputs; none: those of the files
    metrics:    by what it is judged, the first above all
    submission: how the answers to its test split are handed in; None: they are not
    """

    kind: str
    layouts: tuple[FileLayout, ...]
    metrics: tuple[str, ...]
    folder: str = ""
    labels: tuple[str, ...] = ()
    submission: Submission | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSet:
    """A published set in a folder. files: for each split that is there how it is read."""

    name: str
    published: PublishedSet
    files: Mapping[str, FileSettings]


def published(name: str, folder: str, splits: Sequence[str] = TRAINED) -> FoundSet:
    """The set of that name in a folder, or in its own folder within that.

    splits: those that must be there, of the ones the set has in one layout or another; others are found as well
    Raises InputError for a name that is not known, and where files are missing.
    """
    known = published_set(name)
    missing = list[str]()
    offered = {split for layout in known.layouts for split in layout.files}
    roots = (Path(folder), Path(folder) / known.folder)
    for root in [root for root in roots if root.is_dir()] or roots[:1]:
        for layout in known.layouts:
            files = dict(_files(layout, root))
            lacking = [
                layout.files.get(split, f"a {split} split beside {' and '.join(layout.files.values())}")
                for split in splits
                if split in offered and split not in files
            ]
            if not lacking and files and _begins(layout, files):
                settings = {split: layout.settings(split, path) for split, path in files.items()}
                return FoundSet(name=name, published=known, files=MappingProxyType(settings))
            missing.append(" and ".join(lacking or layout.files.values()))
    raise InputError(
        f"{folder} does not hold {name} as it is published: it lacks {', or '.join(dict.fromkeys(missing))}. Give the "
        "folder with these files, or name the files and their columns yourself."
    )


def published_set(name: str) -> PublishedSet:
    """The set of that name. Raises InputError."""
    if name not in PUBLISHED:
        raise InputError(unknown_key(name, list(PUBLISHED), "The table of published sets"))
    return PUBLISHED[name]


def _files(layout: FileLayout, root: Path) -> Iterator[tuple[str, Path]]:
    for split, file in layout.files.items():
        ways = (root / f"{file}{packing}" for packing in ("", *PACKED_ENDINGS))
        if found := next((way for way in ways if way.exists()), None):
            yield split, found


def _begins(layout: FileLayout, files: Mapping[str, Path]) -> bool:
    """Whether the first line is the layout's."""
    if not layout.first:
        return True
    path = str(next(iter(files.values())))
    with opened(path) as stream:
        return next(lines_of(stream, path), "").startswith(layout.first)


# GLUE.

PAIR: Columns = {"text": "sentence1", "second": "sentence2", "label": "label", "id": "index"}
TSV = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}


def _unlabelled(columns: Columns) -> Columns:
    return {role: column for role, column in columns.items() if role != "label"}


def _glue(
    folder: str,
    columns: Columns,
    labels: tuple[str, ...] = (),
    metrics: tuple[str, ...] = ("accuracy",),
    files: Mapping[str, str] = TSV,
    others: tuple[FileLayout, ...] = (),
    hand_in: str = "",
) -> PublishedSet:
    """A task of GLUE: tables with a header, whose test split has an index and no label."""
    return PublishedSet(
        kind=CLASSES if labels else NUMBER,
        folder=folder,
        labels=labels,
        metrics=metrics,
        layouts=(
            FileLayout(
                files=files,
                columns=columns,
                others={"test": {**_unlabelled(columns), "id": columns.get("id", "index")}},
            ),
            *others,
        ),
        submission=Submission(file=f"{hand_in or folder}.tsv", bounds=None if labels else (0.0, 5.0)),
    )


BOTH = ("0", "1")
ENTAILED = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")


def _mnli(matched: str, hand_in: str) -> PublishedSet:
    files = {"train": "train.tsv", "dev": f"dev_{matched}.tsv", "test": f"test_{matched}.tsv"}
    columns = {**PAIR, "label": "gold_label"}
    return _glue("MNLI", columns, INFERENCE, files=files, hand_in=hand_in)


COLA = FileLayout(
    files=TSV,
    header=False,
    columns={"text": "4", "label": "2"},
    others={"test": {"text": "sentence", "id": "index"}},
)
COLA_FILES = {"train": "in_domain_train.tsv", "dev": "in_domain_dev.tsv", "dev-out": "out_of_domain_dev.tsv"}
COLA_OWN = FileLayout(files=COLA_FILES, header=False, columns={"text": "4", "label": "2"})
SST2 = FileLayout(
    files=TSV,
    columns={"text": "sentence", "label": "label"},
    others={"test": {"text": "sentence", "id": "index"}},
    first="sentence\t",
)
SST2_BARE = FileLayout(files=TSV, header=False, columns={"text": "2", "label": "1"})
MRPC: Columns = {"text": "#1 String", "second": "#2 String", "label": "Quality"}
MRPC_OWN = FileLayout(
    files={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"}, format="tsv", columns=MRPC
)

GLUE: Mapping[str, PublishedSet] = {
    "cola": PublishedSet(
        kind=CLASSES,
        folder="CoLA",
        labels=BOTH,
        metrics=("matthews", "accuracy"),
        layouts=(COLA, COLA_OWN),
        submission=Submission(file="CoLA.tsv"),
    ),
    "sst2": PublishedSet(
        kind=CLASSES,
        folder="SST-2",
        labels=BOTH,
        metrics=("accuracy",),
        layouts=(SST2, SST2_BARE),
        submission=Submission(file="SST-2.tsv"),
    ),
    "mrpc": _glue("MRPC", MRPC, BOTH, ("f1", "accuracy"), others=(MRPC_OWN,)),
    "stsb": _glue("STS-B", {**PAIR, "label": "score"}, metrics=("pearson", "spearman")),
    "qqp": _glue(
        "QQP",
        {"text": "question1", "second": "question2", "label": "is_duplicate", "id": "id"},
        BOTH,
        ("f1", "accuracy"),
    ),
    "mnli": _mnli("matched", "MNLI-m"),
    "mnli-mm": _mnli("mismatched", "MNLI-mm"),
    "qnli": _glue("QNLI", {**PAIR, "text": "question", "second": "sentence"}, ENTAILED),
    "rte": _glue("RTE", PAIR, ENTAILED),
    "wnli": _glue("WNLI", PAIR, BOTH),
    "ax": PublishedSet(
        kind=CLASSES,
        folder="diagnostic",
        labels=INFERENCE,
        metrics=("matthews",),
        layouts=tuple(
            FileLayout(files={"test": file}, columns=_unlabelled(PAIR))
            for file in ("diagnostic.tsv", "AX.tsv", "test.tsv")
        ),
        submission=Submission(file="AX.tsv"),
    ),
}


# SuperGLUE.


def _superglue(
    folder: str,
    labels: tuple[str, ...],
    metrics: tuple[str, ...],
    form: str = "",
    columns: Columns | None = None,
    *,
    kind: str = CLASSES,
    spelled: Columns | None = None,
    shape: str = "rows",
) -> PublishedSet:
    """A task of SuperGLUE: a `.jsonl` for each split, whose test split has no label."""
    files = {"train": "train.jsonl", "dev": "val.jsonl", "test": "test.jsonl"}
    columns = columns or {}
    others = {"test": _unlabelled(columns)} if columns else {}
    return PublishedSet(
        kind=kind,
        folder=folder,
        labels=labels,
        metrics=metrics,
        layouts=(FileLayout(files=files, format=form, columns=columns, others=others),),
        submission=Submission(file=f"{folder}.jsonl", labels=spelled or {}, shape=shape),
    )


def _diagnostic(folder: str, metric: str, columns: Columns) -> PublishedSet:
    """What a model of RTE answers besides: a test split that has labels and is handed in as well."""
    file = f"{folder}.jsonl"
    return PublishedSet(
        kind=CLASSES,
        folder=folder,
        labels=ENTAILED,
        metrics=(metric,),
        layouts=(FileLayout(files={"test": file}, columns=columns),),
        submission=Submission(file=file),
    )


PREMISE: Columns = {"text": "premise", "second": "hypothesis", "label": "label", "id": "idx"}
TRUTH = ("false", "true")
SUPERGLUE: Mapping[str, PublishedSet] = {
    "boolq": _superglue("BoolQ", TRUTH, ("accuracy",), columns={**PREMISE, "text": "question", "second": "passage"}),
    "cb": _superglue("CB", INFERENCE, ("accuracy", "macro_f1"), columns=PREMISE),
    "copa": _superglue("COPA", (), ("accuracy",), "copa", kind=CHOICE),
    "multirc": _superglue("MultiRC", BOTH, ("f1a", "exact"), "multirc", shape="groups"),
    "record": _superglue("ReCoRD", BOTH, ("f1", "exact"), "record"),
    "rte": _superglue("RTE", ENTAILED, ("accuracy",), columns=PREMISE),
    "wic": _superglue("WiC", TRUTH, ("accuracy",), "wic"),
    "wsc": _superglue("WSC", TRUTH, ("accuracy",), "wsc", spelled={"false": "False", "true": "True"}),
    "axb": _diagnostic("AX-b", "matthews", {**PREMISE, "text": "sentence1", "second": "sentence2"}),
    "axg": _diagnostic("AX-g", "accuracy", PREMISE),
}


# Others.


def _plain(
    kind: str, form: str, metrics: tuple[str, ...], *files: Mapping[str, str], folder: str = "", **columns: str
) -> PublishedSet:
    """A set whose files have one format, whatever their names are; all splits have labels."""
    layouts = tuple(FileLayout(files=each, format=form, columns=columns) for each in files)
    return PublishedSet(kind=kind, layouts=layouts, metrics=metrics, folder=folder)


def _splits(pattern: str, train: str = "train", dev: str = "dev", test: str = "test") -> dict[str, str]:
    names = {"train": train, "dev": dev, "test": test}
    return {split: pattern.format(name) for split, name in names.items() if name}


def _stsb_multi(language: str) -> PublishedSet:
    layout = FileLayout(
        files=_splits(f"stsb-{language}-{{}}.csv"), header=False, columns={"text": "1", "second": "2", "label": "3"}
    )
    return PublishedSet(kind=NUMBER, layouts=(layout,), metrics=("pearson", "spearman"), folder="stsb_multi_mt")


STS_BENCHMARK = PublishedSet(  # the texts from 6 on, the score before; some rows end with a licence and a source
    kind=NUMBER,
    layouts=(
        FileLayout(
            files=_splits("sts-{}.csv"),
            format="tsv",
            header=False,
            ragged=True,
            columns={"label": "5", "text": "6", "second": "7"},
        ),
    ),
    metrics=("pearson", "spearman"),
    folder="stsbenchmark",
)
CONLL2003 = (_splits("eng.{}", dev="testa", test="testb"), _splits("{}.txt", dev="valid"))
CHUNKS = ("f1", "precision", "recall")
EWT = _splits("en_ewt-ud-{}.conllu")
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "ru", "zh")
COPA_FILES = {"dev": "copa-dev.xml", "test": "copa-test.xml"}
WNUT17 = {"train": "wnut17train.conll", "dev": "emerging.dev.conll", "test": "emerging.test.annotated"}
NCBI = _splits("NCBI{}set_corpus.txt", dev="develop")

PUBLISHED: Mapping[str, PublishedSet] = MappingProxyType(
    {f"glue/{name}": each for name, each in GLUE.items()}
    | {f"superglue/{name}": each for name, each in SUPERGLUE.items()}
    | {f"stsb-multi/{language}": _stsb_multi(language) for language in LANGUAGES}
    | {
        "stsb-multi": _stsb_multi("en"),
        "sts-benchmark": STS_BENCHMARK,
        "squad/1.1": _plain(SPAN, "squad", ("f1", "exact"), _splits("{}-v1.1.json", test="")),
        "squad/2.0": _plain(SPAN, "squad", ("f1", "exact"), _splits("{}-v2.0.json", test="")),
        "race": _plain(CHOICE, "race", ("accuracy",), _splits("{}"), folder="RACE"),
        "race/middle": _plain(CHOICE, "race", ("accuracy",), _splits("{}/middle"), folder="RACE"),
        "race/high": _plain(CHOICE, "race", ("accuracy",), _splits("{}/high"), folder="RACE"),
        "swag": _plain(CHOICE, "swag", ("accuracy",), _splits("{}.csv", dev="val")),
        "hellaswag": _plain(CHOICE, "swag", ("accuracy",), _splits("hellaswag_{}.jsonl", dev="val")),
        "copa": _plain(CHOICE, "copa", ("accuracy",), COPA_FILES, folder="datasets"),
        "conll2003": _plain(TAGS, "iob1", CHUNKS, *CONLL2003),
        "conll2003-pos": _plain(TAGS, "conll", ("token_accuracy",), *CONLL2003, tags="2"),
        "wnut17": _plain(TAGS, "conll", CHUNKS, WNUT17),
        "ewt-pos": _plain(TAGS, "conllu", ("token_accuracy",), EWT),
        "ncbi": _plain(TAGS, "ncbi", CHUNKS, NCBI),
    }
)
