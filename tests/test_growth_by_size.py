"""Growth by size tells quadratic work from linear work."""

from growth_by_size import PIECES, QUADRATIC, growth


def count(number: int) -> int:
    return sum(1 for _ in range(number))


def test_quadratic_work_is_told_from_linear_work() -> None:
    """Fails if a test that looks for quadratic work could not find it."""
    assert growth(lambda size: count(200 * size), 640) < QUADRATIC < growth(lambda size: count(size**2), 640)
    assert PIECES > 2 * QUADRATIC
