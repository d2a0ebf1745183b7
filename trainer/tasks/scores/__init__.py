"""Scores of answers from gold and answers, in numpy alone, each as its benchmark defines it.

    gold, answers, as many of both ─► counts ─► scores, as shares

A score is a share in [0, 1], a correlation is in [-1, 1], where the published tables and official scripts print it a
hundredfold. A score whose divisor is 0 is 0, and each function documents it. Rows are one at least, of both sides, and
finite numbers where they are numbers: a file's examples and a model's answers are checked before.

    classes.py      one label of several, several labels at once, options of a question; precision, recall and F1
    numbers.py      correlations of numbers
    spans.py        named entities and other tagged sequences
    answers.py      answers that are texts: exact match and F1 of SQuAD and ReCoRD
    ranking.py      documents ranked for queries: nDCG, MRR, MAP, recall
    summary.py      ROUGE
    language.py     perplexity, bits a byte
    resampling.py   the uncertainty of a score: intervals, tests between two systems
"""
