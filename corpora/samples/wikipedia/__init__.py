"""A small Wikipedia-style dump, written for this project, in the form in which the real dumps are published.

    pages/NNN-slug.wiki                        one page a file, to be read and edited by hand
    samplewiki-...-multistream.xml.bz2         the dump: header, eight pages to a bzip2 stream, footer
    samplewiki-...-multistream-index.txt.bz2   offset:page id:title, one line for each page

Every sentence was written for the sample and copied from nowhere. Articles on real subjects keep to what is
generally known; towns, rivers, mills and people of the Tamsel valley are invented, and so are all the works
cited in references. A page file has a header of `key: value` lines, an empty line, and the wikitext exactly
as the dump holds it; the newline that ends the file is not part of the text.

Besides articles there are the pages on which a reader of dumps stumbles: redirects, a disambiguation page, a
list, a stub, an empty page, one in German, a template, a talk page, two near-duplicates and a paragraph whose
encoding was broken on purpose.
"""
