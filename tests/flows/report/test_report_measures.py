"""The report's figures of vocabularies: by independent counts, and under privacy."""

from collections import Counter
from dataclasses import replace

import pytest
from small_recipe import NOTES_AND_LETTERS, Run, keyed_note, letters_world, notes_and_letters, text_of

from corpora.build import Corpus
from flows.recipes.privacy import Privacy
from flows.report.page import build_page
from flows.report.run import RunView
from flows.report.vocabularies import build_drift_rows, build_vocabulary_views
from tokenizers_train.build import read_vocabulary

SCRIPT = "<script>alert('here')</script> the keeper \u202e carried Zanzibarquux and"
RECIPE = f"""
vocabulary = [{{ name = "pieces", size = 90 }}, {{ name = "bytes", algorithm = "byte-bpe", size = 330 }}]
shards = [{{ name = "only", vocabulary = "pieces", length = 64 }}]
{NOTES_AND_LETTERS}"""


def raw() -> tuple[list[dict[str, object]], list[str]]:
    """The usual sources, the first document with what a careless page would stumble over."""
    notes, letters = notes_and_letters()
    body = " ".join([SCRIPT] * 2 + [str(notes[0]["body"])])
    return [keyed_note(0, body), *notes[1:]], letters


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two vocabularies as it is recorded."""
    return letters_world(tmp_path_factory.mktemp("measured"), raw(), RECIPE).run()


@pytest.fixture(scope="module")
def html(plain: Run) -> str:
    return build_page(plain.place, plain.record, "text")


def test_sources_stand_beside_each_other_with_figures_counted_by_hand(plain: Run, html: str) -> None:
    vocabulary = read_vocabulary(plain.place, plain.outcome.vocabularies["pieces"])
    tokenizer = vocabulary.to_tokenizer()
    sums: dict[str, Counter[str]] = {"notes": Counter(), "letters": Counter()}
    for batch in Corpus(plain.place, plain.outcome.corpus).iter_batches():
        for row in batch.to_pylist():
            if not row["held_out"]:
                encoding = tokenizer.encode(row["text"], add_special_tokens=False)
                words = vocabulary.word_rule.split(row["text"])
                lengths = Counter(encoding.word_ids)
                sums[row["source"]] += Counter(
                    words=len(words),
                    tokens=len(encoding.ids),
                    whole=sum(length == 1 for length in lengths.values()),
                    bytes=sum(len(word.encode()) for word in words),
                )
                assert len(lengths) == len(words)
    rows = {
        name: f"{name} {n['words']:,} {n['tokens'] / n['words']:.3f} {100 * n['whole'] / n['words']:.1f}% 0.000% "
        f"{n['bytes'] / n['tokens']:.2f}"
        for name, n in sums.items()
    }
    text = text_of(html)
    assert all(row in text for row in rows.values())
    assert sums["notes"]["whole"] < sums["notes"]["words"]


def test_every_vocabulary_has_its_figures_by_size_and_its_split_words(html: str) -> None:
    text = text_of(html)
    for heading in ("had been given another size", "Words of the first generation that cost most tokens"):
        assert text.count(heading) == 2


@pytest.mark.parametrize("mode", ["hashed", "none"])
def test_nothing_of_a_text_is_told_where_it_may_not_be(plain: Run, mode: str) -> None:
    views = (RunView(plain.place, plain.record, Privacy(allowed)) for allowed in ("text", mode))
    shown, hidden = map(repr, map(build_vocabulary_views, views))
    assert "##er" in shown and "##er" not in hidden
    assert "Zanzibarquux" not in build_page(plain.place, plain.record, mode)


def test_drift_is_told_by_generation(plain: Run) -> None:
    """Fails if parts of one generation are not summed, or held-out tokens are among them."""
    tokens = next(manifest for manifest in plain.manifests if manifest.kind == "tokens")
    figures = [
        ("1", {"train words": 10, "train tokens": 12, "train unknown tokens": 0}),
        ("2", {"train words": 30, "train tokens": 40, "train unknown tokens": 2}),
        ("1", {"train words": 10, "train tokens": 18, "train unknown tokens": 3}),
    ]
    parts = tuple(
        replace(
            tokens.parts[0],
            name=f"part-{number}",
            labels={"generation": generation, "source": "notes"},
            ledger=replace(tokens.parts[0].ledger, figures=found),
        )
        for number, (generation, found) in enumerate(figures)
    )
    rows = build_drift_rows(tokens.with_parts(parts))
    assert [(row["generation"], row["words"], row["tokens"]) for row in rows] == [(1, 20, 30), (2, 30, 40)]
    assert [row["tokens_a_word"] for row in rows] == [1.5, pytest.approx(4 / 3)]
    assert [row["unknown"] for row in rows] == [0.1, 0.05]
    bare = replace(parts[0], ledger=replace(parts[0].ledger, figures={"train tokens": 5}))
    assert build_drift_rows(None) == build_drift_rows(tokens.with_parts((bare,))) == []


def test_without_measures_a_page_is_as_before(plain: Run) -> None:
    stages = tuple(stage for stage in plain.record.stages if stage.kind != "measures")
    views = build_vocabulary_views(RunView(plain.place, replace(plain.record, stages=stages), Privacy("text")))
    assert [view["measured"] for view in views] == [None, None]
