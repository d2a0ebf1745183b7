"""The campaigns of faults in a short form: flips of each kind of file are named, and no result is made of them."""

import pytest

from benchmarks.faults import flips

pytestmark = pytest.mark.slow


def test_flipped_bits_are_named_and_never_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a check of the store misses a flip, or a run that reads it does not name it or ends otherwise."""
    code = flips(regions=1, runs=5, seed=7, checks=36)
    said = capsys.readouterr().out
    assert code == 0, said
    assert "verify: 36 flips" in said and "run: 5 flips" in said
