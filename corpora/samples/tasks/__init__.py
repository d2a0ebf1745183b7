"""Labelled sentences, written for this project: what does a sentence of a function's documentation say?

    sentences.train.tsv    180 sentences, 60 of each class, in a random order
    sentences.dev.tsv      72 others, 24 of each, most of them put in ways that the first file does not have

The classes are what is returned (returns), what goes wrong (raises) and what is given (argument). The subjects are
drawn from one list, so that the words of a sentence's subject do not give its class away.
"""
