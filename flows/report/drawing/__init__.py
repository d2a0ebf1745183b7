"""Drawings for a page or a terminal: values in, SVG or marked text out.

`flow.py` draws a run as bands, `plot.py` axes and what is between them, `curves.py` generations and a
training; `differences.py` sets two texts side by side, and `examples.py` shows an example under its masks.
"""
