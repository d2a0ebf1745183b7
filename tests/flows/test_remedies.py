"""What a message tells a person to do is done, and then the run ends well.

The law: a message that ends a run names a way out, and every way that it names is one. Each remedy is found by its own
words in the message that the fault really gives, and what is done is what these words say.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from carried_out import BY_HAND, ELSEWHERE, MET, ROOMS, RUNBOOK, TO_DO
from checkout import ROOT
from faulty_worlds import CASES, FAULTS, FILES, QUICK, RECIPE, Bench
from message_templates import messages, rendered
from small_recipe import prose
from test_runbook import entries

from corpora.errors import InputError
from flows.environment import prepare_environment


@pytest.fixture(scope="module")
def finished_bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recipe whose first generation is built; each case has a copy."""
    bench = Bench(folder=tmp_path_factory.mktemp("remedies") / "bench", home=prepare_environment(os.environ))
    for number in range(FILES):
        bench.raw(f"base-{number}.txt").write_text(prose(number))
    bench.recipe_path.write_text(RECIPE)
    assert bench.run().record.state == "completed"
    return bench.folder


@pytest.fixture
def bench(finished_bench: Path, tmp_path: Path) -> Bench:
    shutil.copytree(finished_bench, tmp_path / "bench", copy_function=shutil.copy2)
    return Bench(folder=tmp_path / "bench", home=prepare_environment(os.environ))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.long) for case in CASES], ids=" -> ".join
)
def test_what_a_message_says_helps(case: tuple[str, str], bench: Bench) -> None:
    """Fails if a remedy that a message names leads nowhere, or the message no longer names it."""
    name, words = case
    fault = FAULTS[name]
    fault.harm(bench)
    with pytest.raises(InputError, match=fault.said) as ended:
        fault.ends(bench) if fault.ends is not None else bench.run(fault.overrides)
    found = re.search(words, str(ended.value), re.DOTALL)
    assert found is not None, str(ended.value)
    overrides = {**fault.overrides, **(fault.remedies[words](bench, found) or {})}
    if "cloze inspect" in words:  # which shows what is wrong, and mends nothing
        return
    assert bench.run(overrides).record.state == "completed"
    if fault.ends is not None:
        fault.ends(bench)


def remedies_named() -> Iterator[tuple[str, str]]:
    """Yield the messages of ROOMS that tell a person to do something, each with its place."""
    for where, template in messages():
        said = rendered(template, False)
        if said is not None and where.startswith(ROOMS) and TO_DO.search(said):
            yield where, said


def test_every_message_that_names_a_remedy_is_in_the_table() -> None:
    """Fails if a message that names a remedy is added, and nobody tries what it says."""
    found = [*remedies_named()]
    known = {*MET, *ELSEWHERE}
    assert len(found) > 20
    assert [(where, said) for where, said in found if not any(part in said for part in known)] == []
    assert [part for part in known if not any(part in said for _, said in found)] == []
    assert {*MET.values()} <= {*FAULTS} and all(is_test(test) for test in ELSEWHERE.values())


def test_every_entry_of_the_runbook_says_what_somebody_has_done() -> None:
    """Fails if an entry of the runbook is added, and what it tells to do is done by no test."""
    assert {*RUNBOOK} == {*entries()}
    for title, done in RUNBOOK.items():
        assert done, title
        assert all(one in (*FAULTS, BY_HAND) or is_test(one) for one in done), title


def is_test(name: str) -> bool:
    path, _, test = name.partition("::")
    return f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
