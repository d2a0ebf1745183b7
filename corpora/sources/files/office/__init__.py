"""Files of an office: Word, PowerPoint, Excel, PDF.

`package.py` opens what Microsoft's formats share, a zip of parts in XML. `word.py`, `slides.py` and `sheets.py` read
the parts of each, `pdf.py` reads PDF. `documents.py` and `sheet_rows.py` have them as formats of the kind "files".
"""
