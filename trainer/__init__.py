"""The trainer: shards in, checkpoints and fine-tuned models out; the one package that imports torch.

    shards ─► order, masks ─► batches without padding ─► encoder ─► heads on masked tokens ─► loss
                 (a step is a fixed set of slots)          └─ FSDP2, one code path for 1 to n processes

It runs as a process of its own, which may live on another machine: where torch, numpy, numba, pyarrow, tokenizers,
safetensors and xxhash are installed, and nothing that orchestrates. It gets everything from a job (`jobs/`) and
learns the size of the vocabulary and the special ids from the manifests of the shards.

    tasks/        fine-tuning, prediction, vectors, and guessing the words under [MASK]
    training/     the run as one page (`loop.py`), a step, its share of the examples, checkpoints, processes
    launching/    the processes of a training: starting, listening, ending; on how many machines
    huggingface/  the folders that transformers opens, read and written
    jobs/         what the processes receive: which examples each phase reads, what a model starts from
    model/        what is trained: encoders and heads, and the modules that learn
    settings/     what a recipe asks for: `[model]` and `[training]`, learning rates, how a batch grows
    objectives/   training objectives: the terms of a loss, as settings
    families/     what makes an encoder BERT, RoBERTa or another: a row each
    reading/      shards for other training loops: datasets of torch

`build.py` is the stage `models`, `auto_settings.py` resolves "auto" for the machines of a training, `metrics.py`
defines what a run reports, and `complete_folders.py` marks a checkpoint or an export as complete. None of these imports
torch, nor do jobs, launching, settings, families and objectives, because the flow uses them.
"""
