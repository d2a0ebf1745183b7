"""Text as bytes: a column is read where it lies, by kernels, and each kernel has a definition over `str`.

    buffers           the bytes and offsets of an Arrow column
    codepoints        characters read from bytes, and their classes
    whitespace        line breaks, spaces and what shows nothing; text made tidy
    mojibake          which lines ftfy could change
    quotes            curly quotes made straight
    counts            what the quality rules compare, by definition; count_kernels: for a column, with words as
                      count_words finds them and repeated runs as count_ngrams numbers them
    ngrams            words as they are compared between texts, and hashes of runs of them; ngram_kernels: for a column
    private_patterns  what tells of a person; private_kernels: which lines may hold it
    sentence_signs    what the sentence splitter goes by; sentence_words, sentence_kernels: the splitter for a column

The steps that use them, `corpora.clean`, `corpora.rules`, `corpora.lines`, `corpora.privacy`, `corpora.contamination`,
`corpora.stories_score` and `corpora.sentences`, are read first.
"""
