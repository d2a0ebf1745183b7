"""Documents in, a vocabulary out, and texts as token ids.

    texts ─► word counts ─► merged, weighted ─► merges learnt ─► Vocabulary ─► Encoder ─► token ids
             counts.py                          wordpiece.py     vocabulary.py  encode.py
                                                byte_bpe.py

A vocabulary is learnt from nothing but how often each word occurs, so `counts` gathers word counts part by
part and training never sees a text. Two families are known: BERT's WordPiece and RoBERTa's byte-level BPE. They
differ in what a word is (`bert_words`, `gpt2_words`), in what its first pieces are (`wordpiece`: letters,
`byte_bpe`: bytes) and in the folder they are kept in (`bert_tokenizer`, `roberta_tokenizer`); learning which pieces
to join (`merges`) is one. `words` runs over the bytes of a text column and numbers the words it meets, for counting
and for encoding alike, so both see the same words. A `Vocabulary` is a folder that Hugging Face tokenizers and
transformers open; an `Encoder` turns sentences into its ids.

Hugging Face tokenizers defines every answer given here. The kernels give the same answer sooner: each stands
beside its plain twin, and a property test holds the two together.
"""
