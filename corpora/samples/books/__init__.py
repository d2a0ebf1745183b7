"""A few small books, written for this project, in the forms in which books lie about: plain text and EPUB.

    the-lamplighters-ledger.txt    a tale of old times; Latin-1, CR LF, lines of 72 columns, header and licence
                                   in the manner of Project Gutenberg
    small-repairs.txt              six stories of today; UTF-8, a paragraph a line, front and back matter in the
                                   manner of Smashwords, six paragraphs in a broken encoding
    the-map-of-hollin-marsh.epub   an adventure in four chapters, packed from the files of the next folder
    epub/                          its sources: container, package, contents, chapters, title page, colophon
    tide-tables.txt                a table and an index: no prose, so no document

Every sentence was written for the sample and copied from nowhere, the matter before and after the books as well:
only the forms of its headings and markers are those of real files.
"""
