"""Documents in, a vocabulary out, and texts as token ids.

    1. `words/` splits texts by the rule of a family and counts each distinct word: `WordCounts`, part by part.
    2. `words/counts.py` merges the counts of all parts, with a weight for each source.
    3. `learning/` learns the pieces from the merged counts; training never sees a text.
    4. `vocabularies/` makes the pieces, or a folder of others, a `Vocabulary`: the files that other tools open.
    5. `encoding/` compiles a vocabulary to an `Encoder`: UTF-8 bytes in, flat arrays of token ids out.

Three families are known: BERT's WordPiece, RoBERTa's byte-level BPE and ALBERT's Unigram. Of each there is

    words/          what a word is                      bert         gpt2        sentencepiece
    learning/       learning its pieces                 wordpiece    byte_bpe    unigram
    vocabularies/   the folder that other tools open    bert         roberta     albert
    encoding/       the engine, from bytes to ids       wordpiece    byte_bpe    unigram

`measures/` says how good a vocabulary is, `adapting.py` fits one to a domain. `build.py` is the page of the stages
`counts` and `vocabularies`.

Hugging Face tokenizers defines what words and ids are, and how pieces are learned except for ties (see `learning/`).
The kernels give the same answer sooner: each has a plain form (`_plain`), and a property test compares the two.
"""
