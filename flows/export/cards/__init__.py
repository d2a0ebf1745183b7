"""Cards: `data_card.py` describes exported data, `model_card.py` a model; their texts are Jinja templates.

Names and texts from outside are escaped, so that they are shown and do nothing else. `licenses.py` knows how licenses
are spelled elsewhere.
"""
