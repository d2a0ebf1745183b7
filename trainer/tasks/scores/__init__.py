"""Scores of answers from gold and answers, in numpy alone, each as its benchmark defines it.

    gold, answers, as many of both ─► counts ─► scores, as shares

A score is a share in [0, 1], a correlation is in [-1, 1], where the published tables and official scripts print it a
hundredfold. A score whose divisor is 0 is 0, and each function documents it. Rows are one at least, of both sides, and
finite numbers where they are numbers: a file's examples and a model's answers are checked before.

A file has the name of the task in `kinds/` that it judges, as that one's head in `heads/`; `resampling.py` is for all.

    texts.py        one label of several, several at once, options of a question, numbers; precision, recall and F1
    tags.py         named entities and other tagged sequences
    answers.py      answers that are texts: exact match and F1 of SQuAD and ReCoRD
    vectors.py      documents ranked for queries: nDCG, MRR, MAP, recall
    next_word.py    perplexity, bits a byte
    resampling.py   the uncertainty of a score: intervals, tests between two systems
"""
