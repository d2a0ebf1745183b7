"""A model that stays loaded in this process, so that it can be called many times from Python.

    folder ─► predict: a dictionary for each record     embed: a vector for each text     fill: tokens for each mask

Promise: up to rounding, the results are those of `cloze predict` and `cloze embed` on the same device. No global state
of torch is changed. Cost: each method loads the folder's weights when it is first called; `embed` loads them again when
its settings change.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from trainer.ranks import make_single_rank
from trainer.tasks.data import with_defaults_from
from trainer.tasks.fill import Guesser
from trainer.tasks.folders import LoadedFolder, load_task
from trainer.tasks.formats.records import FileSettings, RowCounts
from trainer.tasks.predict import iter_answer_rows, predict_file
from trainer.tasks.vectors.embed import Embedder, build_vector_rows, iter_windows, read_named_texts
from trainer.tasks.vectors.settings import EmbedSettings
from trainer.tasks.vectors.vector_files import build_schema, build_table


class LoadedModel:
    """The model of a folder, which is loaded on first use. The folder must not be moved or changed after that."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ranks = folder, make_single_rank()
        self._embedder: tuple[EmbedSettings, Embedder] | None = None

    @cached_property
    def _task(self) -> LoadedFolder:
        loaded = load_task(self._folder)
        loaded.model.to(self._ranks.device)
        return loaded

    @cached_property
    def _guesser(self) -> Guesser:
        return Guesser(self._folder)

    def predict(self, file: FileSettings, is_own_file: bool) -> Iterator[dict[str, Any]]:
        """Yield the prediction for each record of a file, as the dictionaries of `iter_answer_rows`.

        Args:
            file: The file and how to read it.
            is_own_file: True if the caller's rows were written to this file. Its columns are then named as in training.

        Raises:
            InputError: If the model has no task, or the file cannot be read.
        """
        learnt = self._task.file
        read = with_defaults_from(
            file, {**learnt, "path": file.path, "format": ""} if is_own_file and learnt else learnt
        )
        return iter_answer_rows(self._task.task, predict_file(self._folder, self._task, read, False, self._ranks))

    def embed(
        self, file: FileSettings, settings: EmbedSettings, report: Callable[[int], None], is_empty: bool = False
    ) -> Float32s:
        """Compute the vectors of the texts, words or tokens of a file, in its order: float32 [N, H].

        Args:
            file: The file and how to read it.
            settings: The units that get a vector, and how vectors are computed.
            report: Called with the number of texts processed so far.
            is_empty: True if there are no texts. The file is then not read.

        Raises:
            InputError: If the file cannot be read, or one of its records cannot be used.
        """
        if self._embedder is None or self._embedder[0] != settings:
            self._embedder = settings, Embedder.from_folder(self._folder, settings, self._ranks.device)
        embedder, counts, done = self._embedder[1], RowCounts(), 0
        schema = build_schema(embedder.origin, embedder.width, settings.precision)
        vectors = [np.empty((0, embedder.width), np.float32)]
        named = iter(()) if is_empty else read_named_texts(file, counts)
        for texts, encodings in iter_windows(named, embedder.texts):
            column = (
                build_table(build_vector_rows(embedder, texts, encodings), schema).column("vector").combine_chunks()
            )
            numbers = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
            vectors.append(numbers.reshape(-1, embedder.width))
            done += len(texts)
            report(done)
        if counts.unusable:
            raise InputError(
                f"{file.path}: {counts.reasons}: a vector would be missing. Give each a text, or leave it out."
            )
        return np.concatenate(vectors)

    def fill(self, text: str, top: int) -> list[list[dict[str, Any]]]:
        """Predict the tokens at each mask of a text with the model of the folder.

        Args:
            text: A text with `[MASK]` or `<mask>`.
            top: The number of candidates for each mask.

        Returns:
            For each mask, a list of dictionaries with the keys `id`, `token`, `text` and `probability`, the best one
            first.

        Raises:
            InputError: If the text has no mask or is too long, or the model has no masked-token head.
        """
        return [[asdict(guess) for guess in mask] for mask in self._guesser.guess_masks(text, top)]
