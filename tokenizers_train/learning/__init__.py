"""Pieces learned from word counts: the same counts give the same pieces on every machine.

wordpiece, byte_bpe   ─► merges_kernels: words spelled as pieces; two of them are joined, again and again
unigram               ─► unigram_seeds_kernels: the pieces to begin with; unigram_kernels: all ways to cut a word,
weighed,
                         with logarithms that are the same on all machines
"""
