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
    """The ids of the special tokens by their role."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int

    @staticmethod
    def from_roles(roles: Mapping[str, int]) -> "SpecialIds":
        """Build the ids from a mapping of roles, such as a manifest's `special_ids`."""
        return SpecialIds(**{role: roles[role] for role in ("pad", "unk", "cls", "sep", "mask")})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The facts that a model needs about the examples.

    Attributes:
        vocab_size: The number of tokens in the vocabulary.
        special_ids: The ids of the special tokens.
        pair_labels: True if the examples have labels of pairs.
    """

    vocab_size: int
    special_ids: SpecialIds
    pair_labels: bool = field(default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """The sizes and constants of an encoder.

    Attributes:
        positions: Maximum tokens of a sequence, or rows of the position table, including those before `first_position`.
        first_position: The row of a sequence's first token in the position table.
        segment_types: Rows of the segment table. If 1, every token has the same; if 0, there is no table.
        embedding_size: Size of the embeddings. If it differs from the hidden size, a matrix connects them (Lan et al.
            2020, 3.1).
        projects: True if there is such a matrix even if the sizes are equal.
        layer_groups: Sets of weights that the layers share, in order: as many as layers, or 1 (Lan et al. 2020, 3.1).
        norm_place: "after" each residual (Vaswani et al. 2017), or "before" each part and once at the end.
        feed_forward: "mlp", or "glu": one half of the widened vector gates the other (Shazeer 2020).
        position_kind: "learned" rows of a table, or "rope" (Su et al. 2021).
        rope_bases: The base of layers without a window, and of those with one.
        windows: For each layer the number of tokens that one attends to at most, half to each side; None: all.
        biases: True if matrices and norms of the encoder have biases.
        causal: True if a token attends to itself and earlier tokens only.
        norm_epsilon: The epsilon of every norm.
        initializer_range: The standard deviation of the random weights of matrices.
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
        """Return the window of a layer, or None. `layer` is zero-based."""
        return self.windows[layer] if self.windows else None

    def count_macs(self, lengths: Int64s) -> int:
        """Count the multiply-accumulates of a forward pass over sequences of some lengths: int64 [B]."""
        hidden, tokens = self.hidden_size, int(lengths.sum())
        matrices = hidden * (4 * hidden + (3 if self.feed_forward == "glu" else 2) * self.feed_forward_size)
        projection = hidden * self.embedding_size if self.projects or self.embedding_size != hidden else 0
        windows = Counter(map(self.get_window, range(self.layers)))
        pairs = sum(layers * count_attended_pairs(lengths, window, self.causal) for window, layers in windows.items())
        return tokens * (projection + self.layers * matrices) + 2 * hidden * pairs

    def count_vocabulary_head_macs(self, places: int) -> int:
        """Count the multiply-accumulates of the head of masked tokens: a dense matrix, then the whole vocabulary."""
        return places * self.embedding_size * (self.hidden_size + self.vocab_size)

    def count_class_head_macs(self, places: int, classes: int = 2) -> int:
        """Count the multiply-accumulates of a head with a dense matrix and a few classes.

        Args:
            places: The vectors that the head reads: first tokens for pairs, all tokens for replaced tokens.
            classes: The number of classes; 1 for replaced tokens.
        """
        return places * self.hidden_size * (self.hidden_size + classes)


def count_attended_pairs(lengths: Int64s, window: int | None, causal: bool) -> int:
    """Count the pairs of a token and one it attends to, in sequences of some lengths.

    >>> count_attended_pairs(np.array([3, 2]), None, False), count_attended_pairs(np.array([4]), 2, False)
    (13, 10)
    """
    side = np.maximum(lengths - 1, 0) if window is None else np.minimum(window // 2, np.maximum(lengths - 1, 0))
    one_side = lengths * side - side * (side + 1) // 2  # the first tokens have fewer before them
    return int((lengths + (1 if causal else 2) * one_side).sum())


class Size(NamedTuple):
    """The layers, hidden size, heads and feed-forward size of a named size.

    Attributes:
        embedding_size: The size of the embeddings; None if it is the hidden size.
    """

    layers: int
    hidden_size: int
    heads: int
    feed_forward_size: int
    embedding_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedHeadShape:
    """The head of masked tokens.

    Attributes:
        activation: After its matrix; None for the encoder's activation.
        biases: True if its matrix and norm have biases.
    """

    activation: str | None = None
    biases: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHeadShape:
    """The head of a classifier: [dropout,] matrix, activation[, norm], dropout, a row for each class.

    Attributes:
        drops_first: True if there is a dropout before the matrix too.
        activation: After the matrix.
        biases: True if the matrix has biases.
        norm: True if a norm without bias follows.
        pretrained: Prefix of the pre-trained head that it takes its matrix (and norm) from; "" for random weights.
        dropout: None for that of hidden states.
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

    Attributes:
        pooler: What comes first, for each token separately; None for nothing.
        dropout: None for that of hidden states.
    """

    pooler: ClassHeadShape | None = None
    dropout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Hugging Face's names of a family's parameters, module by module.

    Attributes:
        encoder: Maps our modules below "encoder" to theirs; `{}` is a layer's number. If there are several, ours stacks
            them.
        heads: For each of our heads, maps its modules and parameters to theirs.
        tied: Maps parameters that some files store in addition to the parameters they equal.
        architectures: Their classes by what a folder holds: "encoder", "masked", "pairs" (with a pair head), or the
            heads of a task ("classes", "tags", "spans", "choices").
        config: Maps their keys to our values (see `trainer.huggingface.config`), in the order of writing.
        defaults: The values of their keys that a configuration may omit.
        constants: Keys with the same value in all models of the family that are supported here; they are written.
        fixed: Keys as `constants`, which are not written.
        written: Keys that are written with one value and not checked.
        activations: Their names of our activations, if they are not the usual ones.
        begin_and_end: True if [CLS] and [SEP] are also the begin and end of a text.
        normalize_config: Converts a newer form of configuration to the one expected here. It raises ValueError with the
            key that is not supported.
        ignored: Prefixes of parameters that a file may hold and that our models do not have.
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
    """Build the names of Hugging Face's classes of a family, as `Names.architectures`.

    Args:
        name: The beginning of each class name.
        others: Further classes, which not all families have.

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

    Attributes:
        name: Its name in a recipe.
        sizes: Its sizes by name; "base" is the default.
        names: Hugging Face's names of its parameters.
        model_type: Hugging Face's name of the family; "" if it is `name`.
        objective: The kind of objective that is the default.
        max_length: The default maximum number of tokens of a sequence.
        segment_types, norm_epsilon, activation, dropout, attention_dropout: See `EncoderShape`.
        position_from_pad: True if positions begin at the row after the padding token's id, as fairseq counts them. The
            row of that id, of words and of positions, is initialized to zero.
        pairs: True if models have a pooler and a pair head for examples with pair labels.
        first_weights: The name of the random initialization (`trainer.model.encoder`).
        scales_by_depth: True if random weights are smaller the more layers there are.
        shared_layers: True if all layers share one set of weights.
        window: The window of layers that have one; None if none has.
        every_global: Every n-th layer, the first included, has no window.
        rope_bases: The rotation bases of layers without a window, and of those with one.
        pooling: What represents a whole text: its first token ("cls") or the "mean" of all.
        shape: Further fields of `EncoderShape` that differ from BERT's.
        generators: For each size, the hidden size of a generator as a share of the model's.
        masked_head: The head of masked tokens.
        class_head: The head of a whole text.
        choice_head: The head of a text that is one of several to choose from; None for `class_head`.
        token_head: The head of every token.
        span_head: The head that marks the tokens at which an answer begins and ends.
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
        """Return the row of a sequence's first token in the position table."""
        return inputs.special_ids.pad + 1 if self.position_from_pad else 0

    def has_pairs(self, inputs: ModelInputs) -> bool:
        """Return True if a model for these inputs has a pair head."""
        return self.pairs and inputs.pair_labels
