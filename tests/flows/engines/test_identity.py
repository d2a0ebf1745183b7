"""A run's machines must agree on their identity: each of its names is distinguished, and nothing else is in it."""

from pathlib import Path

import pytest

from flows.engines import worker_checks as identity
from flows.engines.worker_checks import LIBRARIES, compute_program_digest, describe_differences


@pytest.mark.parametrize("name", ["python", "processor", "program", *LIBRARIES])
def test_a_difference_names_what_and_both_versions(name: str) -> None:
    """Fails if a worker with another Python, pyarrow or program would take part."""
    ours = identity.read_identity()
    theirs = {**ours, name: "9.9"}
    assert describe_differences(ours, theirs) == f"{name} 9.9 instead of {ours[name]}"
    assert describe_differences(ours, ours) == ""
    without = {key: value for key, value in ours.items() if key != name}
    assert describe_differences(ours, without) in (
        f"{name} none instead of {ours[name]}",
        "",
    )  # where it is absent on both


def test_a_plugin_that_one_side_has_is_a_difference() -> None:
    ours = identity.read_identity()
    assert describe_differences(ours, {**ours, "my-source": "1.0"}) == "my-source 1.0 instead of none"


def test_the_program_is_what_its_sources_say(tmp_path: Path) -> None:
    """Not its version alone, which a checkout keeps from one release to the next; other files are not part of it."""
    source = tmp_path / "corpora" / "text" / "one.py"
    source.parent.mkdir(parents=True)
    source.write_text("A = 1\n")
    before = compute_program_digest(tmp_path)
    (tmp_path / "corpora" / "notes.txt").write_text("nothing")
    (tmp_path / "docs.py").write_text("nothing")
    assert compute_program_digest(tmp_path) == before
    source.write_text("A = 2\n")
    assert compute_program_digest(tmp_path) != before
    source.write_text("A = 1\n")
    source.rename(source.with_name("two.py"))
    assert compute_program_digest(tmp_path) != before
