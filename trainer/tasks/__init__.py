"""What a checkpoint is for: a task is learnt from labelled examples; who has learnt it says what others are.

    file ─► records ─► examples ─► items ─► encoder + heads ─► answers ─► predictions ─► scores, lines of JSON
    formats            rows (a task)        heads                         rows          scores

A task is a row: what it reads of a record, how that becomes tokens, what is learnt, and how answers are judged
(`contract`, without torch; `rows`, a file for each kind; `registry`, for those of other packages). Its model is a
pre-trained encoder with heads (`heads`, `building`), learnt by the one loop of `trainer.training`: `finetune` tells
a run in order, `course` is what the loop asks of it, `published` the hyper-parameters that are taken where none are
named, `teaching` what a smaller model learns from a larger one. `saving` writes a folder
that Hugging Face's class of the task opens, and reads it back (`vector_files` is for another library); `predict` uses
it, `portable` writes it as ONNX, `evaluate` learns many tasks from many seeds (`suites`). `fill` guesses the words
under [MASK], without any learning, `generate` lets a text go on. `embed` writes vectors to a file (`embeddings`),
part by part (`vector_parts`), `search` compares them, and `retrieve` makes runs of that, and rows to learn from
(`vector_settings` says what both are asked for).

A record that cannot be used is counted with its reason, and above a bound the run is refused (`formats`); a text longer
than the model reads is cut, and the tokens cut off are counted too (`encoding`). All that is read of a file is kept in
little memory (`data`, `packing`). `settings` says what a run is asked to do: with `registry` that is all `flows` knows
of it.
"""
