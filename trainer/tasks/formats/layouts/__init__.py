"""Layouts in which labelled data is published, a reader each.

`conll.py` reads words with tags in columns, `squad.py` questions with spans, `choices.py` COPA, RACE and SWAG,
`superglue.py` SuperGLUE's other forms, `pubtator.py` mentions in abstracts, `retrieval.py` documents, queries and
judgements.
"""
