"""Pieces learnt from word counts: the same counts give the same pieces on every machine.

wordpiece, byte_bpe   ─► merges: which two pieces to join, again and again (merges_kernels, spelling_kernels)
unigram               ─► unigram_seeds: the pieces to begin with; unigram_kernels: all ways to cut a word, weighed;
                         unigram_math: logarithms that are the same on all machines
"""
