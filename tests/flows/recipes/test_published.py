"""The recipes of published models: their numbers are those of the papers, and all their stages can be planned."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.recipes.recipe import read_recipe
from flows.recipes.recipe_templates import read_published_recipes, write_new_recipe
from tokenizers_train.vocabularies.settings import VocabularySettings
from trainer.settings.phases import Schedule


@dataclass(frozen=True, kw_only=True)
class Published:
    """A paper's settings, written down a second time."""

    vocabulary: tuple[str, int]
    lengths: tuple[int, ...]
    masked: float = 0.15
    optimizer: str = "adamw"
    rate: float
    warmup: int
    betas: tuple[float, float]
    decay: float = 0.01
    clip: float
    phases: tuple[tuple[int, int | str], ...]  # batch, steps or tokens


PAPERS = {
    "bert-base": Published(
        vocabulary=("wordpiece", 30_522), lengths=(128, 512), rate=1e-4, warmup=10_000, betas=(0.9, 0.999), clip=1.0,
        phases=((256, 900_000), (256, 100_000)),
    ),
    "roberta-base": Published(
        vocabulary=("byte-bpe", 50_265), lengths=(512,), rate=6e-4, warmup=24_000, betas=(0.9, 0.98), clip=0.0,
        phases=((8192, 500_000),),
    ),
    "electra-small": Published(
        vocabulary=("wordpiece", 30_522), lengths=(128,), rate=5e-4, warmup=10_000, betas=(0.9, 0.999), clip=1.0,
        phases=((128, 1_000_000),),
    ),
    "albert-base": Published(
        vocabulary=("unigram", 30_000), lengths=(512,), optimizer="lamb", rate=1.76e-3, warmup=3125,
        betas=(0.9, 0.999), clip=1.0, phases=((4096, 125_000),),
    ),
    "modernbert-base": Published(
        vocabulary=("byte-bpe", 50_368), lengths=(1024, 8192), masked=0.3, optimizer="stable-adamw", rate=8e-4,
        warmup=2_760, betas=(0.9, 0.98), decay=1e-5 / 8e-4, clip=0.0,
        phases=((4608, "1719B"), (576, "250B"), (576, "50B")),
    ),
}  # fmt: skip


def test_the_batches_of_modernbert_grow_and_its_rate_falls_at_the_end(tmp_path: Path) -> None:
    """Fails if a phase has another ramp or rate, or the decay is not that of the last phase."""
    recipe = read_recipe(write_new_recipe("own", "modernbert-base", tmp_path))
    assert recipe.model is not None
    first, stable, decay = recipe.model.training.phase
    assert first.batch_ramp is not None and (first.batch_ramp.first, first.batch_ramp.tokens) == (768, "50B")
    assert (stable.learning_rate, decay.learning_rate) == (3e-4, 3e-4)
    assert decay.schedule == Schedule(kind="wsd", decay_share=1.0) and stable.schedule is None


@pytest.mark.parametrize("name", PAPERS)
def test_the_numbers_are_those_of_the_paper(name: str, tmp_path: Path) -> None:
    """Fails if a digit of a template is not the paper's, or the model has other sizes."""
    recipe, paper = read_recipe(write_new_recipe("own", name, tmp_path)), PAPERS[name]
    vocabulary = recipe.vocabularies[0].settings
    assert isinstance(vocabulary, VocabularySettings) and recipe.model is not None
    assert (vocabulary.algorithm, vocabulary.size) == paper.vocabulary
    assert tuple(entry.settings.length for entry in recipe.shards) == paper.lengths
    assert {entry.settings.masking.rate for entry in recipe.shards} == {paper.masked}
    training = recipe.model.training
    assert (training.optimizer, training.learning_rate, training.warmup_steps) == (
        paper.optimizer, paper.rate, paper.warmup,
    )  # fmt: skip
    assert (training.beta1, training.beta2) == paper.betas and training.epsilon == 1e-6
    assert (training.weight_decay, training.clip_norm) == (paper.decay, paper.clip)
    assert tuple((phase.batch, phase.steps or phase.tokens) for phase in training.phase) == paper.phases
    assert recipe.model.settings.family == name.split("-")[0] and training.precision == "auto"


def test_each_has_numbers_to_compare() -> None:
    """Fails if a recipe is added whose numbers nobody has written down a second time."""
    assert {*PAPERS, "distilbert"} == read_published_recipes().keys()


def test_a_student_has_the_numbers_of_its_authors_code(tmp_path: Path) -> None:
    """Fails if a number of DistilBERT's is not the code's, or its recipe cannot be read without its teacher."""
    entry = read_recipe(write_new_recipe("own", "distilbert", tmp_path)).model
    assert entry is not None and entry.settings.objective is not None
    said, training = dict(entry.settings.objective), entry.training
    assert [said[name] for name in ("soft", "masked", "cosine", "temperature")] == [5.0, 2.0, 1.0, 2.0]
    assert (training.learning_rate, training.warmup_share, training.clip_norm) == (5e-4, 0.05, 5.0)
    assert (training.beta2, training.weight_decay) == (0.98, 0.0)
    assert (training.phase[0].batch, training.phase[0].epochs) == (250, 3.0)
