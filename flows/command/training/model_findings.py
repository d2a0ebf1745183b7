"""Says what makes the training of a Hugging Face model slow or wrong, and what each costs: `cloze doctor FOLDER`.

Costs are computed from the sizes in the folder: FLOPs as `trainer.families.contract` counts them, bytes of what a step
keeps. They are of a step of `SEQUENCES` sequences as long as the model reads, up to `LONGEST` tokens, of which
`MASKED` are to be guessed. No torch is needed. Cost: some tenths of a second, and a second for each 2 GB of weights,
which are searched for numbers that are none.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from flows.command.machine.doctor import Finding, fail, ok, warn
from flows.command.training.gpu_findings import card
from flows.command.training.model_folder import BYTES, ModelFolder, Tensors, read_model_folder
from flows.recipes.recipe import shipped_recipes
from flows.run.record.counts_text import counted
from flows.run.record.ledger_balance import readable_bytes
from trainer.auto_settings import AMPERE, Hardware, padding_reason
from trainer.families.contract import EncoderShape
from trainer.huggingface.config import CONFIG, ROLES, special_ids
from trainer.huggingface.embeddings import NUMPY_TYPES, Stored, has_words

SEQUENCES, LONGEST, MASKED = 32, 512, 0.15
SHORTEST_SHARE = 16  # texts of the padded batch are evenly from a sixteenth of the longest up to it
PASSES_FLOPS = 6  # of a multiplication with its addition: two, forward and twice backward
FLOAT32, TF32, BFLOAT16 = 19.5e12, 156e12, 312e12  # FLOPs a second of an A100, by its data sheet
MULTIPLE = 64
UNSET_LENGTH = 1_000_000  # transformers writes 10^30 where a tokenizer has no length
BLOCK = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalStep:
    """A step of training whose costs are told."""

    shape: EncoderShape

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return min(LONGEST, self.shape.positions - self.shape.first_position)

    @property
    def tokens(self) -> int:
        """Places in all sequences."""
        return SEQUENCES * self.length

    @property
    def lengths(self) -> Int64s:
        """The lengths of all sequences."""
        return np.full(SEQUENCES, self.length, np.int64)

    def flops(self, places: int) -> int:
        """Return the FLOPs of a step whose head reads so many places."""
        return PASSES_FLOPS * (self.shape.macs(self.lengths) + self.shape.vocabulary_head_macs(places))


def names_model(name: str) -> bool:
    """Return whether an argument is a model's folder and no recipe: one that comes with Cloze may be called like it."""
    folder = Path(name)
    return folder.is_dir() and ((folder / CONFIG).is_file() or name not in shipped_recipes())


def model_findings(path: Path, seen: Hardware | None = None) -> list[Finding]:
    """Return what there is to know about a model's folder. seen: the GPU of this machine; None: an Ampere is assumed

    Raises InputError where the folder has no configuration that can be read.
    """
    folder = read_model_folder(path)
    seen = seen or card() or Hardware(device="cuda", name="A100", capability=AMPERE)
    return [
        _model(folder),
        *(fail(name, fact.rstrip("."), _REPAIR[name]) for name, fact in folder.faults),
        *_weights(folder),
        *_tensors(folder),
        *_vocabulary(folder),
        *_tokenizer(folder),
        *(_costs(folder, TypicalStep(shape=folder.shape), seen) if folder.shape is not None else ()),
    ]


_REPAIR = {
    "weights": "copy the folder again, or save the model again with save_pretrained",
    "tokenizer": "save the model's own tokenizer there, with save_pretrained",
}


_OLDER = "commands read it as it is: they keep a copy in today's form, and run nothing of it"


def _model(folder: ModelFolder) -> Finding:
    """Say what model it is, and whether it can be trained here."""
    shape, called = folder.shape, str(folder.config.get("model_type") or "a model without a type")
    if shape is None:
        return fail("model", f"{called}: {folder.refused.rstrip('.')}", "use a model of these families")
    fact = (
        f"{called}: {shape.layers} layers of {shape.hidden_size:,}, {counted(shape.heads, 'head')}, "
        f"{shape.vocab_size:,} tokens, {shape.positions - shape.first_position:,} positions, "
        f"{counted(folder.parameters, 'parameter')}"
    )
    if not folder.refused:
        return ok("model", fact)
    if "model_type" not in folder.config:
        return warn("model", f"{fact}; its config.json has no model_type", _OLDER)
    remedy = "what follows is of its sizes alone; to train it here, use a model of these families"
    return warn("model", f"{fact}; {folder.refused.rstrip('.')}", remedy)


# The weights.


def _weights(folder: ModelFolder) -> Iterator[Finding]:
    """Say in which form the weights are, and in which precision."""
    if folder.pickled:
        fact = f"{', '.join(folder.pickled[:2])}: pickled, which can hold code, and is not looked into"
        yield warn("weights", fact, _OLDER)
    elif len(folder.files) > 1:
        yield warn("weights", f"{len(folder.files)} files", _OLDER)
    kinds = Counter[str]()
    for tensor in folder.tensors.values():
        kinds[tensor.kind] += prod(tensor.shape) if tensor.kind in NUMPY_TYPES else 0
    kinds = +kinds
    if not kinds:
        return
    size = sum(BYTES[kind] * number for kind, number in kinds.items())
    parts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
    if len(kinds) > 1:
        remedy = "save the model in one type; training here reads all of it as float32"
        yield warn("types", f"numbers of {len(kinds)} types ({parts}), {readable_bytes(size)}", remedy)
    named = folder.config.get("dtype") or folder.config.get("torch_dtype")
    usual = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}.get(str(named))
    if usual is not None and usual not in kinds:
        fact = f"config.json says {named}, and the weights are {parts}"
        yield warn("types", fact, "save the model again in the type that it was trained in")
    if "F32" not in kinds and {"F16", "BF16"} & kinds.keys():
        fact = f"{readable_bytes(size)} in half precision: {_rounded(kinds)}"
        yield warn("half", fact, "training here keeps float32 weights; begin with those in float32 if any")


def _rounded(kinds: Counter[str]) -> str:
    """Return what is lost to an optimizer that updates weights of half precision in place."""
    digits = 8 if "BF16" in kinds else 11
    return f"an update under 1/{2**digits} of a weight is lost where it is trained in that type"


def _tensors(folder: ModelFolder) -> Iterator[Finding]:
    """Say what the tensors contradict: numbers that are none, shapes, layers, a head that is missing."""
    bad = [f"{tensor.name} ({number:,})" for file in folder.files for tensor, number in _not_finite(file)]
    if bad:
        fact = f"{counted(len(bad), 'tensor')} with numbers that are none (NaN or infinite): {', '.join(bad[:3])}"
        yield fail("numbers", fact, "every loss will be NaN: take an older checkpoint")
    tensors, family = folder.tensors, folder.family
    if not tensors or family is None or folder.shape is None:
        return
    missing = _missing(folder)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        fact = f"{missing[0]}{more} of the encoder in config.json is not in the weights"
        yield fail("tensors", fact, "other tools draw them at random: copy or save the model again")
    masked = family.names.heads["masked_head"]["dense"]
    if f"{masked}.weight" not in tensors and not missing and family.objective == "masked":
        head = folder.shape.embedding_size * (folder.shape.hidden_size + 1) + folder.shape.vocab_size
        fact = f"no head for masked tokens: {head:,} parameters begin at random when pre-training goes on"
        yield warn("head", fact, "use the checkpoint that was saved with it, ...ForMaskedLM, if there is one")
    doubled = [tensors[name] for name in family.names.tied if name in tensors]
    if size := sum(tensor.stop - tensor.start for tensor in doubled if len(tensor.shape) > 1):
        fact = f"{doubled[0].name} is stored next to the embeddings that it is tied to: {readable_bytes(size)} twice"
        yield warn("tied", fact, "training here ties them, and writes one")


def _not_finite(file: Tensors) -> Iterator[tuple[Stored, int]]:
    """Yield the tensors of a file with NaN or infinite numbers, and how many."""
    for tensor in file.stored:
        size: int = prod(tensor.shape)
        if tensor.kind in NUMPY_TYPES and size:
            place = file.begin + tensor.start
            numbers: Any = np.memmap(file.path, NUMPY_TYPES[tensor.kind], "r", place, (size,))
            blocks = (numbers[start : start + BLOCK] for start in range(0, size, BLOCK))
            if count := sum(_count_not_finite(block, tensor.kind) for block in blocks):
                yield tensor, count


def _count_not_finite(numbers: Any, kind: str) -> int:
    if kind == "BF16":  # as whole numbers: all bits of the exponent
        return int(((numbers & 0x7F80) == 0x7F80).sum())
    return int((~np.isfinite(numbers)).sum())


def _missing(folder: ModelFolder) -> list[str]:
    """Return the modules of the encoder that have no tensor."""
    assert folder.family is not None and folder.shape is not None
    first = folder.family.names.encoder["embeddings.word"][0].split(".")[0] + "."
    names = {name if name.startswith(first) else first + name for name in folder.tensors}
    modules = {name.rpartition(".")[0] for name in names}
    groups = range(folder.shape.layer_groups)
    wanted = [
        theirs.replace("{}", str(number))
        for ours, table in folder.family.names.encoder.items()
        if not (ours == "layers.{}.attention_norm" and folder.family.name == "modernbert")  # its first layer has none
        for theirs in table
        for number in (groups if "{}" in theirs else (0,))
    ]
    return [module for module in wanted if module not in modules]


# The vocabulary and its tokenizer.


def _vocabulary(folder: ModelFolder) -> Iterator[Finding]:
    """Say where the vocabulary, its embedding and the configuration differ."""
    shape, vocabulary = folder.shape, folder.vocabulary
    rows = next((each.shape[0] for name, each in folder.tensors.items() if has_words(name) and each.shape), None)
    if shape is None:
        return
    if rows is not None and rows != shape.vocab_size:
        fact = f"config.json gives {shape.vocab_size:,} tokens, and the embedding has {rows:,} rows"
        yield fail("vocabulary", fact, "set vocab_size to the rows that the model was trained with")
    rows = shape.vocab_size if rows is None else rows
    if vocabulary is not None:
        yield from _rows(vocabulary.size, rows, shape)
    if shape.vocab_size % MULTIPLE:
        padded = -(-shape.vocab_size // MULTIPLE) * MULTIPLE
        extra = readable_bytes((padded - shape.vocab_size) * shape.embedding_size * 4)
        slow = "; in bfloat16 rows do not begin at 16 bytes, as fast kernels ask for" if shape.vocab_size % 8 else ""
        fact = f"{shape.vocab_size:,} tokens are no multiple of {MULTIPLE}: the head has no whole tiles on a GPU{slow}"
        remedy = f"{padded:,} rows are {extra} more: [vocabulary] size, or elsewhere resize_token_embeddings"
        yield warn("multiple", fact, remedy)


def _rows(size: int, rows: int, shape: EncoderShape) -> Iterator[Finding]:
    """Compare the tokens of a vocabulary with the rows of its embedding."""
    if size > rows:
        fact = f"the tokenizer has {size:,} tokens, and the embedding {rows:,} rows: ids from {rows:,} on have none"
        yield fail("vocabulary", fact, "such an id ends training with an index error: save the model's own tokenizer")
    elif rows - size >= MULTIPLE:
        unused, row = rows - size, shape.embedding_size * 4
        fact = (
            f"the tokenizer has {size:,} tokens, and the embedding {rows:,} rows: {unused:,} never occur, "
            f"{readable_bytes(4 * unused * row)} with AdamW, {unused / rows:.1%} of the head"
        )
        yield warn("vocabulary", fact, "`cloze vocabulary adapt` gives them to the words of a domain")
    else:
        yield ok("vocabulary", f"{size:,} tokens for {rows:,} rows")


def _tokenizer(folder: ModelFolder) -> Iterator[Finding]:
    """Say what the tokenizer lacks, and where it and the model differ."""
    vocabulary, shape = folder.vocabulary, folder.shape
    if vocabulary is None:
        return
    if not (folder.path / "tokenizer.json").is_file():
        fact = "no tokenizer.json: transformers splits texts in Python, many times slower, or converts at each start"
        yield warn("tokenizer", fact, _OLDER)
    yield from _special(folder, vocabulary.special_ids)
    if shape is not None:
        yield from _lengths(folder, shape.positions - shape.first_position)
    lower = folder.tokenizer.get("do_lower_case")
    if isinstance(lower, bool) and lower != vocabulary.lowercase:
        fact = (
            f"tokenizer_config.json says do_lower_case = {str(lower).lower()}, and tokenizer.json is "
            f"{'lower-case' if vocabulary.lowercase else 'cased'}: which one holds depends on the tool"
        )
        yield fail("case", fact, "set do_lower_case to what the model was trained with")
    special = set(vocabulary.special_tokens.values()) | {*vocabulary.further_special_tokens}
    capitals = sum(token != token.lower() for token in vocabulary.tokens if token not in special)
    if vocabulary.lowercase and capitals:
        share = f"{capitals:,} of {vocabulary.size:,} tokens ({capitals / vocabulary.size:.1%})"
        fact = f"texts are lower-cased, and {share} have capitals"
        judged = fail if capitals > vocabulary.size / 20 else warn
        yield judged("case", fact, "they never occur: is it a cased vocabulary?")


def _special(folder: ModelFolder, tokens: dict[str, int]) -> Iterator[Finding]:
    """Compare the special ids of the configuration with the tokenizer's."""
    missing = [role for role in ROLES if role not in tokens]
    if missing:
        fact = f"the tokenizer has no {' and no '.join(missing)} token"
        yield fail("special ids", fact, "masked tokens cannot be learned without: use the model's own tokenizer")
    frames = folder.family is not None and folder.family.names.begin_and_end
    keys = {**{f"{role}_token_id": role for role in ROLES}, **(_FRAMES if frames else {})}
    for key, role in keys.items():
        given, own = folder.config.get(key), tokens.get(role)
        if type(given) is int and own is not None and given != own:
            cost = _COSTS.get(key, "other tools read it from there")
            fact = f"config.json has {key} = {given}, and the tokenizer {role} = {own}: {cost}"
            yield (warn if key in _FRAMES else fail)("special ids", fact, f"set {key} to {own}")
    if folder.family is not None and not missing and (folder.path / "tokenizer.json").is_file():
        try:
            special_ids(folder.path, folder.config)
        except InputError as error:
            yield warn("special ids", str(error).rstrip("."), _OLDER)


_FRAMES = {"bos_token_id": "cls", "eos_token_id": "sep"}
_COSTS = {
    "pad_token_id": "padding is read as text, and the row of a token that occurs is kept from learning",
    "mask_token_id": "what is hidden is shown as another word",
}


def _lengths(folder: ModelFolder, positions: int) -> Iterator[Finding]:
    named = folder.tokenizer.get("model_max_length")
    if isinstance(named, int | float) and not isinstance(named, bool) and named <= positions:
        return
    given = f"{named:,}" if isinstance(named, int) and named < UNSET_LENGTH else "no length"
    fact = (
        f"the tokenizer has {given} (model_max_length), and the model {positions:,} positions: longer texts are not cut"
    )
    remedy = f"they end in an index error or unlearned positions: set model_max_length to {positions:,}"
    yield (warn if given == "no length" else fail)("length", fact, remedy)


# What a step costs.


def _costs(folder: ModelFolder, step: TypicalStep, seen: Hardware) -> Iterator[Finding]:
    """Say what is slow, by what a step costs."""
    shape, masked = step.shape, round(MASKED * step.tokens)
    least = step.flops(masked)
    fact = f"a step of {SEQUENCES} x {step.length:,} tokens, {MASKED:.0%} to guess: {_flops(least)} at least"
    yield ok("step", fact)
    yield from _precision(folder, least, seen)
    if _guesses_masked(folder):
        yield _head(folder, step, masked)
    yield from _padding(folder, step, seen)
    if folder.config.get("_attn_implementation", folder.config.get("attn_implementation")) == "eager":
        size = SEQUENCES * shape.heads * step.length**2 * 4 * shape.layers
        fact = f'attention is "eager": {readable_bytes(size)} of scores are kept for the backward pass'
        yield warn("attention", fact, "training here keeps none: FlashAttention or torch's own")
    if folder.refused and folder.config.get("tie_word_embeddings") is False:
        numbers = shape.vocab_size * shape.embedding_size
        fact = f"the head has a matrix of its own: {numbers:,} parameters, {readable_bytes(16 * numbers)} with AdamW"
        yield warn("tied", fact, "set tie_word_embeddings, as all published encoders of these families have it")
    if dropout := shape.dropout:
        size = step.tokens * shape.hidden_size * (2 * shape.layers + 1)
        fact = f"dropout {dropout:g}: {readable_bytes(size)} of masks a step at most, and a pass over memory for each"
        yield warn("dropout", fact, "model.dropout = 0 trains another model; where text is read once it is not needed")


def _flops(number: float) -> str:
    """Return a number of operations for people.

    >>> _flops(9.06e12), _flops(3_200_000)
    ('9.1 TFLOPs', '3.2 MFLOPs')
    """
    power = max(power for power in (6, 9, 12, 15) if power == 6 or number >= 10**power)
    return f"{number / 10**power:,.1f} {'MGTP'[power // 3 - 2]}FLOPs"


def _precision(folder: ModelFolder, flops: int, seen: Hardware) -> Iterator[Finding]:
    """Say what computing in float32 costs, where the weights are in it."""
    kinds = {tensor.kind for tensor in folder.tensors.values()}
    named = str(folder.config.get("dtype") or folder.config.get("torch_dtype") or "float32")
    if "F32" not in kinds and (kinds or named != "float32"):
        return
    slow, middle, fast = (1000 * flops / peak for peak in (FLOAT32, TF32, BFLOAT16))
    fact = (
        f"float32: on an A100 at its peak {slow:,.1f} ms a step, {middle:,.1f} with TF32, {fast:,.1f} in bfloat16; "
        f"weights, gradients and AdamW take {readable_bytes(16 * folder.parameters)}"
    )
    remedy = 'training.precision = "auto" computes in bfloat16 and keeps float32 weights'
    if not seen.has_bfloat16:
        remedy = f"the {seen.name} of this machine has no bfloat16: train on an Ampere GPU or later"
    yield warn("float32", fact, remedy)


def _guesses_masked(folder: ModelFolder) -> bool:
    """Return whether the model is trained to guess masked tokens, as far as its configuration shows."""
    if folder.family is not None:
        return folder.family.objective == "masked"
    return any(str(name).endswith(("ForMaskedLM", "ForPreTraining")) for name in _listed(folder, "architectures"))


def _listed(folder: ModelFolder, key: str) -> list[Any]:
    value = folder.config.get(key)
    return value if isinstance(value, list) else []


def _head(folder: ModelFolder, step: TypicalStep, masked: int) -> Finding:
    """Say what it costs to compute the head of masked tokens at every place."""
    everywhere, least = step.flops(step.tokens), step.flops(masked)
    head = PASSES_FLOPS * step.shape.vocabulary_head_macs(step.tokens)
    if folder.config.get("sparse_prediction"):
        return ok("head", f"at masked tokens alone (sparse_prediction), {1 - least / everywhere:.0%} less a step")
    size, own = (4 * places * step.shape.vocab_size for places in (step.tokens, masked))
    fact = (
        f"transformers computes it at all tokens: {head / everywhere:.0%} of a step's FLOPs, {everywhere / least:.2f} "
        f"times those at masked tokens, and {readable_bytes(size)} of logits instead of {readable_bytes(own)}"
    )
    return warn("head", fact, "training here computes it at masked tokens alone: begin from it with model.start")


def _padding(folder: ModelFolder, step: TypicalStep, seen: Hardware) -> Iterator[Finding]:
    """Say what padding every text to the longest of its batch costs, and whether attention here needs it."""
    shape = step.shape
    lengths = np.linspace(max(1, step.length // SHORTEST_SHARE), step.length, SEQUENCES).astype(np.int64)
    places = 1 - int(lengths.sum()) / step.tokens
    times = shape.macs(step.lengths) / max(1, shape.macs(lengths))
    fact = (
        f"a batch of texts of {lengths[0]:,} to {lengths[-1]:,} tokens that is padded to the longest is {places:.0%} "
        f"padding: {times:.2f} times the FLOPs"
    )
    reason = padding_reason("bfloat16", seen, shape.attention_dropout, shape.hidden_size // shape.heads)
    remedy = "nothing to set: training here joins texts without padding"
    if reason:
        fact = f"{fact}; attention here pads too: {reason}"
        remedy = "inputs that fill every example, such as full-sentences, have hardly any padding"
    if reason and shape.attention_dropout and seen.has_bfloat16:
        remedy = "model.attention_dropout = 0 needs no padding, and trains another model"
    yield warn("padding", fact, remedy)
