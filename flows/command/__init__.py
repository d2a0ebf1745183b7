"""The command line: `cli.py` finds the file of a command and calls it; `help.py` and `help.toml` explain all of them.

A command is a function of its name in a file of its own, with its arguments, what it does and what it prints; those of
one story are together (`run.py`, `runs.py`, `releases.py`, `schedules.py`, `shards.py`, `vocabulary.py`), and those
that call one function are in `cli.py`. The file is imported when its command is called. What several commands share:

    arguments.py, record_files.py    options, the recipe that they mean; files of records, also from a pipe
    terminal.py, progress.py         what they print to: the console, tables that fit it, bars
    trainer_process.py               the trainer in a process of its own
    suite_runs.py, control.py        the runs of a suite; a fine-tuned model compared with one from first weights
    compile_kernels.py               compiled kernels; `kernel_calls.py` lists what is compiled

`reference.py` writes docs/reference.md from the program.
"""
