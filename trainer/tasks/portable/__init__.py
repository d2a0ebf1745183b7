"""A model for machines without torch: ONNX files with its tokenizer.

`graphs` defines what is exported and which part of it each file holds; `padded` is that on padded rows, as users of
onnxruntime give them; `exporting` writes it, makes the weights whole numbers of eight bits on request, and compares
what is written with our model; `measuring` is a process that answers item after item, for time and memory.

Without torch: `running` answers by onnxruntime, and `folder` reads all of it again and answers the records of a file.
"""
