"""MediaWiki wikitext to clean prose, keeping the numbers, dates and units that are written by templates.

`prose.py` is the whole way in five steps, each a file:

    hidden       1. comments, references, code, formulas: what hides or holds no prose goes
    links        2. links, and what a reader sees of them
    templates    3. templates that carry text, by name: dates, measures, words; arguments is what they share, and
                    unknown says what a template shows that no table names;
                    wikis reads the tables, a file in `wikis/` for each wiki
    markup       4. tables, tags, entities, magic words
    lines        5. quotes, the holes that dropped markup leaves, headings and paragraphs
"""
