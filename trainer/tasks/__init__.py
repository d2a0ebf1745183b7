"""Tasks: a model learns from labeled examples, and answers for new ones.

    1. `formats/` reads a file into records, and counts those that cannot be used.
    2. A kind of task (`kinds/`) makes an example of a record, of that a `TaskItem` of token ids, and scores answers.
    3. An encoder gets the heads of the task (`heads/`): a `TaskModel`.
    4. `finetuning/` trains it by the one loop of `trainer.train` and keeps the best epoch.
    5. `folders.py` writes a folder that Hugging Face's class of the task opens.

    checking/     labeled data looked at before it is learned
    vectors/      embeddings of texts, search in them, retrieval
    suites/       many tasks from many seeds (`evaluate.py`), and their table

`build.py` is the stage `tasks` of a run: a suite learned by a model of a store, and what is kept of it.
`predict.py` and `fill.py` are the uses of a trained model: predictions, filled gaps.
`task.py` is what a task must offer, `registry.py` finds tasks by name, `settings.py` holds the settings of a job,
`onnx.py` writes a model for programs without torch; `loaded.py` keeps one in memory for Python.
`data.py` reads and encodes a whole file, `text_encoder.py` turns text into ids, `long_texts.py` into windows.
A task has two files of one name: `kinds/tags.py` says what it reads and scores, `heads/tags.py` is its model.
"""
