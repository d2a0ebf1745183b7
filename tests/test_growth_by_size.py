"""Growth by size tells quadratic work from linear work."""

from growth_by_size import PIECES, QUADRATIC, growth

from flows.recipes.tables import find_repeated_name


def count(number: int) -> int:
    return sum(1 for _ in range(number))


def test_quadratic_work_is_told_from_linear_work() -> None:
    """Fails if a test that looks for quadratic work could not find it."""
    assert growth(lambda size: count(200 * size), 640) < QUADRATIC < growth(lambda size: count(size**2), 640)
    assert PIECES > 2 * QUADRATIC


def test_names_of_sources_are_compared_once() -> None:
    """Fails if each of a recipe's names is compared with each other."""
    assert growth(lambda size: find_repeated_name([f"source {number}" for number in range(size)]), 16_000) < QUADRATIC
