"""The trainer: shards in, checkpoints and fine-tuned models out; the one package that imports torch.

    shards ─► order, masks ─► batches without padding ─► encoder ─► heads on masked tokens ─► loss
                 (a step is a fixed set of slots)          └─ FSDP2, one code path for 1 to n processes

It runs as a process of its own, which may live on another machine: where torch, numpy, numba, pyarrow, tokenizers,
safetensors and xxhash are installed, and nothing that orchestrates. It is told everything in a job (`job.py`) and
learns the size of the vocabulary and the special ids from the manifests of the shards.

    families/     what makes an encoder BERT, RoBERTa or another: a row each
    objectives/   by what it is trained: the terms of a loss, as settings
    model/        what is trained: encoders and heads, and the modules that learn
    training/     how: the run as one page (`loop.py`), a step, its share of the examples, checkpoints, processes
    huggingface/  the folders that transformers opens, read and written
    tasks/        fine-tuning, and guessing the words under [MASK]
    reading/      shards for loops that are not ours: datasets of torch

`build.py` is the stage `models`, `phases.py` says which shard sets a phase reads and how much of each, `seen.py` what
was read of them in the end, `launch.py` starts the processes, `nodes.py` says of how many machines, `choices.py` what
"auto" comes to on them, `start.py` is a model to begin with and `origins.py` a checkpoint of another run to go on from,
`model_settings.py` and `settings.py` are what a recipe asks for, `schedules.py` and `rates.py` what the learning rate
of a step is, `ramps.py` how a batch grows, `metrics.py` what a run says, `flops.py` what a step computes and how much
of a device that is, and `finished.py` how a checkpoint and an export tell that they are whole. Neither these nor
families and objectives import torch, for the flow uses them.
"""
