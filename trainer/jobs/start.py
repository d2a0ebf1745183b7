"""The start of a training in place of first weights: the folder of a model, identified by what it holds. No torch.

    folder ─► its files by name, each with its digest ─► the content, which names the model that is trained from it

The folder's place decides nothing. It is read once more when training begins, and compared; after the first checkpoint
it is not needed.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.store.checked_folder import check_folder, mark_complete
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, StoredFile, compute_fingerprint
from corpora.store.places.files import hold_lock, to_unfinished_path
from corpora.store.places.place import Place
from tokenizers_train.vocabularies.files import FILES

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A model's folder as it is.

    folder: on this machine
    files:  by name, the sha256 of what makes the model: configuration, weights, tokenizer
    rows:   of each token that the folder's vocabulary does not have at its place: its id, and those of its pieces there
    """

    folder: str
    files: Mapping[str, str]
    rows: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def content(self) -> str:
        """One digest of all files."""
        return compute_fingerprint(files=dict(self.files))

    def check(self, needed: str = "A training that has a checkpoint does not need it.") -> None:
        """Raise InputError unless every file is as it was. Reads them, at 1.3 GB a second. needed: how long it is"""
        for name, digest in self.files.items():
            path = Path(self.folder) / name
            if not path.is_file():
                raise InputError(f"{path} is gone, but the training was to start from it: {_REMEDY} {needed}")
            if sha256_of(path) != digest:
                raise InputError(f"{path} has changed since the training was planned: {_REMEDY} {needed}")


_REMEDY = "restore the folder as it was; or run the recipe again, which plans a training from its present content."


def start_of(folder: Path, digest: "Callable[[Path], str] | None" = None) -> Start:
    """Return the model in a folder. digest: gives a file's sha256 where it may be known already. Raises InputError."""
    check_folder(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has no {name}, but a training starts from a model as Hugging Face's save_pretrained writes "
                f"it: {CONFIG}, {WEIGHTS} (one file) and its tokenizer."
            )
    names = [name for name in (CONFIG, WEIGHTS, *FILES) if (folder / name).is_file()]
    names += [f"{below}/{name}" for below in parts_below(folder) for name in (CONFIG, WEIGHTS)]
    return Start(folder=str(folder), files={name: (digest or sha256_of)(folder / name) for name in names})


def parts_below(folder: Path) -> list[str]:
    """The folders in it that hold a model of their own, as ELECTRA's generator is in one."""
    return sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}") if path.with_name(WEIGHTS).is_file())


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The model of an artifact.


def model_files(manifest: Manifest) -> dict[str, StoredFile]:
    """Return a model artifact's files by their path from its configuration; those of its parts are in folders below."""
    files = [file for part in manifest.parts for file in part.files]
    configs = [file.path.removesuffix(CONFIG) for file in files if f"/{file.path}".endswith(f"/{CONFIG}")]
    folder = min(configs, key=len, default="")
    return {file.path.removeprefix(folder): file for file in files if file.path.startswith(folder)}


def copy_model(place: Place, manifest: Manifest, files: Mapping[str, StoredFile], folder: Path) -> None:
    """Copy an artifact's files to a folder here, all or none; one process at a time does it, and others wait for it.

    Raises Damaged if a file is not what was written.
    """
    new = to_unfinished_path(folder, is_only_writer=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(new.with_suffix(".lock")):
        if folder.is_dir():
            return
        shutil.rmtree(new, ignore_errors=True)
        for name, file in files.items():
            path = f"{manifest.stage_folder}/{file.path}"
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            with place.open(path) as source, (new / name).open("wb") as sink:
                shutil.copyfileobj(source, sink)
            if sha256_of(new / name) != file.sha256:
                raise Damaged(path, "its bytes are not those that were written")
        mark_complete(new)
        new.rename(folder)
