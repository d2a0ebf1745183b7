"""Tasks: a model is fine-tuned on labeled examples, and makes predictions for new ones.

    1. `formats/` reads a file into records, and counts those that cannot be used.
    2. A kind of task (`kinds/`) turns a record into an example and then into a `TaskItem` of token ids. It also scores
       predictions.
    3. An encoder gets the heads of the task (`heads/`). The result is a `TaskModel`.
    4. `finetuning/` trains it with the loop of `trainer.train`, and keeps the best epoch.
    5. `folders.py` writes a folder that Hugging Face's class for the task can open.

    checking/     checks labeled data before training
    vectors/      embeddings of texts, search, retrieval
    suites/       many tasks and seeds (`evaluate.py`), and the table of their scores

`build.py` is the stage `tasks` of a run: it fine-tunes a stored model on a suite, and stores the results.
`predict.py` and `fill.py` apply a trained model: they predict labels, and tokens for masks.
`task.py` defines what a task must implement, `registry.py` finds tasks by name, and `settings.py` has the settings of a
job. `onnx.py` writes a model for programs without torch, and `loaded.py` keeps one in memory for Python.
`data.py` reads and encodes a whole file, `text_encoder.py` turns text into ids, and `long_texts.py` splits it into
windows. A task has two files of the same name: `kinds/tags.py` says what it reads and how it is scored, and
`heads/tags.py` is its model.
"""
