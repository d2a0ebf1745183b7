"""Text as bytes: kernels read a column in place, and each kernel has a definition over `str`.

    buffers       the bytes and offsets of an Arrow column
    codepoints    the classes of characters
    whitespace    line breaks, spaces and what shows nothing; text made tidy
    mojibake      which lines ftfy could change
    repair        what ftfy does to them, in linear time
    normal_form   NFC, in linear time
    quotes        curly quotes made straight
    words         words as they are compared between texts, in every script; word_kernels: their hashes, for a column
    ngrams        hashes of runs of words; ngram_kernels: for a column
    shingles      a text as the set of its runs of five words
    counts/       what the quality rules compare
    sentences/    the boundaries of sentences

The steps that use them are in `corpora.judging.steps` and are read first.
"""
