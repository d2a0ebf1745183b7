"""A small archive of news pages, written for this project, in the form in which CC-News is published.

    pages/NN-slug.html             one page a file, in UTF-8, to be read and edited by hand
    crawl.toml                     in which order a crawler met them, at which addresses, sent in which encodings
    CC-NEWS-...-00000.warc.gz      the archive: one gzip member a record

Every sentence was written for the sample and copied from nowhere. The four papers, their towns, teams and
people are invented, and their addresses end in a name that is reserved for examples. Around each article
is what surrounds one on the web: menus, cookie notices, advertisements, lists of other stories, comments.

Besides plain pages there are those on which a reader of archives stumbles: three encodings, of which one has a
wrong name once and one is told by its byte order mark alone; a body sent compressed and in chunks; a page of
which nothing but the menu is left and one of which nothing is left; an error page, an image, requests, a
revisit; an article crawled again after a correction, one that another paper reprints with small changes, one
in German, and one whose encoding was broken on purpose.
"""
