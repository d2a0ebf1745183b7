"""Every kind of input in one run: what the report and `cloze trace` say of its examples."""

import io
import re

import pytest
from rich.console import Console
from small_recipe import NOTES_AND_LETTERS, Run, letters_world, notes_and_letters

from flows.command.inspect import print_artifact
from flows.command.trace import print_example_trace
from flows.report.masked_example import LABEL_MEANINGS
from flows.report.page import build_page
from flows.run.addresses import Artifact
from flows.run.record.ledger_balance import LABEL_FIGURES
from shards.inputs import INPUTS
from shards.reading.files.shard_set import ShardSet

RECIPE = f"""{NOTES_AND_LETTERS}
[vocabulary]
size = 300
"""
SETS = "".join(f'[[shards]]\nname = "{kind}"\ninput = "{kind}"\nlength = 48\ncopies = 2\n' for kind in INPUTS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return letters_world(tmp_path_factory.mktemp("inputs"), notes_and_letters(), RECIPE + SETS).run()


@pytest.fixture(scope="module")
def sections(store: Run) -> dict[str, str]:
    """Return the page's text on the examples of each shard set, and after `out: ` on the set itself."""
    html = build_page(store.place, store.record, "text", store.lock)
    told = [" ".join(re.sub(r"<[^>]*>", " ", part).split()) for part in re.split(r"<h3>Shards ", html)[1:]]
    assert len(told) == 2 * len(INPUTS)
    named = {f"out: {text.split()[0]}": text for text in told[: len(INPUTS)]}
    return named | {text.split()[0]: text for text in told[len(INPUTS) :]}


@pytest.mark.parametrize("kind", INPUTS)
def test_the_report_says_what_examples_are(store: Run, sections: dict[str, str], kind: str) -> None:
    """Fails if a label is said in the words of another input, or masks are told of where there are none."""
    own, shards = INPUTS[kind], store.outcome.shard_sets[kind]
    words = LABEL_MEANINGS.get(str(own.labels), ())
    said = set(re.findall(r"Example [\d,]+ : ([^;]+);", sections[kind]))
    assert said and said <= ({*words} if words else {"one segment", "two segments"})
    assert ("What the model must guess is marked" in sections[kind]) == own.masked
    assert ("Nothing is masked." in sections[kind]) == (not own.masked)
    out = sections[f"out: {kind}"]
    assert ("dynamic masks of 15" in out, "; no masks." in out) == (own.masked, not own.masked)
    assert [word for word in LABEL_MEANINGS["next-sentence"] + LABEL_MEANINGS["sentence-order"] if word in out] == [
        *words
    ]
    if own.labels:
        counts = [shards.ledger.figures[figure] for figure in LABEL_FIGURES[own.labels]]
        assert sum(counts) == shards.count_rows("examples") > 0


@pytest.mark.parametrize("kind", INPUTS)
def test_a_trace_tells_each_kind_of_example(store: Run, kind: str) -> None:
    """Fails if `cloze trace` or `cloze inspect` has no words for an example, shows a second segment where there is
    none, or does not name every document that it holds."""
    artifact = Artifact(place=store.place, manifest=store.outcome.shard_sets[kind])
    shard_set = ShardSet(store.place, artifact.manifest)
    chosen = {
        (example.label, example.boundary < len(example.ids)): n
        for n, example in enumerate(shard_set.iter_live_examples())
    }
    for (label, has_second), number in chosen.items():
        console = Console(file=io.StringIO(), width=100, soft_wrap=True)
        print_example_trace(console, artifact, number, "train")
        assert isinstance(console.file, io.StringIO)
        head, *lines = console.file.getvalue().splitlines()
        words = LABEL_MEANINGS.get(str(INPUTS[kind].labels), ("one segment", "two segments"))
        assert head.startswith(words[int(has_second) if label is None else label] + "; ")
        assert head.endswith(" 0 to guess") == (not INPUTS[kind].masked)
        assert [line[:3] for line in lines if line[:3] in ("A: ", "B: ")] == ["A: ", "B: "] * has_second
        assert all(any(document.hex() in line for line in lines) for document in shard_set[number].documents)
    assert len(chosen) == (2 if kind == "electra" or INPUTS[kind].labels else 1)
    console = Console(file=io.StringIO(), width=100)
    print_artifact(console, artifact, detailed=True)
    assert isinstance(console.file, io.StringIO) and "to guess" in console.file.getvalue()
