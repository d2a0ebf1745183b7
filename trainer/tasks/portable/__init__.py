"""A model for machines without torch: ONNX files with its tokenizer.

`graphs` defines what is exported and which part of it each file holds; `padded` is that on padded rows, as users of
onnxruntime give them; `exporting` writes it, makes the weights whole numbers of eight bits on request, and compares
what is written with our model; `measuring` is a process that answers text after text, for time and memory.

Without torch: `running` answers by onnxruntime, `answering` finishes the answer by numpy where more is needed,
`folder` reads all of it again, and `predicting` answers the records of a file.
"""
