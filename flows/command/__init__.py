"""The command line: `cli.py` reads arguments; each command calls one module and shows the result.

`arguments.py` has those that several take, and finds the recipe that they name. `plan.py`, `preview.py`, `inspect.py`,
`trace.py`, `diff.py`, `verify.py` and `export.py` are the commands of these names. `trainer_process.py` calls the
trainer in a process of its own; `reference.py` writes docs/reference.md from the program.

    machine/      `cloze doctor` and `cloze prepare`, compiled kernels
    operations/   `cloze runs`, `status`, `gc`
    releases/     `cloze release`, `releases`, `rollback`, `deploy`
    shards/       `cloze shards materialise`
    tasks/        `cloze finetune`, `predict`, `evaluate`, `embed`, `fill`
    training/     `cloze train`, a checkpoint as a folder
    vocabulary/   `cloze vocabulary`
    terminal/     what all of them print to and with
"""
