"""XML of your own by a map of fields; PubMed, JATS and patents by name.

`source.py` is the page to read first. `cut.py` cuts records out of the bytes before any parser sees them, `fields.py`
follows the paths of the map, `presets.toml` has the maps that are known by name.
"""
