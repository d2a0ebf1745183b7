"""Text as bytes: a column is read where it lies, by kernels, and each kernel has a definition over `str`.

    buffers           the bytes and offsets of an Arrow column
    codepoints        characters read from bytes, and their classes
    whitespace        line breaks, spaces and what shows nothing; text made tidy
    mojibake          which lines ftfy could change
    counts            what the quality rules compare, by definition; count_kernels: for a column
    sentence_signs    what the sentence splitter goes by; sentence_kernels: the splitter for a column

The steps that use them, `corpora.clean`, `corpora.rules` and `corpora.sentences`, are read first.
"""
