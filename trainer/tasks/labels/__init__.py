"""Labels as files have them: `class_labels.py` the names of classes, `tag_schemes.py` tags of spans and their schemes,
`extracts.py` which sentences of a text make a summary.
"""
