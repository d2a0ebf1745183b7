"""The trainer: shards in, checkpoints and fine-tuned models out; the one package that imports torch.

    1. `build.py` plans the stage `models` and writes a `TrainingJob` (`job.py`), a file that any machine can run.
    2. `launch.py` starts the processes of the training; each builds the model (`model/`) and joins the others.
    3. `pretrain.py` builds what a job names: the model, its feed of examples, its evaluation, its export.
    4. `train.py` runs the training loop: micro-batches (`feed.py`), forward, backward, clip, optimizer (`learn.py`,
       `optimizers.py`), log (`step_log.py`), evaluation, checkpoint (`checkpoints/`), stop. Watchers observe the loop
       through callbacks (`watch.py`). FSDP2 is one code path for 1 to n processes (`ranks.py`, `compute.py`).
    5. Training resumes from the newest checkpoint and ends with a model folder (`huggingface/`). `tasks/` fine-tunes
       such a model with the same `train.py`, and uses it to predict and embed.

Training runs in separate processes, possibly on another machine. That machine needs torch, numpy, numba, pyarrow,
tokenizers, safetensors and xxhash, but no orchestrator. A job (`job.py`) contains everything that the processes need,
except the vocabulary size and the special ids, which are read from the manifests of the shards.

    tasks/        fine-tuning, prediction, vectors, and predicting the words at [MASK]
    checkpoints/  checkpoints to resume from, and their export as model folders
    huggingface/  reads and writes model folders that transformers can load
    model/        encoders, heads, and the modules that compute losses
    settings/     the tables `[model]` and `[training]` of a recipe, learning rates, batch sizes that grow
    objectives/   training objectives: the terms of a loss, as settings
    families/     the differences between BERT, RoBERTa and other encoders, one table row each

`job.py` defines what the processes receive, such as the examples of each phase. `start_weights.py` loads the weights
that a model starts from. `launch.py` starts the processes, reads their messages and stops them (`torchrun_agent.py` on
several machines). `datasets.py` offers shards to other training loops as torch datasets.

`build.py` is the stage `models` (`tasks/build.py` is the stage `tasks`), `auto_settings.py` resolves "auto" for the
machines of a run, `metrics.py` defines what a run reports, and `complete_folders.py` makes outputs appear only when
complete. Of these, only `datasets.py` imports torch. Settings, families and objectives do not import it either, because
the flow uses them.
"""
