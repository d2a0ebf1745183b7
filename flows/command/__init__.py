"""The command line: `cli.py` reads arguments; each command calls one module and shows the result.

`arguments.py` has those that several take, and finds the recipe that they name. A command is a file of its name, with
what it prints; those that share options are together: `run_commands.py` (`cloze runs`, `status`, `gc`),
`release_commands.py`, `dedup_commands.py`, `shard_commands.py`, `vocabulary_commands.py`. These are imported by every
command, so what they print is next to them, in `records_display.py` and files of like names. `prepare.py` and
`compile_kernels.py` are the compiled kernels. `trainer_process.py` calls the trainer in a process of its own;
`reference.py` writes docs/reference.md from the program.

    tasks/        `cloze finetune`, `predict`, `evaluate`, `embed`, `fill`
    training/     `cloze train`, a checkpoint as a folder
    terminal/     what all of them print to and with
"""
