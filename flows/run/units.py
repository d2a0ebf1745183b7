"""How many of what: counts for people, with the unit that is counted.

Every line, table and figure that shows a count takes its words from here, so that a table is never taken for what it
is called after: `tokens` has a row a document, `revisions` one for each dropped record.
"""


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its unit. many: the plural, where it is not the singular with an s

    >>> counted(1, "raw file"), counted(2_000, "raw file"), counted(2, "copy", "copies")
    ('1 raw file', '2,000 raw files', '2 copies')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
