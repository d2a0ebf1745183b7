"""Hugging Face's names for the parameters of our models, by the tables of their families. No torch.

Where our parameter corresponds to several of theirs, ours stacks them (along the first dimension).
"""

import re
from collections.abc import Iterable

from trainer.families.contract import Family
from trainer.objectives.contract import ModelPart

_LAYER = re.compile(r"layers\.(\d+)\.")


def huggingface_names(ours: Iterable[str], family: Family, part: ModelPart) -> dict[str, tuple[str, ...]]:
    """The name there of every parameter of ours that belongs to a part; with several, ours holds them stacked.

    ours: names of parameters of a root module
    """
    return {name: theirs for name in ours if (theirs := _theirs(name, family, part))}


def _theirs(ours: str, family: Family, part: ModelPart) -> tuple[str, ...]:
    root, _, rest = ours.partition(".")
    if root == part.encoder or (root == part.embeddings and rest.startswith("embeddings.")):
        number = _LAYER.match(rest)
        module, _, kind = _LAYER.sub("layers.{}.", rest).rpartition(".")
        layer = number[1] if number else ""
        return tuple(f"{theirs.replace('{}', layer)}.{kind}" for theirs in family.names.encoder[module])
    if root not in part.heads:
        return ()
    table = family.names.heads[part.heads[root]]
    if rest in table:
        return (table[rest],)
    module, _, kind = rest.rpartition(".")
    return (f"{table[module]}.{kind}",)
