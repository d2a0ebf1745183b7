"""Files of an office: Word, PowerPoint, Excel, PDF.

`package.py` opens what Microsoft's formats share, a zip of parts in XML. `docx_pptx.py` and `xlsx.py` read
the parts of each, `pdf.py` reads PDF. `docx_pptx.py` and `sheet_rows.py` have them as formats of the kind "files".
"""
