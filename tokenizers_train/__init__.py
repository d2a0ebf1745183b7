"""Documents in, a vocabulary out, and texts as token ids.

    texts ─► word counts ─► merged, weighted ─► pieces learnt ─► Vocabulary ─► Encoder ─► token ids
             words/                             learning/        vocabularies/ encoding/
                                                                    ▲    │
                                                       others' folders   └─► measures/, adapting/

Three families are known: BERT's WordPiece, RoBERTa's byte-level BPE and ALBERT's Unigram. Of each there is

    words/          what a word is                      bert         gpt2        sentencepiece
    learning/       learning its pieces                 wordpiece    byte_bpe    unigram
    vocabularies/   the folder that other tools open    bert         roberta     albert
    encoding/       the engine, from bytes to ids       wordpiece    byte_bpe    unigram

A vocabulary is learnt from nothing but how often each word occurs, so words are counted part by part and training
never sees a text. `measures/` says how good a vocabulary is, `adapting/` fits one to a domain. `build.py` is the page
of the stages `counts` and `vocabularies`.

Hugging Face tokenizers defines what words and ids are, and how pieces are learnt except for ties (see `learning/`).
The kernels give the same answer sooner: each is next to its plain twin, and a property test compares the two.
"""
