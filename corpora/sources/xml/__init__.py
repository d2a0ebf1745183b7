"""XML of your own by a map of fields; PubMed, JATS and patents by name.

`source.py` is the page to read first, and follows the paths of the map. `cut.py` cuts records out of the bytes before
any parser sees them, `presets.toml` has the maps that are known by name.
"""
