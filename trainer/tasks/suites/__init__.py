"""A checkpoint on many tasks: every task of a suite learned from every seed, in one table. Without torch.

    suite.toml ─► tasks ─► runs, a folder each ─► splits judged ─► table: text, JSON, a page
                   suite      suite                  split_scores     └─ compare: tests between two

`suite.py` reads suites (`shipped/` has those that come with the program) and plans a fine-tuning run for each task and
seed in a folder that its settings name, so that nothing is done twice; it also joins the examples of MultiRC and ReCoRD
that are judged together. `split_scores.py` is what is kept of a run's answers: scores, also those of one answer to
everything, and the numbers of each example from which they can be drawn again. `table.py` adds up, over seeds and over
tasks, and draws intervals; `compare.py` tests two models. `trainer.tasks.evaluate` runs the models.
"""
