"""The trainer: shards in, checkpoints and fine-tuned models out; the one package that imports torch.

    shards ─► order, masks ─► batches without padding ─► encoder ─► heads on masked tokens ─► loss
                 (a step is a fixed set of slots)          └─ FSDP2, one code path for 1 to n processes

It runs as a process of its own, which may live on another machine: where torch, numpy, numba, pyarrow, tokenizers and
safetensors are installed, and nothing that builds or orchestrates. It is told everything in a job (`job.py`) and learns
the size of the vocabulary and the special ids from the manifests of the shards.

`loop.py` is the run as one page: from the newest checkpoint through the steps of every phase to the export.
`learner.py` takes one step; `feed.py` gives it this process' share of the examples; `encoder.py`,
`attention.py`, `heads.py` are the model, and `families.py` says what makes it BERT or RoBERTa. `huggingface.py`
writes and reads the folders that transformers opens. `build.py` is the stage `models`, `launch.py` starts the
processes (neither imports torch: the flow does them). `tasks/` fine-tunes; `fill.py` guesses the words behind
[MASK].
"""
