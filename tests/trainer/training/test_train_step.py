"""The benchmark of a step on a tiny model: it holds both sides to one loss, and measures each."""

from dataclasses import replace

import pytest

from benchmarks import gpu, measuring, train_step
from trainer.ranks import join_process_group

WORDS = ["the keeper of the light carried stones to the quiet boat " * 3]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sequences of up to 9 tokens, a hundredth of the vocabulary, no call repeated for the clock's sake."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("transformers")
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 1e-9)
    sizes, inputs = {"bert": "tiny", "electra": "tiny"}, replace(train_step.INPUTS, vocab_size=300)
    for name, value in {"SIZES": sizes, "INPUTS": inputs, "WIDTH": 9, "FULL": (9, 9), "RAGGED": (4, 9)}.items():
        monkeypatch.setattr(train_step, name, value)


@pytest.mark.long
def test_both_sides_agree_and_each_is_measured() -> None:
    reports = train_step.benchmark(WORDS, 2)
    assert [report.amounts for report in reports] == [{"tokens": 18}, {"tokens": 13}] * 2
    bert = ["MaskedModel", "BertForPreTraining", "BertForPreTraining, head on masked rows"]
    sides = [bert] * 2 + [["ReplacedModel", "GeneratorAndDiscriminator"]] * 2
    for report, names in zip(reports, sides, strict=True):
        assert [row.name for row in report.rows] == names
        assert all(len(row.seconds) == 2 and min(row.seconds) > 0 for row in report.rows)
        assert "losses equal" in report.notes[0]


def test_another_loss_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = train_step.mean_loss
    monkeypatch.setattr(train_step, "mean_loss", lambda *given: loss(*given) * 1.001)
    with pytest.raises(AssertionError, match="the losses differ"):
        train_step.benchmark(WORDS, 1)


@pytest.mark.long
def test_a_step_on_a_card_runs_at_a_tiny_size_on_a_processor() -> None:
    """Fails if a side is not measured, or bfloat16 or the other side comes to another loss."""
    with join_process_group("cpu") as ranks:
        lines = gpu.benchmark("tiny", gpu.tiny(gpu.WORKLOADS["bert-base-128"]), ranks, 1, 0.01, 64, alone=False)
    assert lines[2].split()[0] == "Cloze," and lines[3].split()[0] == "transformers,"
    assert any("bfloat16 next to float32" in line for line in lines)
