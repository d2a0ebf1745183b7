"""A model for machines without torch: files of ONNX, with its tokenizer beside them.

`graphs` says what is exported and what of it a file holds; `padded` is that on padded rows, as users of onnxruntime
give them; `exporting` writes it, makes the weights whole numbers of eight bits where that is asked for, and compares
what is written with our model; `measuring` is a process that answers text after text, for time and memory.

Without torch: `running` answers by onnxruntime, `answering` goes on from there by numpy where more is to be done,
`folder` reads all of it again, and `predicting` answers the records of a file.
"""
