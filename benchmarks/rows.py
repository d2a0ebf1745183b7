"""Rows of ids: `write_rows` beside the way of transformers' example run_mlm.py, from JSON lines to rows on disk.

The other way, without --line_by_line: `datasets` loads the JSON lines, maps the fast tokenizer over batches of a
thousand documents with the special tokens' mask, maps the joining and cutting of each batch, and saves to disk; one
process, as its defaults are, with progress bars off. It is written anew here, after what that script does. Every call
starts without a cache. Rows are compared id for id, WordPiece and byte-level BPE, 128 and 512 ids long, documents
whole; and the file of `write_rows` is loaded by `datasets` as well.

CPU time is of all threads. Of ours it holds the making of an encoder, whatever the size of the text: give
`--megabytes 32`. The two halves of the text stand in two files, and are also written by two threads.
Needs `datasets` and transformers; where one is not installed the row of the other way is left out, and the rows are
held to their definition.
"""

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Report, Side, described, figure, main, size_mb, take_turns, text_column
from shards.rows import COLUMN, RowSettings, RowsWritten, frame_of, read_rows, rows_plainly, write_rows
from tokenizers_train.build import train_vocabulary
from tokenizers_train.counts import count_by
from tokenizers_train.encode import Encoder, text_tokenizer
from tokenizers_train.settings import VocabularySettings
from tokenizers_train.vocabulary import Vocabulary

VOCABULARIES = (VocabularySettings(), VocabularySettings(algorithm="byte-bpe", size=50265))
LENGTHS = (128, 512)
MAPPED = 1000  # documents in a batch of `Dataset.map` where nothing else is said
OTHER_WAY = "datasets and transformers, run_mlm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What both sides are given.

    files: JSON lines, each one half of the text; home: a folder in which `vocabulary` is saved, and to write in
    """

    files: tuple[Path, ...]
    vocabulary: Vocabulary
    home: Path
    length: int

    @property
    def settings(self) -> RowSettings:
        """The settings that give the rows of the other way."""
        return RowSettings(length=self.length, group=MAPPED)


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """Rows of the texts as they are, by vocabularies learnt from them."""
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        files = tuple(Path(folder, f"half-{number}.jsonl") for number in range(2))
        for number, file in enumerate(files):
            half = texts[number * len(texts) // 2 : (number + 1) * len(texts) // 2]
            file.write_text("".join(json.dumps({"text": text}) + "\n" for text in half), encoding="utf-8")
        for settings in VOCABULARIES:
            vocabulary = train_vocabulary(count_by(settings.word_rule, text_column(texts)), settings)
            home = Path(folder, settings.algorithm)
            vocabulary.save(home / "vocabulary")
            for length in LENGTHS:
                work = Work(files=files, vocabulary=vocabulary, home=home, length=length)
                reports.append(compare(texts, work, rounds))
    return reports


def compare(texts: Sequence[str], work: Work, rounds: int) -> Report:
    """Rows of one length by one vocabulary."""
    ours = work.home / "ours.arrow"
    written = write_rows(work.files, work.vocabulary, ours, work.settings)
    assert written.num_documents == len(texts), "documents differ"
    sides = [
        Side(name="write_rows", call=lambda _: write_rows(work.files, work.vocabulary, ours, work.settings)),
        Side(name="  of it, its encoder", call=lambda _: Encoder(work.vocabulary)),
        Side(name="  each half by itself", call=lambda _: write_halves(work, 1)),
        Side(name="  the halves in two threads", call=lambda _: write_halves(work, 2)),
    ]
    notes = [f"{written.num_rows} rows of {work.length}; {written.left_over} of {written.num_ids} ids left over"]
    if find_spec("datasets") is None or find_spec("transformers") is None:
        compare_with_definition(texts, work, ours)
        notes.append("all rows equal the definition's; datasets or transformers is not installed: no row for them")
    else:
        compare_rows(work, ours, written)
        notes.append("all rows equal those of the other way, and those that datasets loads from the file")
        sides.append(Side(name=OTHER_WAY, call=partial(other_way, work)))
    one, two = (wall_seconds(partial(write_halves, work, threads), rounds) for threads in (1, 2))
    notes.append(f"the halves one after another take {figure(one)} s of the clock, in two threads {figure(two)} s")
    return Report(
        title=described(f"rows, {work.vocabulary.algorithm}, {work.length}", texts, rounds),
        amounts={"MB": size_mb(texts), "M ids": written.num_ids / 1e6},
        rows=take_turns(sides, rounds),
        notes=tuple(notes),
    )


def write_halves(work: Work, threads: int) -> list[RowsWritten]:
    """Each file's rows into a file of their own, by so many threads."""
    with ThreadPoolExecutor(threads) as pool:
        targets = (file.with_suffix(".arrow") for file in work.files)
        written = pool.map(
            lambda file, target: write_rows([file], work.vocabulary, target, work.settings), work.files, targets
        )
        return list(written)


def wall_seconds(call: Callable[[], object], rounds: int) -> float:
    """The least of some calls: what others do on the machine only adds."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def other_way(work: Work, number: int) -> Path:
    """Do as run_mlm.py does; the folder saved to. number: of the call."""
    datasets, transformers = import_module("datasets"), import_module("transformers")
    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()  # it warns of documents longer than the model
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(work.home / "vocabulary"))

    def tokenised(batch: dict[str, list[Any]]) -> Any:
        return tokenizer(batch["text"], return_special_tokens_mask=True)

    def grouped(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = {name: list(itertools.chain.from_iterable(lists)) for name, lists in batch.items()}
        stop = len(joined[COLUMN]) // work.length * work.length
        return {
            name: [ids[at : at + work.length] for at in range(0, stop, work.length)] for name, ids in joined.items()
        }

    saved = work.home / f"saved-{number}"
    with tempfile.TemporaryDirectory(dir=work.home) as cache:
        names = [str(file) for file in work.files]
        lines = datasets.load_dataset("json", data_files=names, split="train", cache_dir=cache)
        documents = lines.map(tokenised, batched=True, remove_columns=lines.column_names)
        documents.map(grouped, batched=True).save_to_disk(str(saved))
    return saved


def compare_with_definition(texts: Sequence[str], work: Work, ours: Path) -> None:
    """Hold the rows to those of the tokenizer and plain lists."""
    encodings = text_tokenizer(work.vocabulary).encode_batch_fast(texts, add_special_tokens=False)
    documents = [encoding.ids for encoding in encodings]
    plain, _, _ = rows_plainly(documents, frame_of(work.vocabulary, work.settings))
    assert read_rows(ours).tolist() == plain, "rows differ from the definition's"


def compare_rows(work: Work, ours: Path, written: RowsWritten) -> None:
    """Hold the rows to those of the other way, and to those that `datasets` loads."""
    datasets = import_module("datasets")
    theirs = datasets.load_from_disk(str(other_way(work, 0))).with_format("numpy")
    rows = read_rows(ours)
    assert rows.shape == (written.num_rows, work.length), "rows differ in number"
    assert np.array_equal(rows, np.asarray(theirs[COLUMN][:]).reshape(rows.shape)), "rows differ"
    assert np.asarray(theirs["attention_mask"][:]).all(), "the attention mask differs from all ones"
    special = np.isin(rows, [work.vocabulary.special_ids[role] for role in ("cls", "sep")])
    assert np.array_equal(special, np.asarray(theirs["special_tokens_mask"][:]).reshape(rows.shape)), "masks differ"
    with tempfile.TemporaryDirectory(dir=work.home) as cache:
        loaded = datasets.load_dataset("arrow", data_files=str(ours), split="train", cache_dir=cache)
        assert np.array_equal(loaded.with_format("numpy")[COLUMN][:], rows), "rows loaded differ"


if __name__ == "__main__":
    main(benchmark)
