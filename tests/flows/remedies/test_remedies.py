"""What a message tells a person to do is done, and then the run ends well.

The law: a message that ends a run names a way out, and every way that it names is one. Each remedy is found by its own
words in the message that the fault really gives, and what is done is what these words say.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from remedies.faulty_worlds import CASES, FAULTS, FILES, RECIPE, Bench
from small_recipe import prose
from tiers import mostly_long

from corpora.errors import InputError
from flows.environment import prepare


@pytest.fixture(scope="module")
def finished_bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recipe whose first generation is built; each case has a copy."""
    bench = Bench(folder=tmp_path_factory.mktemp("remedies") / "bench", home=prepare(os.environ))
    for number in range(FILES):
        bench.raw(f"base-{number}.txt").write_text(prose(number))
    bench.recipe_path.write_text(RECIPE)
    assert bench.run().record.state == "completed"
    return bench.folder


@pytest.fixture
def bench(finished_bench: Path, tmp_path: Path) -> Bench:
    shutil.copytree(finished_bench, tmp_path / "bench", copy_function=shutil.copy2)
    return Bench(folder=tmp_path / "bench", home=prepare(os.environ))


@pytest.mark.slow
@pytest.mark.parametrize("case", mostly_long(CASES, 3), ids=" -> ".join)
def test_what_a_message_says_helps(case: tuple[str, str], bench: Bench) -> None:
    """Fails if a remedy that a message names leads nowhere, or the message no longer names it."""
    name, words = case
    fault = FAULTS[name]
    fault.harm(bench)
    with pytest.raises(InputError, match=fault.said) as ended:
        fault.ends(bench) if fault.ends is not None else bench.run(fault.overrides, fault.workers)
    found = re.search(words, str(ended.value), re.DOTALL)
    assert found is not None, str(ended.value)
    overrides = {**fault.overrides, **(fault.remedies[words](bench, found) or {})}
    if "cloze inspect" in words:  # which shows what is wrong, and mends nothing
        return
    assert bench.run(overrides).record.state == "completed"
