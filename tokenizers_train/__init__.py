"""Documents in, a vocabulary out, and texts as token ids.

    texts ─► word counts ─► merged, weighted ─► pieces learnt ─► Vocabulary ─► Encoder ─► token ids
             counts.py                          wordpiece.py     vocabulary.py  encode.py
                                                byte_bpe.py         ▲    │
                                                unigram.py       others' folders └─► workbench.py, adapt.py

Three families are known: BERT's WordPiece, RoBERTa's byte-level BPE and ALBERT's Unigram. Of each there is

    what a word is                      bert_words        gpt2_words        sentencepiece_words
    learning its pieces                 wordpiece         byte_bpe          unigram (seeds, math)
        of which pairs are joined           merges            merges
    the folder that other tools open    bert_tokenizer    roberta_tokenizer albert_tokenizer
    the engine, from bytes to ids       wordpiece_encode  byte_bpe_encode   unigram_encode

A vocabulary is learnt from nothing but how often each word occurs, so words are counted part by part, in a table of
bytes (`word_table`), and training never sees a text. A `Vocabulary` is a tokenizer.json and the files beside it;
`tokenizer_files` reads what others wrote, `pipelines` says which of its rules the engines know, and `reference_encode`
is the engine for all others. Engines share a cache of short words (`piece_cache`) and a trie (`trie`); what becomes of
a character stands in tables that the reference itself was asked for (`characters`, and in the modules of words).

Hugging Face tokenizers defines every answer given here. The kernels give the same answer sooner: each stands
beside its plain twin, and a property test holds the two together.
"""
