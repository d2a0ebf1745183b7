"""A batch of 8,000 examples, as RoBERTa's: accumulated on two processes it is the step of one."""

from pathlib import Path

import pytest
from small_training import exported, of, put_store, said, small_job, train_here, train_on_ranks
from torch.testing import assert_close

from trainer.settings.phases import PhaseSettings

BATCH = 8_000


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it
def test_a_batch_of_8000_on_two_processes_is_that_of_one(tmp_path: Path) -> None:
    """Fails where a micro-batch or a process is divided by its own counts, left out or added twice.

    Epsilon is large: else Adam's first step turns the rounding of small gradients into whole steps.
    """
    store = put_store(tmp_path)
    jobs = [
        small_job(
            store, tmp_path / str(processes), (PhaseSettings(steps=1, batch=BATCH),), dropout=0.0, processes=processes,
            micro_batch=micro_batch, epsilon=0.01, evaluate_examples=1,
        )
        for processes, micro_batch in ((1, 2_000), (2, 500))
    ]  # fmt: skip
    train_here(jobs[0])
    train_on_ranks(jobs[1])
    [one], [two] = (list(of(said(job), "step")) for job in jobs)
    assert one["sequences"] == two["sequences"] == BATCH
    assert [two[name] for name in ("loss", "gradient_norm")] == pytest.approx([one["loss"], one["gradient_norm"]], 1e-6)
    expected = exported(jobs[0])
    for name, tensor in exported(jobs[1]).items():
        assert_close(tensor, expected[name], rtol=1e-6, atol=1e-6)
