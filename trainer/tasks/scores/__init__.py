"""Scores of answers from gold and answers, in numpy alone, each as its benchmark defines it.

    gold, answers ─► checked: as many, the same keys, numbers ─► counts ─► scores, as shares

A score is a share in [0, 1], a correlation is in [-1, 1], where the published tables and official scripts print it a
hundredfold. Scoring no rows, rows that do not match, or values that are not numbers raises an `InputError`; a score
whose divisor is 0 is 0, and each function documents it.

    classes.py      one label of several, several labels at once, options of a question
    numbers.py      correlations of numbers
    spans.py        named entities and other tagged sequences
    answers.py      answers that are texts: exact match and F1 of SQuAD and ReCoRD
    ranking.py      documents ranked for queries: nDCG, MRR, MAP, recall
    summary.py      ROUGE
    language.py     perplexity, bits a byte
    resampling.py   the uncertainty of a score: intervals, tests between two systems
    rates.py        precision, recall and F1 from counts
    checks.py       what is refused
"""
