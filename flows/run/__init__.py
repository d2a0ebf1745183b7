"""The run without an orchestrator: which stages a recipe asks for, in which order, and what is on record of it.

`pipeline.py` is the run as one page. `policies.py` has the knobs that decide no bytes, `addresses.py` finds the
artifacts and stores that people name, and `plan_run.py` follows a run without building it, and says why a stage is
reused or built: `cloze plan`. `answers_build.py` is the stage of answers to new documents.

    inputs/      before the first stage: raw files fetched, files that are not read, the model that training starts from
    estimates/   what each stage would take
    faults/      a run continues past a damaged file, an unreadable file, a record that ends its worker
    record/      what a run leaves: its record, figures, ledgers, releases, notices
"""
