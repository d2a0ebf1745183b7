"""Tasks: a model learns from labelled examples, and answers for new ones.

    1. `formats/` reads a file into records, and counts those that cannot be used.
    2. A kind of task (`kinds/`) makes an example of a record, and of that a `TaskItem` of token ids (`encoding/`).
    3. An encoder gets the heads of the task (`heads/`): a `TaskModel`.
    4. `finetuning/` trains it by the one loop of `trainer.train` and keeps the best epoch.
    5. `scores/` score the answers; `saving.py` writes a folder that Hugging Face's class of the task opens.

    checking/     labelled data looked at before it is learnt
    prediction/   uses of a trained model: predictions, filled gaps
    vectors/      embeddings of texts, search in them, retrieval
    suites/       many tasks from many seeds (`evaluate.py`), and their table

`build.py` is the stage `tasks` of a run: a suite learnt by a model of a store, and what is kept of it.
`contract.py` is what a task must offer, `registry.py` finds tasks by name, `settings.py` holds the settings of a job,
`onnx.py` writes a model for programs without torch; `loaded.py` keeps one in memory for Python.
`data.py` reads and encodes a whole file, `text_encoder.py` turns text into ids and `embeddings.py` handles vectors.
What a task is in one room has the same file name in the others: `kinds/tags.py`, `heads/tags.py`, `scores/tags.py`.
"""
