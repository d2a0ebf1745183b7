"""A tag for each word: what is read, learnt, judged and said, and that Hugging Face's classes say the same."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import write_model
from small_tags import tagged, tags_job, write_conll
from small_tasks import encoded_for, exported_model, kept_of, run, said_of, write_json_rows
from tiers import examples

from corpora.errors import InputError
from trainer.huggingface.checkpoints import load_pretrained
from trainer.settings.model import FAMILIES
from trainer.tasks.folders import load_task
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import batch_items
from trainer.tasks.kinds.tags import CHAINS, TaggedSentence, TagsTask, find_spans, guess_scheme, may_follow, to_scheme
from trainer.tasks.long_texts import MAX_WINDOWS, iter_parts, split_into_pieces
from trainer.tasks.task import TaskItem
from trainer.tasks.text_encoder import TextEncoder

SMALL = TagsTask(units="spans", labels=("O", "B-X", "I-X"), usual="O")


# It learns, and says what it has learnt.


def test_spans_are_learnt_and_said(tmp_path: Path) -> None:
    """Fails if tags, points, windows or scores are of other words, or another model is read back."""
    record = run(tags_job(tmp_path, epochs=5))
    kept = kept_of(record)
    assert record["metric"] == "f1" and kept["f1"] > 0.95 and record["task"]["written"] == "BIO2"
    assert record["task"]["labels"] == ["O", "B-HATE", "I-HATE", "B-LIKE", "I-LIKE"]
    told, lines = said_of(tmp_path / "out", FileSettings(path=str(tmp_path / "dev.conll")), tmp_path / "s", True)
    assert told["scores"] == {
        name: pytest.approx(kept[name]) for name in ("f1", "precision", "recall", "token_accuracy")
    }
    gold = tagged(40, 2)
    assert [line["words"] for line in lines] == [[word for word, _ in sentence] for sentence in gold]
    [place] = [n for n, sentence in enumerate(gold) if sum(word == "good" for word, _ in sentence) == 1][:1]
    spans = [span for span in lines[place]["spans"] if span["type"] == "LIKE"]
    first = [word for word, _ in gold[place]].index("good")
    assert spans == [{"type": "LIKE", "first": first, "last": first + 1, "text": "good film"}]


def test_words_are_learnt_each_for_itself(tmp_path: Path) -> None:
    """Parts of speech, in a script and with words that the vocabulary does not have."""
    words = {"the": "DET", "film": "NOUN", "фильм": "X", "good": "ADJ", "\u200b": "PUNCT"}
    drawn = random.Random(3)
    rows = [[(word, words[word]) for word in drawn.choices(list(words), k=4)] for _ in range(80)]
    job = tags_job(tmp_path, epochs=6)
    job = replace(
        job, training=write_conll(tmp_path / "a.conll", rows), evaluation=write_conll(tmp_path / "b.conll", rows)
    )
    record = run(job)
    assert record["metric"] == "token_accuracy" and record["task"]["units"] == "words"
    lost = sum(tag == "PUNCT" and record["task"]["usual"] != "PUNCT" for row in rows for _, tag in row)
    every = sum(map(len, rows))
    assert kept_of(record)["token_accuracy"] == pytest.approx((every - lost) / every), "all but words without a piece"


# The folder that others open.


@pytest.mark.parametrize("family", list(FAMILIES))
def test_transformers_opens_an_export_with_equal_logits(tmp_path: Path, transformers: ModuleType, family: str) -> None:
    """At the first piece of every word, of all six families; and our folder is read back without our record."""
    write_model(tmp_path / "model", family)
    model = exported_model(SMALL, tmp_path / "model", tmp_path / "out").double()
    reference, info = transformers.AutoModelForTokenClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(info.values()), info
    assert type(reference).__name__.endswith("ForTokenClassification")
    assert reference.config.id2label == {0: "O", 1: "B-X", 2: "I-X"}
    rows = [{"words": ["good", "-film", "xy"]}, {"words": ["the"]}, {"words": ["plot", "was", "long"]}]
    encoded = encoded_for(SMALL, tmp_path / "model", rows, labelled=False)
    with torch.no_grad():
        found = model(batch_items(encoded.items), answering=True)
        said = [
            reference.eval().double()(torch.tensor(item.sequences[0].ids[None].astype(np.int64))).logits[0, item.points]
            for item in encoded.items
        ]
    assert found.shape == (7, 3) and found.std() > 0.05, "the test compares nothing"
    torch.testing.assert_close(found.double(), torch.cat(said), atol=1e-5, rtol=1e-5)
    loaded = load_task(tmp_path / "out")
    assert loaded.task == SMALL
    assert all(
        torch.equal(tensor, loaded.model.state_dict()[name]) for name, tensor in model.float().state_dict().items()
    )


# What is read of a sentence.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that reads 40 tokens."""
    return write_model(tmp_path_factory.mktemp("tags") / "model")


def items_of(task: TagsTask, folder: Path, sentences: Sequence[Sequence[str]], length: int = 40) -> list[TaskItem]:
    examples = [TaggedSentence(tuple(words), None, None) for words in sentences]
    encoder = TextEncoder.from_folder(folder, load_pretrained(folder).inputs, length)
    return task.make_items(examples, encoder, labelled=False)


def read_words(item: TaskItem, folder: Path) -> list[str]:
    """The tokens at the points of an item."""
    tokenizer = TextEncoder.from_folder(folder, load_pretrained(folder).inputs, 40).tokenizer
    ids = np.concatenate([sequence.ids for sequence in item.sequences])
    return [str(tokenizer.id_to_token(number)) for number in ids[item.points]]


def test_points_are_first_pieces(folder: Path) -> None:
    [item] = items_of(SMALL, folder, [["good", "plots", "\u200b", "was", "\x01\x02", "a-b", "é"]])
    assert read_words(item, folder) == ["good", "plot", "was", "a", "e"]
    assert item.origin.tolist() == [[0, 0], [0, 1], [0, 3], [0, 5], [0, 6]]
    assert item.targets[CHAINS].tolist() == [5]


def test_words_of_a_byte_level_tokenizer_are_those_of_running_text(tmp_path: Path) -> None:
    """Fails if words after the first lack the space with which pre-training has seen them."""
    encoder = TextEncoder.from_folder(write_model(tmp_path, "roberta"), load_pretrained(tmp_path).inputs, 40)
    [found] = split_into_pieces(encoder, [["good", "дом", "x"]])
    assert found.ids.tolist() == encoder.tokenize(["good дом x"])[0].ids
    pieces = [encoder.tokenizer.id_to_token(number) for number in found.ids[found.firsts]]
    assert (pieces, found.words.tolist()) == (["g", "Ġ", "Ġ"], [0, 1, 2])


def test_nothing_of_a_long_sentence_is_lost(folder: Path) -> None:
    """5,000 words, one of more pieces than a window: every word is a point once, in a window with words around it."""
    words = ["good"] * 2_000 + ["x" * 90] + ["film"] * 2_999
    items = items_of(SMALL, folder, [words])
    assert len(items) > 1 and all(len(item.sequences) <= MAX_WINDOWS for item in items)
    assert np.concatenate([item.origin[:, 1] for item in items]).tolist() == list(range(5_000))
    found = [token for item in items for token in read_words(item, folder)]
    assert found == [word[0] if word[0] == "x" else word for word in words]
    assert max(len(sequence.ids) for item in items for sequence in item.sequences) == 40
    [example] = SMALL.make_predictions(
        [TaggedSentence(tuple(words), None, None)], items, [np.ones(len(i.points), int) for i in items]
    )
    assert example == ["B-X"] * 5_000


def test_sentences_without_a_piece_have_the_usual_tag(folder: Path) -> None:
    sentences = [["\u200b"], ["film"], ["\x01", "\u200d"]]
    items = items_of(SMALL, folder, sentences)
    assert [item.example for item in items] == [1]
    examples = [TaggedSentence(tuple(words), None, None) for words in sentences]
    said = SMALL.make_predictions(examples, items, [np.array([[0.0, 1.0, 0.5]])])
    assert said == [["O"], ["B-X"], ["O", "O"]]


@examples(60)
@given(data=st.data())
def test_every_place_is_read_once_where_it_shows_most(data: st.DataObject) -> None:
    """The plain twin: of all windows the one with the most pieces on the poorer side; none is longer than the room."""
    total = data.draw(st.integers(1, 90))
    begin, end = sorted(data.draw(st.tuples(st.integers(0, total - 1), st.integers(1, total))))
    end = max(end, begin + 1)
    room, overlap = data.draw(st.integers(1, 20)), data.draw(st.integers(0, 12))
    places = np.array(sorted(data.draw(st.sets(st.integers(begin, end - 1), min_size=1))), np.int64)
    parts = list(iter_parts(places, begin, end, total, room, overlap))
    assert [place for part in parts for place in part.places.tolist()] == places.tolist()
    windows = [window for part in parts for window in part.windows]
    for part in parts:
        for place, number in zip(part.places.tolist(), part.window_of.tolist(), strict=True):
            first, last = part.windows[number]
            shown = min(place - first, last - 1 - place)
            assert shown >= 0 and all(shown >= min(place - b, e - 1 - place) for b, e in windows)
    assert all(0 <= first < last <= total and last - first <= room for first, last in windows)
    if end - begin <= room:
        assert windows[0][1] - windows[0][0] == min(room, total), "what there is room for is read"


def test_a_sentence_is_read_in_its_document(folder: Path) -> None:
    """Sentences of one document surround each other, those of another do not; each word is a point once."""
    task = replace(SMALL, context="document")
    words = [["good"] * 6, ["bad"] * 5, ["film"] * 7, ["plot"] * 30, ["was"] * 3]
    documents = ["1", "1", "1", "2", "2"]
    examples = [TaggedSentence(tuple(each), None, of) for each, of in zip(words, documents, strict=True)]
    encoder = TextEncoder.from_folder(folder, load_pretrained(folder).inputs, 22)
    items = task.make_items(examples, encoder, labelled=False)
    places = [(item.example + place, word) for item in items for place, word in item.origin.tolist()]
    assert places == [(number, word) for number, each in enumerate(words) for word in range(len(each))]
    read = [{encoder.tokenizer.id_to_token(n) for s in item.sequences for n in s.ids} for item in items]
    assert [each - {"[CLS]", "[SEP]"} for each in read] == [
        {"good", "bad", "film"}, {"good", "bad", "film"}, {"good", "bad", "film"}, {"plot"}, {"plot", "was"}
    ]  # fmt: skip
    with pytest.raises(InputError, match=r'does not mark where documents begin .* context = "document"'):
        task.fit([TaggedSentence(("a",), ("O",), None)], "here")


# Tags.


def test_tags_are_learnt_in_one_scheme() -> None:
    """Rows of BIO1 give the spans and the tags that rows of BIO2 give."""
    rows = [("I-PER", "I-PER", "O", "I-LOC", "B-LOC"), ("O", "I-PER")]
    examples = [TaggedSentence(tuple("abcde"[: len(tags)]), tags, None) for tags in rows]
    task = TagsTask().fit(examples, "here")
    assert (task.written, task.units, task.usual) == ("BIO1", "spans", "O")
    assert list(task.convert_tags(examples[0])) == ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]
    closed = TagsTask(scheme="bioes").fit(examples, "here")
    assert closed.labels[:5] == ("O", "B-LOC", "I-LOC", "E-LOC", "S-LOC")
    assert list(closed.convert_tags(examples[0])) == ["B-PER", "E-PER", "O", "S-LOC", "S-LOC"]
    assert task.compute_scores(examples, [["B-PER", "I-PER", "O", "B-LOC", "B-LOC"], ["O", "O"]])["recall"] == 0.75


TAG = st.sampled_from(["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "L-b", "U-b", "a"])


@examples(150)
@given(tags=st.lists(TAG, max_size=8), scheme=st.sampled_from(["bio2", "bioes"]))
def test_a_scheme_keeps_the_spans_and_is_well_formed(tags: list[str], scheme: str) -> None:
    found = to_scheme(tags, scheme)
    assert find_spans(found) == find_spans(tags)
    assert all(may_follow(one, other, scheme) for one, other in zip([None, *found], [*found, None], strict=True))
    assert to_scheme(found, scheme) == found and (scheme == "bioes" or guess_scheme([found]) in ("BIO2", "IO"))


def test_what_cannot_be_learnt_is_refused(tmp_path: Path) -> None:
    """Uneven rows, tags that training did not have, one tag alone, and metrics of other tags: by line and word."""
    rows: list[Any] = [{"words": ["a", "film"], "tags": ["O", "B-X"]}] * 30
    uneven, unknown = {"words": ["a"], "tags": ["O", "O"]}, {"words": ["a", "b"], "tags": ["O", "B-Y"]}
    cases: list[tuple[list[Any], list[Any], dict[str, Any], str]] = [
        ([*rows, uneven], rows, {}, r"1 uneven words and tags \(first in line 31, 1 words, 2 tags\)"),
        (rows, [unknown], {}, r"no answer to its 1 rows .*: 1 unknown tag \(first in line 1, 'B-Y' of word 2\)"),
        ([*rows, {"words": ["a", "b"], "tags": ["O", "X-X"]}], rows, {}, "line 31: the tag 'X-X' of word 2 is not one"),
        ([{"words": ["a"], "tags": ["O"]}], rows, {}, "has 1 different tags"),
        ([{"words": ["a"], "tags": ["X"]}], rows, {}, "has 1 different tags"),
        ([{"words": [], "tags": []}], rows, {}, "no words"),
        ([{"words": ["a"], "tags": [1.5]}], rows, {}, "tags is no list of texts"),
        (rows, rows, {"units": "words", "metric": "f1"}, "metric = 'f1' is not known"),
        (rows, rows, {"scheme": "bio"}, "scheme = 'bio' is not known"),
    ]  # fmt: skip
    job = tags_job(tmp_path)
    for number, (training, evaluation, task, message) in enumerate(cases):
        files = [
            write_json_rows(tmp_path / f"{number}-{n}.jsonl", each) for n, each in enumerate((training, evaluation))
        ]
        with pytest.raises(InputError, match=message):
            run(replace(job, task={"kind": "tags", **task}, training=files[0], evaluation=files[1]))
    assert not (tmp_path / "out").exists()


def test_a_folder_of_the_hub_tells_its_tags() -> None:
    told = {"id2label": {"0": "O", "1": "S-X", "2": "B-X", "3": "I-X", "4": "E-X"}}
    assert TagsTask.from_config(told).scheme == "bioes"
    words = TagsTask.from_config({"id2label": {"0": "NOUN", "1": "VERB"}})
    assert (words.units, words.usual, words.metrics) == ("words", "NOUN", ("token_accuracy",))
