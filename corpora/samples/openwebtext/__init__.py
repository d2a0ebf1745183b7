"""A small OpenWebText, written for this project, in the form in which the real one is published.

    pages/NNNNNNN-slug.txt    one page a file, to be read and edited by hand
    openwebtext.tar.xz        openwebtext/urlsf_subset00-1_data.xz and -2_data.xz, each a tar of pages in xz

Every sentence was written for the sample and copied from nowhere; towns, makers, bands and books are invented.
The pages have many voices: instructions, a recipe, reviews, letters, a column, a forum, a diary. Some have
lines of their site about them, as the real ones do.

Besides them there are the pages on which a reader of web text stumbles: one whose encoding was broken on
purpose, one of figures alone and one of nothing; a page found a second time, and another with a few words
changed; and two that are elsewhere, with small changes: a report of the news sample and a tale of the stories.
"""
