"""Evaluates a model on many tasks: fine-tunes it on every task of a suite from every seed. Without torch.

    suite.toml ─► tasks ─► runs, a folder each ─► splits scored ─► table: text, JSON, a page
                   suite      suite                  split_scores     └─ compare: tests between two models

`suite.py` reads suites (`shipped/` has those that are included) and plans a fine-tuning run for each task and seed. The
name of a run's folder depends on its settings, so that nothing is done twice. It also groups the examples of MultiRC
and ReCoRD that are scored together. `split_scores.py` defines what is stored of a run's predictions: scores, including
those of baselines, and the numbers of each example from which scores can be recomputed. `table.py` averages over seeds
and tasks, and computes intervals. `compare.py` tests whether two models differ. `trainer.tasks.evaluate` runs the
models.
"""
