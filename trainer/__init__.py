"""The trainer: shards in, checkpoints and fine-tuned models out; the one package that imports torch.

    shards ─► order, masks ─► batches without padding ─► encoder ─► heads on masked tokens ─► loss
                 (a step is a fixed set of slots)          └─ FSDP2, one code path for 1 to n processes

It runs as a process of its own, which may live on another machine: where torch, numpy, numba, pyarrow, tokenizers,
safetensors and xxhash are installed, and nothing that orchestrates. It is told everything in a job (`jobs/`) and
learns the size of the vocabulary and the special ids from the manifests of the shards.

    tasks/        fine-tuning, prediction, vectors, and guessing the words under [MASK]
    training/     how: the run as one page (`loop.py`), a step, its share of the examples, checkpoints, processes
    launching/    the processes of a training, started, listened to and ended; on how many machines
    huggingface/  the folders that transformers opens, read and written
    jobs/         what the processes are told: which examples each phase reads, what a model begins with
    model/        what is trained: encoders and heads, and the modules that learn
    settings/     what a recipe asks for: `[model]` and `[training]`, learning rates, how a batch grows
    objectives/   by what it is trained: the terms of a loss, as settings
    families/     what makes an encoder BERT, RoBERTa or another: a row each
    reading/      shards for loops that are not ours: datasets of torch

`build.py` is the stage `models`, `choices.py` what "auto" comes to on the machines of a training, `metrics.py` what a
run says, `flops.py` what a step computes and how much of a device that is, and `complete_folders.py` how a checkpoint
and an export tell that they are whole. Neither these nor jobs, launching, settings, families and objectives import
torch, for the flow uses them.
"""
