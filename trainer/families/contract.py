"""Families of encoders and shapes of encoders, as facts without torch.

A `Family` is a row: everything in which one family differs from another, and the only place that knows its name. The
modules in `trainer.model` ask an `EncoderShape` for its properties, `trainer.huggingface` a row for its names; neither
asks for the family.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from corpora.kernels.arrays import Int64s

DEVIATION = 0.02  # of first weights, in all published models of these families


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialIds:
    """Ids of the special tokens by role, as the shards' manifest has them."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int

    @staticmethod
    def from_roles(roles: Mapping[str, int]) -> "SpecialIds":
        """From a manifest's `special_ids`."""
        return SpecialIds(**{role: roles[role] for role in ("pad", "unk", "cls", "sep", "mask")})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The facts that a model needs about the data it is made for."""

    vocab_size: int
    special_ids: SpecialIds
    pair_labels: bool = field(default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """Sizes and constants of an encoder.

    positions:      tokens of the longest sequence; of a position table its rows, those before `first_position` included
    first_position: row of a sequence's first token
    segment_types:  rows of the segment table; with one, every token is of that one; with none, there is no table
    embedding_size: of the tables; where it is not the hidden size, a matrix is between the two (Lan et al. 2020, 3.1)
    projects:       that matrix is there even where the two are equal
    layer_groups:   sets of weights that the layers share, in order: as many as layers, or 1 (Lan et al. 2020, 3.1)
    norm_place:     "after" each residual (Vaswani et al. 2017), or "before" each part and once at the end
    feed_forward:   "mlp", or "glu": one half of the widened vector gates the other (Shazeer 2020)
    position_kind:  "learned" rows of a table, or "rope" (Su et al. 2021)
    rope_bases:     of global layers, and of those with a window
    windows:        of each layer: tokens that one attends to at most, half to each side; None: all
    biases:         whether matrices and norms of the encoder have any
    causal:         whether a token attends to itself and those before it, and to none after it
    norm_epsilon:   of every norm
    initializer_range: deviation of the first weights of matrices
    """

    vocab_size: int
    positions: int
    first_position: int
    segment_types: int
    layers: int
    hidden_size: int
    heads: int
    feed_forward_size: int
    embedding_size: int
    layer_groups: int
    activation: str
    dropout: float
    attention_dropout: float
    norm_epsilon: float
    norm_place: str = "after"
    feed_forward: str = "mlp"
    position_kind: str = "learned"
    rope_bases: tuple[float, float] = (10_000.0, 10_000.0)
    windows: tuple[int | None, ...] = ()
    biases: bool = True
    causal: bool = False
    projects: bool = False
    initializer_range: float = DEVIATION

    def get_window(self, layer: int) -> int | None:
        """Return the window of a layer, by its number from 0."""
        return self.windows[layer] if self.windows else None

    def count_macs(self, lengths: Int64s) -> int:
        """Multiplications with additions of a forward pass over sequences of these lengths."""
        hidden, tokens = self.hidden_size, int(lengths.sum())
        matrices = hidden * (4 * hidden + (3 if self.feed_forward == "glu" else 2) * self.feed_forward_size)
        projection = hidden * self.embedding_size if self.projects or self.embedding_size != hidden else 0
        windows = Counter(map(self.get_window, range(self.layers)))
        pairs = sum(layers * count_attended_pairs(lengths, window, self.causal) for window, layers in windows.items())
        return tokens * (projection + self.layers * matrices) + 2 * hidden * pairs

    def count_vocabulary_head_macs(self, places: int) -> int:
        """Dense, then every word of the vocabulary: the head of masked tokens."""
        return places * self.embedding_size * (self.hidden_size + self.vocab_size)

    def count_class_head_macs(self, places: int, classes: int = 2) -> int:
        """Dense, then a few classes: the head of pairs reads first tokens, that of replaced tokens (one class) all."""
        return places * self.hidden_size * (self.hidden_size + classes)


def count_attended_pairs(lengths: Int64s, window: int | None, causal: bool) -> int:
    """Pairs of a token and one it attends to, in sequences of these lengths.

    >>> count_attended_pairs(np.array([3, 2]), None, False), count_attended_pairs(np.array([4]), 2, False)
    (13, 10)
    """
    side = np.maximum(lengths - 1, 0) if window is None else np.minimum(window // 2, np.maximum(lengths - 1, 0))
    one_side = lengths * side - side * (side + 1) // 2  # the first tokens have fewer before them
    return int((lengths + (1 if causal else 2) * one_side).sum())


class Size(NamedTuple):
    """Layers, hidden size, heads and feed-forward size by a name; embedding_size where it is not the hidden size."""

    layers: int
    hidden_size: int
    heads: int
    feed_forward_size: int
    embedding_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedHeadShape:
    """activation: None: the encoder's own; biases: of the matrix and the norm before the words"""

    activation: str | None = None
    biases: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHeadShape:
    """The head of a classifier: [dropout,] matrix, activation[, norm], dropout, a row for each class.

    drops_first: whether there is a dropout before the matrix too
    activation:  after the matrix
    norm:        whether a norm without bias follows
    pretrained:  where the matrix (and norm) begins as what pre-training has learnt: as that of this head
    dropout:     None: that of hidden states
    """

    drops_first: bool = False
    activation: str = "tanh"
    biases: bool = True
    norm: bool = False
    pretrained: str = ""
    dropout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHeadShape:
    """The head that answers for every token: [matrix, activation, norm,] dropout, a row for each answer.

    pooler:  what comes first, for each token alone; None: nothing
    dropout: None: that of hidden states
    """

    pooler: ClassHeadShape | None = None
    dropout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Hugging Face's names of a family's parameters, module by module; where there are several, ours stacks them.

    encoder:       below "encoder" of ours; `{}` is a layer's number
    heads:         of each head of ours, its modules (and parameters) below it
    tied:          what some files store as well, and what it is equal to
    architectures: their class by what the folder holds: "encoder" alone, "masked", "pairs" (with a pair head), or the
                   heads of a task ("classes", "tags", "spans", "choices")
    config:        our value by their key (see `trainer.huggingface.config`), in their order
    usual:         values of their keys where a configuration leaves them out
    constants:     keys of theirs that have one value in all models of the family that can be made here
    fixed:         the same of keys that are not written
    written:       keys that are written with one value, and that say nothing about what can be made here
    activations:   their word for one of ours, where it is not the usual one
    begin_and_end: whether [CLS] and [SEP] are the begin and the end of a text as well
    one_key:       a configuration with one key for what newer files say layer by layer; raises ValueError with the key
                   by which it is of no model that can be made here
    left_out:      parameters of theirs that a file may hold and that no model of ours has, by how they begin
    """

    encoder: Mapping[str, tuple[str, ...]]
    heads: Mapping[str, Mapping[str, str]]
    tied: Mapping[str, str]
    architectures: Mapping[str, str]
    config: Mapping[str, str]
    defaults: Mapping[str, Any]
    constants: Mapping[str, Any] = field(default_factory=lambda: {"tie_word_embeddings": True})
    fixed: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)
    activations: Mapping[str, str] = field(default_factory=dict)
    begin_and_end: bool = False
    normalize_config: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    ignored: tuple[str, ...] = ()


def name_classes(name: str, **others: str) -> dict[str, str]:
    """Return Hugging Face's classes of a family, as `Names.architectures`. others: those that not all families have

    >>> name_classes("Bert", pairs="BertForPreTraining")["masked"]
    'BertForMaskedLM'
    """
    ends = {
        "encoder": "Model",
        "masked": "ForMaskedLM",
        "classes": "ForSequenceClassification",
        "tags": "ForTokenClassification",
        "spans": "ForQuestionAnswering",
        "choices": "ForMultipleChoice",
    }
    return {**{holds: f"{name}{end}" for holds, end in ends.items()}, **others}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Everything that is particular to one family.

    name:              in a recipe
    model_type:        Hugging Face's; "" if it is the name
    sizes:             by name; "base" is what is taken where none is named
    objective:         what it is pre-trained by where nothing else is asked for
    max_length:        tokens of the longest sequence unless another is asked for
    segment_types, norm_epsilon, activation, dropout, attention_dropout: see `EncoderShape`
    position_from_pad: positions begin at the row after the id of the padding token, as fairseq counts them; the
                       row of that id, of words and of positions, begins as zeros
    pairs:             has a pooler and a pair head where the examples have pair labels
    first_weights:     how they are drawn, by name (`trainer.model.encoder`)
    scales_by_depth:   whether they are smaller the more layers there are
    shared_layers:     one set of weights for all layers
    shape:             further fields of `EncoderShape` that are other than BERT's
    every_global:      every so many layers, the first included, have no window; the others `window`
    rope_bases:        of rotations: of layers that see everything, and of those with a window
    pooling:           what represents a whole text, its first token ("cls") or the "mean" of all
    generators:        of a generator of each size, its hidden size as a share of the model's
    class_head:        of a text as a whole
    choice_head:       of a text that is one of several to choose from; None: as of a text as a whole
    token_head:        of every token
    span_head:         of every token, whether an answer begins or ends with it
    """

    name: str
    sizes: Mapping[str, Size]
    names: Names
    model_type: str = ""
    objective: str = "masked"
    max_length: int = 512
    segment_types: int = 2
    position_from_pad: bool = False
    norm_epsilon: float = 1e-12
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    pairs: bool = False
    first_weights: str = "truncated-normal"
    scales_by_depth: bool = False
    shared_layers: bool = False
    window: int | None = None
    every_global: int = 1
    rope_bases: tuple[float, ...] = ()
    pooling: str = "cls"
    shape: Mapping[str, Any] = field(default_factory=dict)
    generators: Mapping[str, float] = field(default_factory=dict)
    masked_head: MaskedHeadShape = MaskedHeadShape()
    class_head: ClassHeadShape = ClassHeadShape()
    choice_head: ClassHeadShape | None = None
    token_head: TokenHeadShape = TokenHeadShape()
    span_head: TokenHeadShape = TokenHeadShape(dropout=0.0)

    @property
    def names_pooling(self) -> bool:
        """True if a model's configuration names its pooling."""
        return "pooling" in self.names.config.values()

    def find_first_position(self, inputs: ModelInputs) -> int:
        """Row of the position table that a sequence's first token takes."""
        return inputs.special_ids.pad + 1 if self.position_from_pad else 0

    def has_pairs(self, inputs: ModelInputs) -> bool:
        """Tells whether a model for these examples has a pair head."""
        return self.pairs and inputs.pair_labels
