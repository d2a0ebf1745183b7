"""Pages of the web in crawl archives: records cut by their lengths, and the main text of each page.

    .warc ─► warc ─► response ─► charset ─► tree, marks ─► blocks ─► page ─► a record
                                               └─► facts (title, day, language, address)

`source.py` is the page to read first; `page.py` takes one page of HTML to its main text.
"""
