"""Names for messages, and names of metrics."""

from collections.abc import Sequence

from corpora.store.settings import check_choice

MOST_LISTED = 8


def listed(names: Sequence[str]) -> str:
    """Names, not too many of them.

    >>> listed(["a", "b"]), listed([str(n) for n in range(10)])
    ("'a', 'b'", "'0', '1', '2', '3', '4', '5', '6', '7' and 2 more")
    """
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(map(repr, names[:MOST_LISTED])) + more


def with_first(asked: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Metrics with the one that is asked for in front. asked: "": as they are. Raises InputError for another.

    >>> with_first("f1", ("accuracy", "f1"))
    ('f1', 'accuracy')
    """
    check_choice("metric", asked, ("", *known))
    return (asked, *(name for name in known if name != asked)) if asked else known
