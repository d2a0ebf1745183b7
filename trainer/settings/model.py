"""The `[model]` table of a recipe: the family and size of the encoder, and its pre-training objective. No torch.

Every field is part of the model's fingerprint.

Families are defined in `trainer.families.contract`, and objectives in `trainer.objectives.contract`. A package can add
one with the entry point `cloze.families` or `cloze.objectives`, which is searched only if a name is not built in. The
`version` of an objective and the package's version are part of the fingerprint of its models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from corpora.entry_points import Kinds, describe_package, load_entry_point
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.settings import bind_settings, check_choice, check_range, later_field, limit_field, to_settings_json
from trainer.families.albert import ALBERT
from trainer.families.bert import BERT
from trainer.families.contract import DEVIATION, EncoderShape, Family, ModelInputs, Size
from trainer.families.distilbert import DISTILBERT
from trainer.families.electra import ELECTRA
from trainer.families.modernbert import MODERNBERT
from trainer.families.roberta import ROBERTA
from trainer.objectives.contract import ModelPart, ObjectiveSettings
from trainer.objectives.distillation import DistillationObjective
from trainer.objectives.masked import MaskedObjective
from trainer.objectives.replaced import ReplacedObjective

FAMILY_GROUP = "cloze.families"
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for family in (BERT, ROBERTA, ELECTRA, ALBERT, DISTILBERT, MODERNBERT)}
)
_FAMILY_KINDS = Kinds(what="family", key="model.family", group=FAMILY_GROUP, ours=FAMILIES)
OBJECTIVE_GROUP = "cloze.objectives"
_OURS = (MaskedObjective, ReplacedObjective, DistillationObjective)
OBJECTIVES: Mapping[str, Any] = MappingProxyType({each.kind: each for each in _OURS})
_MEMBERS = ("version", "builder", "check", "check_shards", "list_terms", "read", "count_targets", "list_parts")
_OBJECTIVE_KINDS = Kinds(
    what="objective", key="model.objective.kind", group=OBJECTIVE_GROUP, ours=OBJECTIVES, members=_MEMBERS
)
DEFAULT_GENERATOR_WIDTH = 0.25  # of a generator, where the family's row does not give the size
SIZES = ("layers", "hidden_size", "heads", "feed_forward_size", "max_length", "embedding_size", "layer_groups")
BOUNDS = {
    **dict.fromkeys((*SIZES, "window", "every_global"), (1, 1 << 20)),
    **dict.fromkeys(("global_base", "local_base"), (1, 1e12)),
    "norm_epsilon": (1e-12, 1e-2),
}
FAMILY_FIELDS = {
    "window": "window",
    "every_global": "window",
    "global_base": "bases",
    "local_base": "bases",
    "pooling": "pooling",
}
POOLINGS = ("cls", "mean")
INITIAL_POSITIONS = ("random", "sinusoidal")


def find_family(name: str) -> Family:
    """Find a model family by name: one of `FAMILIES`, or a plugin's.

    Raises:
        InputError: If the name is unknown, or if the plugin's family is invalid.
    """
    if name in FAMILIES:
        return FAMILIES[name]
    point = _FAMILY_KINDS.find_entry_point(name)
    family = load_entry_point(point)
    if not isinstance(family, Family) or family.name != name:
        raise InputError(
            f"The family {name!r} of {describe_package(point)} is not a `Family` of that name: this is a bug in its "
            "package."
        )
    return family


def read_objective(table: Mapping[str, Json], table_name: str) -> ObjectiveSettings:
    """Build the settings of an objective from a recipe's table. Raises InputError if a key or value is invalid.

    Args:
        table: The table, with its `kind`.
        table_name: The name of the table in the recipe, for messages.
    """
    if not isinstance(table.get("kind"), str):
        raise InputError(f"{table_name} does not name its `kind`: one of {', '.join(OBJECTIVES)}.")
    own = {key: value for key, value in table.items() if key != "kind"}
    settings: ObjectiveSettings = bind_settings(_OBJECTIVE_KINDS.find(str(table["kind"])), own, table_name)
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The `[model]` table: the encoder and its pre-training objective. None means the default of the size or family.

    family:     the architecture: "bert", "roberta", "electra", "albert", "distilbert", "modernbert"
    start:      the model that training starts from instead of random weights: a Hugging Face folder, a model of this
                store as "models/NAME" (the newest) or "models/NAME/FINGERPRINT", or a release (STORE@NAME). Family and
                sizes are read from it, so leave them out here
    size:       name of the size, which determines layers, hidden size, heads and feed-forward size; each of these can
                be overridden
    layers, hidden_size, heads, feed_forward_size: override the values of the size
    max_length: maximum number of tokens of a sequence; None for the family's default (512; ModernBERT 8,192)
    activation: "gelu" (erf), "gelu-tanh" or "relu"; "" for the family's default
    dropout, attention_dropout: dropout of hidden states and embeddings, and of attention probabilities; None for the
                family's default
    embedding_size: size of the word embeddings, if different from the hidden size; None for the default of the size
    layer_groups: number of sets of weights that the layers share; None for the family's default (ALBERT 1, the others
                one set per layer)
    initializer_range: standard deviation of the initial weights of matrices and tables. With a larger value, a
                narrow model is sooner better than guessing by token frequency
    initial_positions: how a table of learned positions is initialized: "random", or "sinusoidal" (Vaswani et al. 2017),
                with which a narrow model learns sooner which words are near
    norm_epsilon: epsilon of all norms
    window:     maximum number of tokens that a layer with a window attends to, half on each side (ModernBERT)
    every_global: how often a layer has no window: with 3, these are the first, fourth, seventh ... (ModernBERT)
    global_base, local_base: bases of the rotary embeddings in layers without and with a window (ModernBERT)
    pooling:    what heads for whole texts read: "cls" (the first token) or "mean" (the mean of all tokens) (ModernBERT)
    objective:  a table with the pre-training objective: its `kind`, and the settings of that kind; None for the
                family's default
    """

    family: str = "bert"
    size: str = "base"
    layers: int | None = None
    hidden_size: int | None = None
    heads: int | None = None
    feed_forward_size: int | None = None
    max_length: int | None = None
    activation: str = ""
    dropout: float | None = None
    attention_dropout: float | None = None
    embedding_size: int | None = later_field(None)
    layer_groups: int | None = later_field(None)
    initializer_range: float = later_field(DEVIATION)
    initial_positions: str = later_field("random")
    norm_epsilon: float | None = later_field(None)
    window: int | None = later_field(None)
    every_global: int | None = later_field(None)
    global_base: float | None = later_field(None)
    local_base: float | None = later_field(None)
    pooling: str | None = later_field(None)
    objective: Mapping[str, Any] | None = later_field(None)
    start: str | None = limit_field(
        None
    )  # a name; what decides the weights is the content, which the model's stage adds

    def __post_init__(self) -> None:
        family = self.family_row
        check_choice("model.size", self.size, tuple(family.sizes))
        for name in ("activation", "dropout", "attention_dropout"):
            if getattr(self, name) in ("", None):
                object.__setattr__(self, name, getattr(family, name))
        check_choice("model.activation", self.activation, ("gelu", "gelu-tanh", "relu"))
        for name in ("dropout", "attention_dropout"):
            check_range(f"model.{name}", getattr(self, name), 0, 0.9)
        check_range("model.initializer_range", self.initializer_range, 1e-4, 1)
        check_choice("model.initial_positions", self.initial_positions, INITIAL_POSITIONS)
        if self.initial_positions != "random" and not family.has_position_table:
            raise InputError(
                f"model.initial_positions = {self.initial_positions!r}, but {self.family} models have no table of "
                "positions: leave it out."
            )
        for name, (least, most) in BOUNDS.items():
            if getattr(self, name) is not None:
                check_range(f"model.{name}", getattr(self, name), least, most)
        self._check_family_fields()
        layers, hidden_size, heads, _ = self.shape
        if hidden_size % heads:
            raise InputError(
                f"model.hidden_size = {hidden_size} is not a multiple of model.heads = {heads}: "
                "every head takes an equal share of the hidden size."
            )
        if layers % self.groups:
            raise InputError(
                f"model.layers = {layers} is not a multiple of model.layer_groups = {self.groups}: every set of "
                "weights is for as many layers as the others."
            )
        self.objective_settings.check(family)

    def _check_family_fields(self) -> None:
        """Raise InputError if a setting is given that the family does not have, or if the pooling is unknown."""
        if self.pooling is not None:
            check_choice("model.pooling", self.pooling, POOLINGS)
        has = {
            "window": self.family_row.window,
            "bases": self.family_row.rope_bases,
            "pooling": self.family_row.names_pooling,
        }
        for name, part in FAMILY_FIELDS.items():
            if getattr(self, name) is not None and not has[part]:
                raise InputError(f"model.{name} is set, but {self.family} models do not have it: leave it out.")

    @property
    def family_row(self) -> Family:
        """The `Family` of the model, with its sizes, defaults and parameter names."""
        return find_family(self.family)

    @property
    def objective_settings(self) -> ObjectiveSettings:
        """The settings of the pre-training objective, or the family's default. Raises InputError if invalid."""
        return read_objective(self.objective or {"kind": self.family_row.objective}, "model.objective")

    @property
    def _size(self) -> Size:
        """The values of the named size: layers, hidden size, heads, feed-forward size and embedding size."""
        return self.family_row.sizes[self.size]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The number of layers, the hidden size, the number of attention heads and the feed-forward size."""
        layers, hidden_size, heads, feed_forward_size, _ = self._size
        return (
            self.layers or layers,
            self.hidden_size or hidden_size,
            self.heads or heads,
            self.feed_forward_size or feed_forward_size,
        )

    @property
    def embedding(self) -> int:
        """The number of dimensions of the word embeddings."""
        return self.embedding_size or self._size.embedding_size or self.shape[1]

    @property
    def groups(self) -> int:
        """The number of separate sets of layer weights: the number of layers unless layers share weights."""
        return self.layer_groups or (1 if self.family_row.shared_layers else self.shape[0])

    @property
    def positions(self) -> int:
        """The maximum number of tokens in a sequence."""
        return self.max_length or self.family_row.max_length


def to_model_json(settings: ModelSettings) -> dict[str, Json]:
    """Return everything that affects a model's weights as a JSON object, from which its fingerprint is computed.

    It contains the settings that differ from their defaults. For families and objectives from plugins, `family_package`
    and `objective_package` name the package and its version, and `objective_version` is added if it is above 1.
    """
    objective = settings.objective_settings
    more = {
        "family_package": _FAMILY_KINDS.find_package(settings.family),
        "objective_package": _OBJECTIVE_KINDS.find_package(objective.kind),
        "objective_version": objective.version if objective.version > 1 else 0,
    }
    values = {**to_settings_json(settings), **{name: value for name, value in more.items() if value}}
    if settings.objective is not None:
        objective_fields = fields(objective)  # type: ignore[arg-type]  # no protocol marks a class as a dataclass
        limits = {field.name for field in objective_fields if field.metadata.get("limit")}
        values["objective"] = {key: value for key, value in values["objective"].items() if key not in limits}
    return values


def build_encoder_shape(settings: ModelSettings, inputs: ModelInputs) -> EncoderShape:
    """Build the shape of an encoder (its sizes and constants) from the family's defaults and the settings.

    Settings override the defaults. `inputs` has the vocabulary size and the id of the padding token.
    """
    family = settings.family_row
    layers, hidden_size, heads, feed_forward_size = settings.shape
    first_position = family.find_first_position(inputs)
    return EncoderShape(
        **{
            "vocab_size": inputs.vocab_size,
            "positions": first_position + settings.positions,
            "first_position": first_position,
            "segment_types": family.segment_types,
            "layers": layers,
            "hidden_size": hidden_size,
            "heads": heads,
            "feed_forward_size": feed_forward_size,
            "embedding_size": settings.embedding,
            "layer_groups": settings.groups,
            "activation": settings.activation,
            "dropout": settings.dropout,
            "attention_dropout": settings.attention_dropout,
            "norm_epsilon": settings.norm_epsilon or family.norm_epsilon,
            "initializer_range": settings.initializer_range,
            "sinusoidal": settings.initial_positions == "sinusoidal",
            "windows": _list_windows(settings, layers),
            "rope_bases": list_rope_bases(settings),
            **family.shape,
        }
    )


def build_part_settings(settings: ModelSettings, part: ModelPart) -> ModelSettings:
    """Build the settings of a part, such as ELECTRA's generator, as a separate model with the same number of layers.

    `part.width` is the ratio of the part's hidden size to the model's. If it is None, the family's ratio for the size
    is used. A part of width 1 has the settings of the whole model.
    """
    width = (
        settings.family_row.generators.get(settings.size, DEFAULT_GENERATOR_WIDTH) if part.width is None else part.width
    )
    if width == 1:
        return settings
    hidden_size, heads = choose_width(settings.shape[1] * width)
    return replace(
        settings,
        hidden_size=hidden_size,
        heads=heads,
        feed_forward_size=4 * hidden_size,
        embedding_size=settings.embedding,
        objective={"kind": part.architecture},
    )


def choose_width(hidden_size: float) -> tuple[int, int]:
    """Choose a valid hidden size close to a given one, and the number of attention heads, as (hidden size, heads).

    There is one head for every 64 dimensions, but at least one, and each head has a multiple of 8 dimensions.

    >>> choose_width(768 / 3), choose_width(256 * 0.25), choose_width(100)
    ((256, 4), (64, 1), (96, 1))
    """
    num_heads = max(1, round(hidden_size) // 64)
    return max(1, round(hidden_size / (8 * num_heads))) * 8 * num_heads, num_heads


def _list_windows(settings: ModelSettings, layers: int) -> tuple[int | None, ...]:
    """Return the attention window of each layer in tokens; None for a layer that attends to all tokens.

    The result is empty if no layer has a window.
    """
    window = settings.window or settings.family_row.window
    every = settings.every_global or settings.family_row.every_global
    return () if window is None else tuple(window if layer % every else None for layer in range(layers))


def list_rope_bases(settings: ModelSettings) -> tuple[float, ...]:
    """Return the bases of the rotary embeddings as (base of layers without a window, base of layers with one).

    The result is empty if positions are not rotary.
    """
    own = (settings.global_base, settings.local_base)
    return tuple(ours or usual for ours, usual in zip(own, settings.family_row.rope_bases, strict=False))
