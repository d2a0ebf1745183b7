"""Reads and writes the files of sentence-transformers folders. No torch.

    modules.json                       the modules in order: an encoder, a pooling, and the modules after it (`STEPS`)
    1_Pooling/config.json, ...         the configuration of each module, with its weights next to it
    sentence_bert_config.json          the maximum number of tokens of a text, and whether it is lowercased
    config_sentence_transformers.json  prompts by name, the similarity function, and the version that wrote it

Promise: the layouts of all versions up to NEWEST can be read. An unknown module, an unknown key, or a newer version is
refused with its name, because ignoring it would change the vectors. A folder with code is refused, and the code is
never run. Settings that were read are written with the same meaning.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from corpora.errors import InputError
from trainer.complete_folders import write_json
from trainer.huggingface.config import CONFIG, TOKENIZER_CONFIG, check_no_code, read_json

MODULES, TEXTS, MODEL = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
OLDER_TEXTS = tuple(
    f"sentence_{name}_config.json" for name in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
NEWEST = 6  # the major version of sentence-transformers whose source this follows
QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")  # names of prompts
OLDER_MODES = {  # modes of pooling by their keys before version 5.4, in the order in which those put them side by side
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
MODES = (*OLDER_MODES.values(),)
TRUNCATE = "Truncate"  # no module of theirs: the key `truncate_dim`
Keys = Mapping[str, Any]
Prompt = str | tuple[str, ...]  # a name, "" the default one; or names of which the first with a text is taken, if any
STEPS: Mapping[str, Keys] = {  # what may follow a pooling, with the types of its keys
    "Dense": {"in_features": int, "out_features": int, "bias": bool, "activation_function": str, "use_residual": bool},
    "Normalize": {},
    "LayerNorm": {"dimension": int},
    "Dropout": {"dropout": float | int},
}
WITH_WEIGHTS = ("Dense", "LayerNorm")
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "ELU", "LeakyReLU", "Mish", "Softplus")
USUAL_ACTIVATION = "torch.nn.modules.activation.Tanh"
_POOLING = {
    **{"word_embedding_dimension": int, "embedding_dimension": int},
    **{"pooling_mode": str | list, "include_prompt": bool, **dict.fromkeys(OLDER_MODES, bool)},
}
_TEXTS = {"max_seq_length": int | None, "do_lower_case": bool, "unpad_inputs": bool | None}
_USUAL: Keys = {  # keys that may have this value alone
    **{"module_input_name": "sentence_embedding", "transformer_task": "feature-extraction", "query_expansion": None},
    **{"modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}},
    **{"processing_kwargs": {}, "query_length": None, "document_length": None, "tokenizer_name_or_path": None},
    **{f"{what}_args": {} for what in ("model", "tokenizer", "config")},
    **{f"{what}_kwargs": {} for what in ("model", "processor", "config")},
}


class VectorStep(NamedTuple):
    """A sentence-transformers module that follows the pooling.

    Attributes:
        kind: A key of STEPS, or TRUNCATE.
        path: The subfolder of the module.
        config: The configuration of the module.
    """

    kind: str
    path: str
    config: Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFolder:
    """The settings by which a folder's model computes sentence embeddings.

    Attributes:
        folder: The folder.
        pooling: The pooling modes, joined by "+". Their vectors are concatenated.
        include_prompt: True if the tokens of a prompt are also pooled.
        steps: The modules after the pooling, in order.
        max_length: The maximum number of tokens of a text, including special tokens; None for the encoder's maximum.
        lowercase: True if texts are lowercased before tokenization.
        prompts: Strings that are put in front of a text, by name.
        default_prompt: The name of the default prompt; "" for none.
        similarity: The similarity function for embeddings; "" if the folder does not specify one.
        encoder: The subfolder of the encoder; "" for the folder itself.
    """

    folder: Path
    pooling: str
    include_prompt: bool = True
    steps: tuple[VectorStep, ...] = ()
    max_length: int | None = None
    lowercase: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    similarity: str = ""
    encoder: str = ""

    @property
    def skips_prompts(self) -> bool:
        """True if the folder has prompts whose tokens are left out when a text is pooled."""
        return not self.include_prompt and any(self.prompts.values())

    def find_prompt(self, asked: Prompt) -> str:
        """Find the prompt to put in front of a text, by its name in the folder.

        The names in DOCUMENT ("document", "passage", "corpus") are synonyms.

        Args:
            asked: A name, or "" for the default prompt. If several names are given, the first one with a non-empty
                prompt is used.

        Returns:
            The text of the prompt; empty if there is none.

        Raises:
            InputError: If no prompt has the given name.
        """
        alike = DOCUMENT if asked in DOCUMENT else (asked or self.default_prompt,)
        names = asked if isinstance(asked, tuple) else (asked, *alike)
        if asked and isinstance(asked, str) and not self.prompts.keys() & {*names}:
            has = ", ".join(self.prompts) or "none"
            raise InputError(f"{self.folder / MODEL} has no prompt named {asked!r}: name one of its own ({has}).")
        return next((self.prompts[str(name)] for name in names if self.prompts.get(str(name))), "")


def read_sentences(folder: Path, older: bool = False) -> SentenceFolder | None:
    """Read how a sentence-transformers folder computes embeddings, or return None for other folders.

    Args:
        folder: The folder.
        older: True to accept a folder with the encoder in a subfolder.

    Raises:
        InputError: If a module or setting is not supported, or if the folder contains Python code.
    """
    if not (folder / MODULES).is_file():
        return None
    _check_code(folder)
    (_, encoder), (_, pooling_path), *others = _read_modules(folder)
    if encoder and not older:
        raise InputError(
            f"{folder} keeps its encoder in {encoder}, as old folders do: save it again with sentence-transformers."
        )
    pooling = _read_checked(folder / pooling_path / CONFIG, _POOLING)
    modes = pooling.get("pooling_mode") or [mode for key, mode in OLDER_MODES.items() if pooling.get(key)] or "mean"
    modes = (modes,) if isinstance(modes, str) else modes
    if not {*modes} <= {*MODES}:
        raise InputError(f"{folder / pooling_path / CONFIG}: the pooling {modes!r} is none of {', '.join(MODES)}.")
    model = read_json(folder / MODEL) if (folder / MODEL).is_file() else {}
    _check_model(model, folder / MODEL)
    steps = [_read_step(kind, path, folder) for kind, path in others]
    if width := model.get("truncate_dim"):
        steps.append(VectorStep(TRUNCATE, "", {"truncate_dim": width}))
    return SentenceFolder(
        folder=folder,
        pooling="+".join(modes),
        include_prompt=pooling.get("include_prompt", True),
        steps=tuple(steps),
        prompts={name: text or "" for name, text in (model.get("prompts") or {}).items()},
        default_prompt=model.get("default_prompt_name") or "",
        similarity=model.get("similarity_fn_name") or "",
        encoder=encoder,
        **_read_text_settings(folder / encoder),
    )


def _check_code(folder: Path) -> None:
    """Raise InputError if a folder contains Python code, or if its tokenizer refers to Python code."""
    if (folder / TOKENIZER_CONFIG).is_file():
        check_no_code(read_json(folder / TOKENIZER_CONFIG), folder / TOKENIZER_CONFIG)
    for path in folder.glob("*.py"):
        raise InputError(
            f"{path} is code, which is not run here: open the folder with sentence-transformers, or remove the file "
            "where the model does without it."
        )


def _read_modules(folder: Path) -> list[tuple[str, str]]:
    """Read the modules of a sentence-transformers folder in order, as pairs of kind (such as "Pooling") and subfolder.

    Raises InputError if the list is unreadable, or if a module is not supported or is outside the folder.
    """
    path = folder / MODULES
    try:
        modules = [(str(each["type"]), str(each["path"])) for each in json.loads(path.read_bytes())]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path} is no list of modules with `type` and `path`: save or copy it again.") from error
    brought = [name for name, _ in modules if not name.startswith("sentence_transformers.")]
    kinds = [name.rpartition(".")[2] for name, _ in modules]
    inside = all((folder / each).resolve().is_relative_to(folder.resolve()) for _, each in modules)
    if brought or kinds[:2] != ["Transformer", "Pooling"] or {*kinds[2:]} - {*STEPS} or not inside:
        names = f"{brought[0]}, whose code would be its own" if brought else ", ".join(kinds) or "no module"
        raise InputError(
            f"{path} has {names}. What is read is a Transformer, a Pooling, and any of {', '.join(STEPS)}, below the "
            "folder: open it with sentence-transformers."
        )
    return [(kind, each) for kind, (_, each) in zip(kinds, modules, strict=True)]


def _read_checked(path: Path, kept: Keys) -> dict[str, Any]:
    """Read a module's configuration and return the supported keys, or {} if the file is missing.

    Args:
        path: The configuration file.
        kept: Maps each supported key to the type of its values.

    Raises:
        InputError: If a key has a value of another type, or if another key has a value that would change the
            embeddings.
    """
    config = read_json(path) if path.is_file() else {}
    usual = {**_USUAL, "module_output_name": "token_embeddings" if kept is _TEXTS else "sentence_embedding"}
    for key, value in config.items():
        fits = isinstance(value, kept[key]) if key in kept else key in usual and value in (usual[key], None)
        if not fits:
            raise InputError(
                f"{path}: {key} is {value!r}, which is not read here, and without it vectors would be others: open the "
                "folder with sentence-transformers."
            )
    return {key: value for key, value in config.items() if key in kept}


def _read_step(kind: str, path: str, folder: Path) -> VectorStep:
    where = folder / path / CONFIG
    step = VectorStep(kind, path, _read_checked(where, STEPS[kind]))
    activation = step.config.get("activation_function", USUAL_ACTIVATION)
    if not activation.startswith("torch.nn.") or activation.rpartition(".")[2] not in ACTIVATIONS:
        raise InputError(
            f"{where}: activation_function is {activation!r}; it must be one of torch.nn: {', '.join(ACTIVATIONS)}."
        )
    return step


def _read_text_settings(folder: Path) -> dict[str, Any]:
    """Read how texts are prepared, as a dictionary with the keys `max_length` (None if not given) and `lowercase`.

    `folder` is the encoder's folder. Raises InputError if the file has unsupported keys.
    """
    path = next((folder / name for name in (TEXTS, *OLDER_TEXTS) if (folder / name).is_file()), folder / TEXTS)
    config, tokenizer = _read_checked(path, _TEXTS), folder / TOKENIZER_CONFIG
    length = config.get("max_seq_length")
    if length is None and tokenizer.is_file():
        length = read_json(tokenizer).get("model_max_length")
    return {"max_length": length if isinstance(length, int) else None, "lowercase": config.get("do_lower_case", False)}


def _check_model(model: Keys, path: Path) -> None:
    """Check the content of `config_sentence_transformers.json`. `path` is its file, for messages.

    Raises:
        InputError: If a version after NEWEST wrote it, or if it is not for sentence embeddings or has invalid prompts.
    """
    version = str((model.get("__version__") or {}).get("sentence_transformers", NEWEST))
    if not version.split(".")[0].isdecimal() or int(version.split(".")[0]) > NEWEST:
        raise InputError(
            f"{path}: sentence-transformers {version} wrote it, and versions up to {NEWEST} are read here; vectors may "
            f"be made otherwise since. Save it with version {NEWEST}, or use a newer Cloze."
        )
    kind, prompts = model.get("model_type", "SentenceTransformer"), model.get("prompts") or {}
    if kind != "SentenceTransformer":
        raise InputError(f"{path}: model_type is {kind!r}; a SentenceTransformer alone makes one vector of a text.")
    named = model.get("default_prompt_name") or "query"
    if named not in {"query", "document", *prompts} or not all(
        isinstance(each, str | None) for each in prompts.values()
    ):
        raise InputError(f"{path}: prompts are {prompts!r}, by default {named!r}: name texts, and one of them.")


# What is written.


def write_sentences(folder: Path, sentences: SentenceFolder, hidden_size: int, similarity: str | None) -> list[str]:
    """Write the sentence-transformers files next to an encoder, in a format that all versions can read.

    Args:
        folder: The folder of the encoder.
        sentences: The settings to write.
        hidden_size: The hidden size of the encoder.
        similarity: "cosine" or "dot"; None to leave it out.

    Returns:
        The subfolders of the modules after the pooling, such as "2_Dense", to which the caller writes their weights.
    """
    steps = [step for step in sentences.steps if step.kind != TRUNCATE]
    paths = ["", "1_Pooling", *(f"{place}_{step.kind}" for place, step in enumerate(steps, 2))]
    kinds = ["Transformer", "Pooling", *(step.kind for step in steps)]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    write_json(folder / MODULES, modules)
    write_json(folder / TEXTS, {"max_seq_length": sentences.max_length, "do_lower_case": sentences.lowercase})
    model = {"prompts": dict(sentences.prompts), "default_prompt_name": sentences.default_prompt or None}
    truncated = [step.config for step in sentences.steps if step.kind == TRUNCATE]
    write_json(folder / MODEL, {**model, "similarity_fn_name": similarity, **(truncated[0] if truncated else {})})
    modes = sentences.pooling.split("+")
    in_order = modes == [mode for mode in MODES if mode in modes]
    named = {key: mode in modes for key, mode in OLDER_MODES.items()} if in_order else {"pooling_mode": modes}
    prompted = {} if sentences.include_prompt else {"include_prompt": False}  # unknown to the oldest versions
    pooling = {"word_embedding_dimension": hidden_size, **named, **prompted}
    for path, config in zip(paths[1:], [pooling, *(step.config for step in steps)], strict=True):
        (folder / path).mkdir(exist_ok=True)
        write_json(folder / path / CONFIG, config)
    return paths[2:]


def list_sentence_files(folder: Path) -> list[str]:
    """List the sentence-transformers files in a folder, including module weights, as sorted relative paths."""
    named = [path for path in folder.glob("*.json") if path.name in (MODULES, TEXTS, *OLDER_TEXTS, MODEL)]
    below = folder.glob("[1-9]*_*/*") if (folder / MODULES) in named else ()
    return sorted(path.relative_to(folder).as_posix() for path in (*named, *below))
