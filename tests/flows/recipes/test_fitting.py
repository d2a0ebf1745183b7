"""Signs of texts, for which there is a template: each is seen, and prose of no kind is left alone."""

import pytest
from small_recipe import prose

from flows.recipes.guessed_fields import choose_template

CLAUSES = (
    "WHEREAS the lessor owns the house; the parties hereto agree. Notwithstanding anything herein, either party may "
    "end this lease pursuant to section 4. The governing law is that of the land. "
)


@pytest.mark.parametrize(
    ("texts", "fits"),
    [
        ([f"Printer {n} is broken again, please help." for n in range(9)], "tickets"),
        ([CLAUSES + prose(n, 30) for n in range(9)], "legal"),
        ([CLAUSES for n in range(9)], "legal"),
        ([prose(1, 60) * 40 for n in range(3)], "books"),
        ([prose(n, 20) for n in range(9)], None),
        (["Printer is broken.", "Thanks."], None),
        (["", " ", "\n"], None),
        ([prose(n, 20) for n in range(9)] + ["Thanks."] * 4, None),
    ],
)
def test_a_template_is_offered_by_its_signs(texts: list[str], fits: str | None) -> None:
    """Fails if a kind is not seen, or prose, or too little of it, is taken for one."""
    found = choose_template(texts)
    assert (found[0] if found else None) == fits
