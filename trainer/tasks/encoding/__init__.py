"""Long texts as ids: `windows.py` cuts a text into windows, `sentences.py` reads sentences within their document."""
