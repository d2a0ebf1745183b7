"""A small corpus of stories, written for this project, in the line form in which the Stories corpus was published.

    stories.txt      one story a line, UTF-8; the paragraphs of a story are on the one line

Sixteen short tales of everyday cause and effect, told in the first and the third person, every sentence of them
written for the sample and copied from nowhere. After them come the lines on which a corpus stumbles: line 17
repeats line 7, line 18 is empty, line 19 is too short to be a document, and line 20 is line 10 with four words
changed. The third story is told once more in the web sample, so that a duplicate can be found across sources.
"""
