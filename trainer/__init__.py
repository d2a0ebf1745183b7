"""The trainer: shards in, checkpoints and fine-tuned models out; the one package that imports torch.

    1. `build.py` plans the stage `models`: a `TrainingJob` (`job.py`), a file that any machine can carry out.
    2. `launch.py` starts the processes of the training; each builds the model (`model/`) and joins the others.
    3. `pretrain.py` builds what a job names: the model, its feed of examples, its evaluation, its export.
    4. `train.py` goes through the steps, each in view: micro-batches (`feed.py`), forward, backward, clip, optimizer
       (`learn.py`, `optimizers.py`), log (`step_log.py`), evaluation, checkpoint (`checkpoints/`), stop. Watchers look
       at it from outside (`watch.py`). FSDP2 is one code path for 1 to n processes (`ranks.py`, `compute.py`).
    5. It resumes from the newest checkpoint, and ends with the folder of a model (`huggingface/`), from which `tasks/`
       fine-tunes, by the same `train.py`, predicts and embeds.

It runs as a process of its own, which may live on another machine, on which torch, numpy, numba, pyarrow, tokenizers,
safetensors and xxhash are installed, and nothing that orchestrates. It gets everything from a job (`job.py`) and
learns the size of the vocabulary and the special ids from the manifests of the shards.

    tasks/        fine-tuning, prediction, vectors, and guessing the words under [MASK]
    checkpoints/  what a training resumes from, and one as a folder
    huggingface/  the folders that transformers opens, read and written
    model/        what is trained: encoders and heads, and the modules that learn
    settings/     what a recipe asks for: `[model]` and `[training]`, learning rates, how a batch grows
    objectives/   training objectives: the terms of a loss, as settings
    families/     what makes an encoder BERT, RoBERTa or another: a row each

`job.py` is what the processes receive: which examples each phase reads; `start_weights.py` what a model starts from.
`launch.py` starts the processes, listens and ends them (`torchrun_agent.py` on several machines). `datasets.py` gives
shards to other training loops as datasets of torch.

`build.py` is the stage `models` (`tasks/build.py` the stage `tasks`), `auto_settings.py` resolves "auto" for the
machines of a training, `metrics.py` defines what a run reports, and `complete_folders.py` lets outputs appear whole.
None of these imports torch but the datasets, nor do settings, families and objectives, because the flow uses them.
"""
