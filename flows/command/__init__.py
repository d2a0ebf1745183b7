"""The command line: `cli.py` reads arguments, each command calls one module and shows what came back.

doctor        what this machine has and lacks; preparing: what the first run would wait for
previewing    documents before and after every step
inspecting    what the store holds; tracing: an example back to its raw record; verifying: files and their manifests
models        `finetune` and `fill`, which run in a process of the trainer
training/     `cloze train`, and a checkpoint as a folder
vocabulary/   `cloze vocabulary`
operations/   `cloze runs`, `cloze status`, `cloze gc`
completing    what the shell completes
compiling     the kernels, for the calls of `kernel_calls.txt`, which `kernel_calls.py` writes
display       what is shown, as rich renderables; progress: while a run goes on; summary: when it is done; output: where
reference     docs/reference.md, written from the program itself
"""
