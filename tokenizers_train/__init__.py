"""Documents in, a vocabulary out, and texts as token ids.

    texts ─► word counts ─► merged, weighted ─► WordPiece training ─► Vocabulary ─► Encoder ─► token ids
             counts.py                          wordpiece.py          vocabulary.py  encode.py

A vocabulary is learnt from nothing but how often each word occurs, so `counts` gathers word counts part by
part and `wordpiece` never sees a text. What a word is, `words` says: it runs over the bytes of a text column
and numbers the words it meets, for counting and for encoding alike, so both see the same words. A `Vocabulary`
is a folder that Hugging Face tokenizers and transformers open; an `Encoder` turns sentences into its ids.

Hugging Face tokenizers defines every answer given here. The kernels give the same answer sooner: each stands
beside its plain twin, and a property test holds the two together.
"""
