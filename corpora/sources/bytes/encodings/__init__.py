"""The encodings of texts, by how their bytes look: `wide.py` finds UTF-16 and UTF-32, `legacy.py` older ones."""
