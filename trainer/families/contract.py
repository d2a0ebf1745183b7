"""Families and shapes of encoders, described without torch.

A `Family` holds everything in which one family differs from another, and is the only place that knows its name. The
modules in `trainer.model` read the properties of an `EncoderShape`, and `trainer.huggingface` reads the family's tables
of names. Neither checks which family it is.
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
    """The ids of the special tokens, named by role."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int

    @staticmethod
    def from_roles(roles: Mapping[str, int]) -> "SpecialIds":
        """Build the ids from a mapping with the keys "pad", "unk", "cls", "sep" and "mask".

        Raises KeyError if one is missing.
        """
        return SpecialIds(**{role: roles[role] for role in ("pad", "unk", "cls", "sep", "mask")})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The properties of the vocabulary and the examples that determine a model's inputs.

    Attributes:
        vocab_size: The number of tokens in the vocabulary.
        special_ids: The ids of the special tokens.
        pair_labels: True if the examples have pair labels.
    """

    vocab_size: int
    special_ids: SpecialIds
    pair_labels: bool = field(default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """The sizes and constants of an encoder.

    Attributes:
        positions: The maximum number of tokens of a sequence. If there is a position table, its number of rows,
            including those before `first_position`.
        first_position: The row of the position table for the first token of a sequence.
        segment_types: Number of rows of the segment table. If 1, all tokens share one row; if 0, there is no table.
        embedding_size: The size of the embeddings. If it differs from the hidden size, a matrix projects them to it
            (Lan et al. 2020, 3.1).
        projects: True if there is such a matrix even if the sizes are equal.
        layer_groups: The number of different sets of layer weights: the number of layers, or 1 if all layers share one
            (Lan et al. 2020, 3.1).
        norm_place: "after" each residual (Vaswani et al. 2017), or "before" each part and once at the end.
        feed_forward: "mlp", or "glu", in which one half of the widened vector gates the other (Shazeer 2020).
        position_kind: "learned" (a table of vectors), or "rope" (Su et al. 2021).
        rope_bases: Two bases of rotary embeddings, for layers without a window and for layers with one.
        windows: For each layer, the maximum number of tokens that a token attends to, half on each side; None for all
            tokens.
        biases: True if matrices and norms of the encoder have biases.
        causal: True if a token attends only to itself and earlier tokens.
        norm_epsilon: The epsilon of every norm.
        initializer_range: The standard deviation of randomly initialized matrices.
        sinusoidal: True if a table of learned positions is initialized with sinusoids (Vaswani et al. 2017, section
            3.5), False if it is initialized randomly.
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
    sinusoidal: bool = False

    def get_window(self, layer: int) -> int | None:
        """Return the size of a layer's attention window in tokens, or None if the layer attends to all tokens.

        `layer` is zero-based.
        """
        return self.windows[layer] if self.windows else None

    def count_macs(self, lengths: Int64s) -> int:
        """Count the multiply-accumulates of a forward pass of the encoder over sequences without padding.

        `lengths` is int64 [B], the number of tokens of each sequence.
        """
        hidden, tokens = self.hidden_size, int(lengths.sum())
        matrices = hidden * (4 * hidden + (3 if self.feed_forward == "glu" else 2) * self.feed_forward_size)
        projection = hidden * self.embedding_size if self.projects or self.embedding_size != hidden else 0
        windows = Counter(map(self.get_window, range(self.layers)))
        pairs = sum(layers * count_attended_pairs(lengths, window, self.causal) for window, layers in windows.items())
        return tokens * (projection + self.layers * matrices) + 2 * hidden * pairs

    def count_vocabulary_head_macs(self, places: int) -> int:
        """Count the multiply-accumulates of the masked-token head (dense layer and projection onto the vocabulary).

        `places` is the number of token positions to which the head is applied.
        """
        return places * self.embedding_size * (self.hidden_size + self.vocab_size)

    def count_class_head_macs(self, places: int, classes: int = 2) -> int:
        """Count the multiply-accumulates of a classification head: a dense layer, then a projection onto the classes.

        Args:
            places: The number of vectors that the head is applied to: one per pair, or one per token for replaced
                tokens.
            classes: The number of classes; 1 for replaced tokens.
        """
        return places * self.hidden_size * (self.hidden_size + classes)


def count_attended_pairs(lengths: Int64s, window: int | None, causal: bool) -> int:
    """Count the (token, attended token) pairs in sequences of the given lengths. A token also attends to itself.

    Args:
        lengths: int64 [B], in tokens.
        window: The maximum number of other tokens that a token attends to, half on each side; None for all.
        causal: True if a token attends only to itself and earlier tokens.

    >>> count_attended_pairs(np.array([3, 2]), None, False), count_attended_pairs(np.array([4]), 2, False)
    (13, 10)
    """
    side = np.maximum(lengths - 1, 0) if window is None else np.minimum(window // 2, np.maximum(lengths - 1, 0))
    one_side = lengths * side - side * (side + 1) // 2  # the first tokens have fewer before them
    return int((lengths + (1 if causal else 2) * one_side).sum())


class Size(NamedTuple):
    """The number of layers, hidden size, number of heads and feed-forward size of a named model size.

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
    """The shape of the masked-token head (dense layer, activation, norm, projection onto the vocabulary).

    Attributes:
        activation: The activation after the dense layer; None for the encoder's activation.
        biases: True if the dense layer and the norm have biases.
    """

    activation: str | None = None
    biases: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHeadShape:
    """The shape of a classification head: [dropout,] dense layer, activation[, norm], dropout, projection to classes.

    Attributes:
        drops_first: True if there is also dropout before the dense layer.
        activation: The activation after the dense layer.
        biases: True if the dense layer has biases.
        norm: True if a norm without bias follows.
        pretrained: The name prefix of a pre-trained head, to reuse its dense layer (and norm); "" for random weights.
        dropout: The dropout probability; None to use the one for hidden states.
    """

    drops_first: bool = False
    activation: str = "tanh"
    biases: bool = True
    norm: bool = False
    pretrained: str = ""
    dropout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHeadShape:
    """The shape of a head applied to each token: [dense layer, activation, norm,] dropout, projection onto the classes.

    Attributes:
        pooler: The layers before the dropout, applied to each token separately; None for no such layers.
        dropout: The dropout probability; None to use the one for hidden states.
    """

    pooler: ClassHeadShape | None = None
    dropout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Maps a family's parameters, module by module, to the names in Hugging Face's implementation ("theirs" below).

    Attributes:
        encoder: Maps our modules below "encoder" to theirs; `{}` stands for a layer's index. If there are several
            names, our parameter stacks theirs.
        heads: For each of our heads, maps its modules and parameters to theirs.
        tied: Maps parameters that some files store redundantly to the parameters that they equal.
        architectures: Their class names, keyed by what the model folder contains: "encoder", "masked", "pairs" (with a
            pair head), or the head of a task ("classes", "tags", "spans", "choices").
        config: Maps their configuration keys to our values (see `trainer.huggingface.config`), in the order of writing.
        defaults: The values of their keys that a configuration may omit.
        constants: Keys that have the same value in all supported models of the family and are written.
        fixed: Like `constants`, but these keys are not written.
        written: Keys that are written with a fixed value, but not checked when a configuration is read.
        activations: Maps our activations to their names if these differ from the usual ones.
        begin_and_end: True if [CLS] and [SEP] also serve as begin-of-sequence and end-of-sequence tokens.
        normalize_config: Converts a configuration from the newer format to the one expected here. It raises ValueError
            with the name of a key that is not supported.
        ignored: Name prefixes of parameters that a file may hold but our models do not have.
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
    """Build the names of a family's Hugging Face classes, as used in `Names.architectures`.

    Args:
        name: The prefix shared by the class names.
        others: Full class names for the model types that only some families have, keyed by what the model folder
            contains, such as "pairs" or "next".

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
    """A model family: its sizes, defaults, parameter names and heads.

    Attributes:
        name: The name used in recipes.
        sizes: The sizes by name; "base" is the default.
        names: Hugging Face's names of the parameters.
        model_type: Hugging Face's name of the family; "" if it equals `name`.
        objective: The kind of the default objective.
        max_length: The default maximum number of tokens of a sequence.
        segment_types, norm_epsilon, activation, dropout, attention_dropout: See `EncoderShape`.
        position_from_pad: True if positions start at the padding token's id plus one, as in fairseq. The rows with the
            padding token's id in the word and position tables are initialized to zero.
        pairs: True if models have a pooler and a pair head for examples with pair labels.
        first_weights: The name of the random initialization (`trainer.model.encoder`).
        scales_by_depth: True if the random weights get smaller as the number of layers grows.
        shared_layers: True if all layers share one set of weights.
        window: The window, in tokens, of the layers that have one; None if no layer has a window.
        every_global: Every n-th layer, starting with the first, has no window.
        rope_bases: Two bases of rotary embeddings, for layers without a window and for layers with one.
        pooling: The vector that represents a whole text: that of the first token ("cls") or the "mean" over all tokens.
        shape: Other fields of `EncoderShape` that differ from BERT's.
        generators: The ratio of the generator's hidden size to the model's, by size name.
        masked_head: The masked-token head.
        class_head: The head that classifies a whole text.
        choice_head: The head that scores each of several texts to choose from; None to use `class_head`.
        token_head: The head that classifies each token.
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
    def has_position_table(self) -> bool:
        """True if positions are the learned rows of a table."""
        return bool(self.shape.get("position_kind", "learned") == "learned")

    @property
    def names_pooling(self) -> bool:
        """True if a model's configuration has a key for the pooling mode ("cls" or "mean")."""
        return "pooling" in self.names.config.values()

    def find_first_position(self, inputs: ModelInputs) -> int:
        """Return the row of the position table that belongs to the first token of a sequence.

        It is the padding token's id plus one if `position_from_pad` is set, otherwise 0.
        """
        return inputs.special_ids.pad + 1 if self.position_from_pad else 0

    def has_pairs(self, inputs: ModelInputs) -> bool:
        """Return True if a model of this family with these inputs has a head that classifies pairs of sentences."""
        return self.pairs and inputs.pair_labels
