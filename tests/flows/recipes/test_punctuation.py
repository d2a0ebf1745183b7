"""The labels of the demo's task: what a pair becomes, what is left out, and that the model reads none of them."""

import tomllib
from pathlib import Path

import pytest

from corpora.errors import InputError
from flows.recipes import punctuation
from flows.recipes.punctuation import (
    DEV_FILE,
    DEV_PACKAGES,
    READ_PACKAGES,
    TRAIN_FILE,
    TRAIN_PACKAGES,
    SentencePair,
    choose_pairs,
    find_pairs,
    format_pair,
    iter_sentences,
    locate_labels,
    make_labels,
    make_missing_labels,
)
from flows.recipes.recipe import load_shipped_recipe
from flows.recipes.tables import read_recipe_texts

FIRST, SECOND = "If it is empty, it is false.", "None is false, too."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both files."""
    folder = tmp_path_factory.mktemp("labels")
    assert set(make_labels(folder)) == {TRAIN_FILE, DEV_FILE}
    return folder


def to_rows(path: Path) -> list[list[list[str]]]:
    """The sentences of a file: for each word its columns."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return [[line.split("\t") for line in block.strip().splitlines()] for block in blocks]


def test_a_pair_loses_its_marks_and_keeps_them_as_tags() -> None:
    """Fails if a mark stays in a word, is lost, or belongs to another word, or the last full stop is asked for."""
    words = [line.split("\t") for line in format_pair(SentencePair(FIRST, SECOND)).splitlines()]
    assert " ".join(word for word, _ in words) == "If it is empty it is false none is false too"
    assert [(word, tag) for word, tag in words if tag != "O"] == [
        ("empty", "B-comma"),
        ("false", "B-stop"),
        ("false", "B-comma"),
    ]


def test_pairs_are_of_plain_neighbours() -> None:
    """Fails if a sentence with other marks is taken, sentences of two paragraphs are joined, or one is in two pairs."""
    assert [*find_pairs([f"{FIRST} {SECOND}"])] == [SentencePair(FIRST, SECOND)]
    assert [*find_pairs([f"{FIRST} See it (now) at once. {SECOND}"])] == []
    assert [*find_pairs([FIRST, SECOND])] == []
    assert [*find_pairs([f"{FIRST} {SECOND} And here is more. And here is most."])] == [
        SentencePair(FIRST, SECOND),
        SentencePair("And here is more.", "And here is most."),
    ]


def test_what_is_known_and_what_repeats_is_left_out() -> None:
    """Fails if a sentence is in two rows, or one that the model reads is in a row, or the order decides."""
    pairs = [SentencePair(FIRST, SECOND), SentencePair(SECOND, "It is new here."), SentencePair("Old one.", "Odd one.")]
    assert choose_pairs(pairs, {FIRST}, 9) == choose_pairs(pairs[::-1], {FIRST}, 9)
    assert {*choose_pairs(pairs, {FIRST}, 9)} == {*pairs[1:]}
    assert len(choose_pairs(pairs, (), 9)) == 2 and len(choose_pairs(pairs, (), 1)) == 1


def test_the_demo_reads_no_row(made: Path) -> None:
    """Fails if the demo reads a package of the labels, or a sentence of a row is in what it reads."""
    source = next(
        s for s in tomllib.loads(read_recipe_texts("shipped")["demo"])["source"] if s["kind"] == "python-docs"
    )
    assert tuple(source["packages"]) == READ_PACKAGES
    groups = [{*READ_PACKAGES}, {*TRAIN_PACKAGES}, {*DEV_PACKAGES}]
    assert len(set().union(*groups)) == sum(map(len, groups))
    read = {to_words(sentence) for sentence in iter_sentences(READ_PACKAGES, standard_library=True)}
    assert len(read) > 5_000
    for name in (TRAIN_FILE, DEV_FILE):
        rows = to_rows(made / name)
        assert len(rows) >= 200
        for row in rows:
            begin = next(n for n, (_, tag) in enumerate(row, 1) if tag == "B-stop")
            sentences = row[:begin], row[begin:]
            assert not {tuple(word.lower() for word, _ in sentence) for sentence in sentences} & read


def to_words(sentence: str) -> tuple[str, ...]:
    """The words of a sentence in small letters, without the marks that are asked for."""
    return tuple(word.rstrip(",.").lower() for word in sentence.split())


def test_labels_are_made_once_and_the_same(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the same packages give other bytes, a recipe's labels are not made, or are made again."""
    monkeypatch.setattr(punctuation, "CACHE", tmp_path / "cache")
    recipe = load_shipped_recipe("demo", tmp_path, {})
    [entry] = recipe.tasks
    path = Path(entry.settings.evaluate)
    assert path == locate_labels(DEV_FILE) and not path.exists()
    entry.load_suite()
    assert path.read_bytes() == (made / DEV_FILE).read_bytes()
    path.write_text("kept")
    make_missing_labels(path)
    assert path.read_text() == "kept"
    make_missing_labels(tmp_path / DEV_FILE)
    assert not (tmp_path / DEV_FILE).exists()


def test_what_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if an unknown name passes, or a machine without the packages gets an empty file."""
    with pytest.raises(InputError, match=r"made:other\.conll is not known"):
        locate_labels("other.conll")
    monkeypatch.setattr(punctuation, "DEV_PACKAGES", ("is-not-installed",))
    with pytest.raises(InputError, match="has 0 pairs of plain sentences, and 20 are needed"):
        make_labels(tmp_path)
