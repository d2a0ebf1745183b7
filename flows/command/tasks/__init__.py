"""What a checkpoint is for: `cloze finetune`, `predict`, `evaluate`, `onnx`, `embed`, `search`, `grid`,
`generate` and `fill`.

`cli` reads arguments and calls one module each: `finetuning`, `predicting`, `evaluating`, `portable`, `embedding` and
`searching` write down what is asked for, have the trainer do it in a process of its own, and tell what it says.
`gridding` runs one recipe in several forms, and evaluates each.
"""
