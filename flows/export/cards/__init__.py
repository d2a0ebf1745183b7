"""Cards: `data_card.py` describes exported data, `model_card.py` a model; their texts are Jinja templates.
Names are written so that they act on nothing.

`licenses.py` knows how licences are spelled elsewhere.
"""
