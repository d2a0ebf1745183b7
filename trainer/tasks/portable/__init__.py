"""A model for machines without torch: one file of ONNX, with its tokenizer beside it.

`padded` is our model on padded rows, as users of onnxruntime give them; `exporting` writes it, makes the weights whole
numbers of eight bits where that is asked for, and compares what is written with our model; `running` answers by
onnxruntime, without torch; `measuring` is a process that answers text after text, for time and memory.
"""
