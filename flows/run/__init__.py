"""What one run is, independent of the orchestrator: which stages a recipe asks for, in which order, and what is
recorded.

`pipeline.py` is the run as one page. `policies.py` has the numbers that decide no bytes (retries, waiting times).
`addresses.py` finds the artifacts and stores that people name. `plan_run.py` follows a run without building it, and
says why a stage is reused or built: `cloze plan`. `answers_build.py` is the stage that answers new documents.

    inputs/      before the first stage: raw files fetched, files that are not read, the model that training starts from
    estimates/   what each stage would cost
    faults/      a run continues past a damaged file, an unreadable file, a record that ends its worker
    record/      what a run leaves: its record, figures, accounts, releases, notices
"""
