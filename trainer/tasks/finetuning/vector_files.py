"""The files by which the library sentence-transformers opens the folder of a task with vectors: encoder, then pooling.

    modules.json                     the two steps, in order
    sentence_bert_config.json        to how many tokens a text is cut
    1_Pooling/config.json            what a text's vector is of those of its tokens
    config_sentence_transformers.json  how vectors are compared

Promise: `SentenceTransformer(folder).encode` gives the vectors that `cloze embed` gives. A model with an encoder of its
own for passages has no such files, for they know one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.tasks.kinds.vectors import VectorTask
from trainer.tasks.outputs import written_json

_STEPS = (("", "Transformer"), ("1_Pooling", "Pooling"))
_POOLINGS = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}


def write_vector_files(folder: Path, task: VectorTask, hidden_size: int, max_length: int) -> None:
    """Next to the encoder. max_length: tokens of a text in its training"""
    steps = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
        for place, (path, name) in enumerate(_STEPS)
    ]
    written_json(folder / "modules.json", steps)
    written_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    compared: Mapping[str, Any] = {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": task.by}
    written_json(folder / "config_sentence_transformers.json", compared)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{theirs}": ours == task.pooling for ours, theirs in _POOLINGS.items()}
    written_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden_size, **modes})
