"""Models of the Python API: those of the commands, by their own trainer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_recipe import prose

import cloze

pytest.importorskip("torch")
TINY: dict[str, Any] = {"layers": 1, "hidden_size": 32, "heads": 2, "feed_forward_size": 64, "size": "tiny"}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> cloze.Shards:
    """Shards in a store."""
    docs = cloze.read([prose(n) for n in range(40)], store=tmp_path_factory.mktemp("store"), progress=False)
    docs = cloze.deduplicate(docs, held_out=0.2)
    return cloze.build_shards(docs, cloze.train_vocabulary(docs, size=300), 64, masking="dynamic")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model": "tiny"}, "bert-"),
        ({"model": "bert-huge"}, "model.size"),
        ({"model": {"familiy": "bert"}}, "family"),
        ({"model": 5}, "of the type int"),
        ({"model": {**TINY, "objective": "masked"}}, "objective"),
        ({"model": {**TINY, "family": "distilbert", "objective": {"kind": "distillation"}}}, "no teacher"),
        ({"model": {"start": 5}}, "of the type int"),
        ({"learning_rat": 1.0}, "learning_rate"),
        ({"steps": -1}, "steps"),
        ({"model": {**TINY, "max_length": 32}}, "positions"),
    ],
)
def test_mistakes_are_named_before_training_begins(shards: cloze.Shards, asked: dict[str, Any], message: str) -> None:
    """Fails if a setting that cannot be is not refused with its name."""
    with pytest.raises(cloze.InputError, match=message):
        cloze.train(shards, **{"steps": 1, **asked})


@pytest.mark.slow
def test_training_begins_with_a_model_or_learns_from_one(shards: cloze.Shards) -> None:
    """Fails if a start is left out in silence, as if it were not in the table; if a student has no teacher; or if the
    settings of narrow models are not taken, or not over those that the caller gives."""
    first = cloze.train(shards, TINY, steps=4, batch=8, name="first")
    rates = [event["learning_rate"] for event in first.history if event["event"] == "step"]
    assert max(rates) == pytest.approx(2e-3)  # of its width
    own = cloze.train(shards, TINY, steps=1, batch=8, name="own", learning_rate=1e-5)
    assert [event["learning_rate"] for event in own.history if event["event"] == "step"] == [pytest.approx(1e-5)]
    more = cloze.train(shards, {"start": first}, steps=1, batch=8, name="more", learning_rate=1e-9)
    scores = [event["masked_loss"] for event in more.history if event["event"] == "evaluation"]
    assert scores[0] == pytest.approx(first.scores["masked_loss"], abs=1e-3)
    table = {**TINY, "family": "distilbert", "objective": {"kind": "distillation", "teacher": str(first.address)}}
    student = cloze.train(shards, table, steps=1, batch=8, name="student")
    assert {"soft_loss", "cosine_loss"} <= {*student.history[0]}
    with pytest.raises(cloze.InputError, match="no folder"):
        cloze.train(shards, {"start": "nowhere"}, steps=1)


@pytest.mark.slow
@pytest.mark.long
def test_a_model_is_trained_tuned_and_asked(shards: cloze.Shards, tmp_path: Path) -> None:
    """Fails if a model does not learn, is trained twice, or its predictions and vectors are not of the rows."""
    model = cloze.train(shards, TINY, steps=6, batch=8, learning_rate=1e-3)
    assert [event["step"] for event in model.history if event["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert 0 < model.scores["masked_loss"] < 10
    weights = (model.folder / "model.safetensors").stat().st_mtime_ns
    assert cloze.train(shards, TINY, steps=6, batch=8, learning_rate=1e-3).address == model.address
    assert (model.folder / "model.safetensors").stat().st_mtime_ns == weights
    rows = [{"sentence": prose(n), "label": "odd" if n % 2 else "even"} for n in range(24)]
    columns = {"text": "sentence"}
    tuned = cloze.finetune(
        model, "classes", rows[:16], rows[16:], output=tmp_path / "tuned", columns=columns, epochs=1, batch=8
    )
    assert 0 <= tuned.scores["accuracy"] <= 1
    answers = cloze.predict(tuned, [row["sentence"] for row in rows[:3]])
    assert [answer["line"] for answer in answers] == [1, 2, 3]
    assert {answer["label"] for answer in answers} <= {"odd", "even"}
    vectors = cloze.embed(model, [prose(1), prose(2), prose(1)], pooling="mean")
    assert (vectors.shape, vectors.dtype) == ((3, 32), np.float32)
    assert np.array_equal(vectors[0], vectors[2]) and not np.array_equal(vectors[0], vectors[1])
    with pytest.raises(cloze.InputError, match="fix the rows"):
        cloze.finetune(model, "classes", [{"text": "a"}], rows, epochs=1)
    some: dict[str, Any] = {"columns": columns, "epochs": 1, "progress": False}
    part = [*rows[:16], {"sentence": "a"}]
    with pytest.raises(cloze.InputError, match=r'accept=\["unusable-rows"\]'):
        cloze.finetune(model, "classes", part, rows[16:], **some)
    with pytest.raises(cloze.InputError, match=r"max_unusable = 0\.01: .* or allow more"):
        cloze.finetune(model, "classes", part, rows[16:], accept=["unusable-rows"], **some)
    allowed: dict[str, Any] = {"accept": ["unusable-rows"], "reading": {"max_unusable": 0.1}}
    compared = cloze.finetune(model, "classes", part, rows[16:], control=True, **allowed, **some)
    assert compared.comparison is not None and tuned.comparison is None
    assert (
        compared.comparison["answer"] in ("yes", "no", "not shown") and compared.comparison["comparison"]["is_control"]
    )
    with pytest.raises(cloze.InputError, match=r'accept=\["evaluation-in-training"\]'):
        cloze.finetune(model, "classes", rows, rows, **some)
    assert cloze.finetune(model, "classes", rows, rows, accept=["evaluation-in-training"], **some).scores
    with pytest.raises(cloze.InputError):
        cloze.predict(tmp_path / "nothing", ["a"])
