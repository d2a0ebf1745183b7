"""A checkpoint on many tasks: every task of a suite learnt from every seed, and told in one table. Without torch.

    suite.toml ─► tasks ─► runs, a folder each ─► splits judged ─► table: text, JSON, a page
                   suite      runs                   judged           └─ comparing: tests between two

`suite.py` reads what is asked for (`shipped/` has those that come with the program), `runs.py` plans a fine-tuning run
for each task and seed in a folder that what is asked for names, so that nothing is done twice, `judged.py` is what is
kept of a run's answers: scores, and the numbers of each example from which they can be drawn again; `grouped.py` what
of MultiRC and ReCoRD is judged together, `majority.py` what one answer to everything would have. `table.py` adds up,
over seeds and over tasks, and draws intervals; `comparing.py` tests two models, `overlap.py` says what of a split is in
a corpus, and `submitting.py` writes what a benchmark takes. What runs models is `trainer.tasks.evaluate`.
"""
