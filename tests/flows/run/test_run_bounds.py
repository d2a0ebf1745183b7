"""Bounds: what crosses one, in words, and what a recipe may not say."""

import pytest
from small_recipe import RECIPE, Run

from corpora.errors import InputError
from flows.recipes.recipe import parse_recipe
from flows.recipes.run_settings import read_bounds
from flows.run.record.figures import COUNT, MEAN, SHARE, Figure, Figures, compute_figures, list_crossings

BEFORE = {
    "documents": (1_000, "documents", COUNT),
    "documents: wiki": (600, "documents", COUNT),
    "dropped share": (0.10, "records", SHARE),
    "dropped share: rules: gopher.min_words": (0.02, "records", SHARE),
    "language share: en": (0.9, "documents", SHARE),
    "held-out loss": (3.0, "nats a token", MEAN),
}


def figures(**changed: float | None) -> Figures:
    """The figures above, with other values for some; None for those that are not there."""
    values = {name: (changed.get(name, value), unit, kind) for name, (value, unit, kind) in BEFORE.items()}
    return {n: Figure(value=v, unit=u, kind=k) for n, (v, u, k) in values.items() if v is not None}


def crossed(bounds: dict[str, dict[str, float]], **changed: float | None) -> list[str]:
    return list_crossings(read_bounds(bounds), figures(**changed), figures())


def test_each_bound_holds_and_is_crossed() -> None:
    """Fails if a bound is read in the wrong direction, as the wrong share, or said without both numbers."""
    assert crossed({"documents": {"min": 1000, "max": 1000, "fall": 0, "rise": 0, "fall_by": 0, "rise_by": 0}}) == []
    said = "documents is 850 documents and was 1,000 documents: the bound is"
    assert crossed({"documents": {"fall": 0.1}}, documents=850) == [f"{said} fall = 0.1"]
    assert crossed({"documents": {"fall": 0.15}}, documents=850) == []
    assert crossed({"documents": {"fall_by": 100}}, documents=850) == [f"{said} fall_by = 100"]
    assert crossed({"documents": {"min": 900, "rise": 0.1}}, documents=850) == [f"{said} min = 900"]
    assert len(crossed({"documents": {"rise": 0.1, "max": 1_050, "rise_by": 10}}, documents=1_200)) == 3
    points = {"dropped share: rules: gopher.min_words": 0.08}
    [shares] = crossed({"dropped share: rules: *": {"rise_by": 0.05}}, **points)
    assert shares.startswith("dropped share: rules: gopher.min_words is 8 % of the records and was 2 % of the records:")
    assert crossed({"held-out loss": {"rise": 0.02}}, **{"held-out loss": 3.1}) == [
        "held-out loss is 3.1 nats a token and was 3 nats a token: the bound is rise = 0.02"
    ]


def test_what_is_gone_is_not_overlooked() -> None:
    """Fails if a source or a reason that is not there any more, or a loss that is no number, crosses nothing."""
    assert crossed({"documents: wiki": {"fall": 0.5}}, **{"documents: wiki": None}) == [
        "documents: wiki is 0 documents and was 600 documents: the bound is fall = 0.5"
    ]
    assert crossed({"held-out loss": {"max": 4}}, **{"held-out loss": None}) == [
        "held-out loss is not there and was 3 nats a token: the bound is a number"
    ]
    assert crossed({"held-out loss": {"max": 4}}, **{"held-out loss": float("nan")}) == [
        "held-out loss is not finite and was 3 nats a token: the bound is a number"
    ]


def test_a_name_that_is_no_figure_is_said() -> None:
    """Fails if a mistake in a bound's name lets every run pass, or one of a family that has none is a mistake."""
    assert crossed({"documnets": {"min": 1}}) == ["documnets is no figure of this run: the bound is of another name"]
    assert crossed({"droped share: *": {"max": 1}}) != []
    assert crossed({"language share: de": {"max": 0.1}}) == []
    assert crossed({"language share: de": {"min": 0.1}}) != []
    assert crossed({"documents: [wiki]": {"max": 1}}) == []


def test_without_a_run_before_only_levels_are_judged() -> None:
    """Fails if a first run cannot pass, or passes what needs no comparison."""
    bounds = read_bounds({"documents": {"fall": 0.0, "rise": 0.0, "min": 2_000}})
    assert list_crossings(bounds, figures(), None) == ["documents is 1,000 documents: the bound is min = 2000"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("documents = 5", 'bounds."documents" = 5 must be a table of bounds'),
        ("documents = {}", "must be a table of bounds"),
        ("documents = { minimum = 5 }", "did you mean 'min'"),
        ("documents = { fall = -0.1 }", "must be a number from 0 up"),
        ("documents = { min = 5, max = 4 }", "min = 5 is more than max = 4"),
        ("documents = { min = nan }", "give a finite one"),
    ],
)
def test_what_means_nothing_is_refused(line: str, said: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fails if a bound that can hold nothing is taken, or the message does not say where it is."""
    path = tmp_path_factory.getbasetemp() / "small.toml"
    with pytest.raises(InputError, match=r"small\.toml: .*bounds") as refused:
        parse_recipe(f"{RECIPE}\n[bounds]\n{line}\n", path, {})
    assert said in str(refused.value)


def test_bounds_and_notices_decide_no_bytes(finished: Run) -> None:
    """Fails if a recipe that says what it is held to, or who is told, builds something again."""
    more = '[bounds]\ndocuments = { min = 1 }\n[notify]\ncommand = ["true"]\n'
    recipe = parse_recipe(finished.recipe.text + more, finished.recipe.path, {})
    assert recipe.bounds and recipe.notify.is_enabled
    for field in ("sources", "duplicates", "held_out", "vocabularies", "shards", "model"):
        assert getattr(recipe, field) == getattr(finished.recipe, field)
    counted = compute_figures(finished.place, finished.manifests)
    assert len(list_crossings(read_bounds({"documents": {"max": 1}}), counted, None)) == 1
