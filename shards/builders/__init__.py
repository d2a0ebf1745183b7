"""Documents cut into examples, a file for each kind of input.

    1. A builder gets the tokens of a shard's documents as flat columns: `DocumentTokens`.
    2. Kernels plan every example as a row of numbers, `PlannedExample` or `PlannedSegments`.
    3. The plan is written out as columns of token ids, segments and labels.
    4. It returns `BuiltExamples` (`contract.py`): the examples and a ledger of every token.
    5. A plain definition over lists gives the same examples; a property test compares the two.

    pieces/      examples made of pieces of documents: full sentences, single texts, ELECTRA, sentence pairs
    segments/    examples of two segments: next sentence prediction, sentence order

`shards.inputs` knows them by name; `contract.py` is what a new one must offer.
"""
