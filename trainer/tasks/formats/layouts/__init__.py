"""Layouts in which labelled data is published, a reader each.

`conll.py` reads words with tags in columns, `squad.py` questions with spans, `choices.py` COPA, RACE and SWAG,
`superglue.py` what of SuperGLUE is no table, `pubtator.py` mentions in abstracts, `trec.py` documents, queries and
judgements.
"""
