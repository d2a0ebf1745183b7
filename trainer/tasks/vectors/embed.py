"""Computes vectors of texts, of their words or of their tokens, with any model, fine-tuned or only pre-trained.

    records ─► texts ─► windows of texts ─► batches of one length ─► layers ─► pooling ─► Parquet, in file order

Promise: there is one row for each usable record, in the order of the file, or one for each of its words or tokens (if a
text is truncated, for those that remain). The file appears in one step. If the same command is run again after it was
killed, it resumes and ends with the same bytes: it reads and tokenizes the texts again, but only computes the missing
vectors. Memory: the model, and the vectors of WINDOW_TOKENS tokens in every requested layer, however long the file is.

A run writes its vectors in parts, and an interrupted run resumes after the last complete one:

    OUTPUT's unfinished folder/   asked.json       the settings, with digests of the files that are read
                                  part-0.parquet   a row group for each window, with checksums

Only complete parts are used. A damaged part and those after it are removed, and all are removed if the settings differ.
Only one process at a time uses the folder. It is removed at the end of the run, unless the run was interrupted and has
written a part. Cost: until the file has its final name, the vectors are on the disk twice. When a run resumes, existing
parts are read.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Encoding
from torch import Tensor, nn

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.sources.bytes.unchanged import hold_unchanged, read_states
from corpora.store.ledger import Ledger
from corpora.store.places.files import to_unfinished_path
from tokenizers_train.vocabularies.borders import find_piece_offsets
from trainer.complete_folders import explain_disk_errors, hold_output, write_json
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.sentence_transformers import Prompt, SentenceFolder
from trainer.metrics import Event
from trainer.model.encoder import TransformerEncoder
from trainer.tasks.data import batch_by_length, digest_files, digest_if_exists, group_by_size
from trainer.tasks.folders import read_source
from trainer.tasks.formats.reading import check_columns, read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts, as_label, as_text
from trainer.tasks.formats.retrieval import check_untagged
from trainer.tasks.heads.task_model import batch_items
from trainer.tasks.heads.vectors import VectorModel, pool_tokens
from trainer.tasks.kinds.vectors import SKIPPED
from trainer.tasks.task import Items, TaskItem, Tokens
from trainer.tasks.text_encoder import TextEncoder
from trainer.tasks.vectors.settings import EmbedSettings
from trainer.tasks.vectors.vector_files import VectorOrigin, VectorRows, build_schema, build_table, create_vector_file

REQUEST_FILE = "asked.json"


class VectorParts:
    """The parts (Parquet files with rows of several windows) that a run has written so far.

    windows: the number of windows (texts that are processed together) in the parts
    rows:    the number of rows in the parts
    """

    def __init__(self, folder: Path, output: Path, schema: pa.Schema) -> None:
        self._folder, self._output, self._schema = folder, output, schema
        self._writer: pq.ParquetWriter | None = None
        self.windows = self.rows = self._parts = 0
        while self._count_part(self._locate_part(self._parts)):
            self._parts += 1
        for path in folder.glob("part-*"):
            if int(path.stem.removeprefix("part-")) >= self._parts:
                path.unlink()

    def _locate_part(self, number: int) -> Path:
        return self._folder / f"part-{number}.parquet"

    def _count_part(self, path: Path) -> bool:
        """Add the windows and rows of a part to the totals. Return False if the part is missing or damaged."""
        try:
            sizes = [len(table) for table in _iter_tables(path)]
        except (pa.ArrowException, OSError):
            return False
        self.windows, self.rows = self.windows + len(sizes), self.rows + sum(sizes)
        return True

    def add(self, rows: pa.Table) -> None:
        """Write the rows of the next window (texts that are processed together) to the current part.

        Raises InputError if the disk is full.
        """
        with explain_disk_errors(self._output):
            if self._writer is None:
                path = self._locate_part(self._parts)
                self._writer = pq.ParquetWriter(path, self._schema, compression="none", write_page_checksum=True)
            self._writer.write_table(rows)
        self.windows, self.rows = self.windows + 1, self.rows + len(rows)

    def save(self) -> None:
        """Finish the current part, so that a later run does not compute its rows again.

        Raises InputError if the disk is full.
        """
        if self._writer is not None:
            with explain_disk_errors(self._output):
                self._writer.close()
            self._parts, self._writer = self._parts + 1, None

    def close(self) -> None:
        """Close the file of the current part, if there is one, so that a later run can use it.

        A full disk is ignored.
        """
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def iter_tables(self) -> Iterator[pa.Table]:
        """Yield the rows of all finished parts in order, one table per window (texts that were processed together)."""
        for number in range(self._parts):
            yield from _iter_tables(self._locate_part(number))


def _iter_tables(path: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


@contextmanager
def open_parts(output: Path, request: Mapping[str, Any], schema: pa.Schema) -> Iterator[VectorParts]:
    """Open the folder of an unfinished vector file, with the parts that an earlier run of the same request wrote.

    The folder is removed if the block ends without an error, or if nothing was written.

    Args:
        output: The file to write.
        request: A JSON-serializable description of the run. Parts of an earlier run are only used if its request was
            equal.
        schema: The schema of the file.

    Raises:
        InputError: If another process writes the same file, or the disk is full.
    """
    folder, ended_well = to_unfinished_path(output, is_only_writer=True), False
    with ExitStack() as own:
        with explain_disk_errors(output):
            own.enter_context(hold_output(output, "writing"))
            if _read_json(folder / REQUEST_FILE) != json.loads(json.dumps(request)):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                write_json(folder / REQUEST_FILE, request)
            parts = VectorParts(folder, output, schema)
        try:
            yield parts
            ended_well = True
        finally:
            parts.close()
            if ended_well or not parts.windows:
                shutil.rmtree(folder)


def _read_json(path: Path) -> Any:
    """Read a JSON file of any content, or return None if it is missing or incomplete."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


TEXTS_AT_ONCE = 256
WINDOW_TOKENS = 32_768
BATCH_TOKENS = 8_192
REPORT_SECONDS = 5.0
SAVE_SECONDS = 60.0  # after which what is made is written down


class NamedText(NamedTuple):
    """A text with its id, or with its line number if the file has no ids."""

    id: str
    text: str


Window = tuple[list[NamedText], list[Encoding]]  # that is read at once


@dataclass(slots=True, kw_only=True)
class Embedder:
    """A loaded model that computes vectors.

    encoder:  the encoder
    after:    the modules after the pooling
    width:    the number of dimensions of a vector
    texts:    the encoder that converts texts to tokens
    settings: the units that get a vector and how vectors are computed, including the pooling of the model
    origin:   a description of how the vectors are computed, which is stored with them
    device:   the device of the model
    """

    encoder: TransformerEncoder
    after: nn.Module
    width: int
    texts: TextEncoder
    settings: EmbedSettings
    origin: VectorOrigin
    device: torch.device

    @staticmethod
    def from_folder(folder: Path, settings: EmbedSettings, device: torch.device, prompt: Prompt = "") -> "Embedder":
        """Load the model of a folder to compute vectors with it.

        Args:
            folder: The folder of a model, fine-tuned or only pre-trained.
            settings: The units that get a vector, and how vectors are computed.
            device: The device to compute on.
            prompt: The name of the folder's prompt that is used if the settings do not name one.

        Raises:
            InputError: If the folder is damaged, or the model does not have a requested layer, prompt or length.
        """
        loaded = read_source(folder)
        model = loaded.model if isinstance(loaded.model, VectorModel) else None
        has_two = model is not None and not model.task.shared
        encoder = [*loaded.model.list_encoders()][has_two and settings.side == "second"]
        length, own = settings.max_length or loaded.max_length, model.pooling if model is not None else "mean"
        if length > loaded.settings.positions:
            positions = loaded.settings.positions
            raise InputError(f"max_length = {length}, and the model {folder} reads {positions} tokens: lower it.")
        resolved, layers = (
            replace(settings, pooling=settings.pooling or own),
            _resolve_layers(settings, encoder, folder),
        )
        prompts = (settings.prompt or prompt,) * 2 if settings.by == "text" else ((), ())
        texts = TextEncoder.from_folder(folder, loaded.inputs, length, prompts)
        after, width = _find_after_pooling(model, resolved, layers, encoder)
        sentences = model.sentences if model is not None else None
        made = VectorOrigin(
            model=_digest_weights(folder, sentences),
            by=resolved.by,
            pooling=resolved.pooling,
            layers=layers,
            combine=resolved.combine if len(layers) > 1 else "",
            side=resolved.side if has_two else "first",
            similarity=(sentences and sentences.similarity)
            or (model.task.resolved_similarity if model is not None else "cosine"),
            max_length=length,
            prompt=texts.prompts[0],
        )
        return Embedder(
            encoder=encoder.to(device).eval(),
            after=after.to(device).eval(),
            width=width,
            texts=texts,
            settings=resolved,
            origin=made,
            device=device,
        )

    def compute_vectors(self, encodings: Sequence[Encoding]) -> list[Float32s]:
        """Compute the vectors of each encoded text, in order: float32 [N, H].

        N is 1 if whole texts get a vector, otherwise the number of words or tokens.
        """
        return self.compute_sequence_vectors([*map(Tokens.from_encoding, encodings)], encodings)

    def compute_sequence_vectors(
        self, sequences: Sequence[Tokens], encodings: Sequence[Encoding] = ()
    ) -> list[Float32s]:
        """Compute the vectors of token sequences, as `compute_vectors` does for encoded texts.

        Args:
            sequences: The sequences.
            encodings: The encoding of each sequence. Only needed if words or tokens get vectors.
        """
        targets = {SKIPPED: np.array(self.texts.skipped[:1], np.int64)} if self.texts.skipped else {}
        items = [TaskItem(sequences=(each,), example=0, targets=targets) for each in sequences]
        by_place = dict[int, Float32s]()
        for places in batch_by_length(items, BATCH_TOKENS):
            own = [encodings[place] for place in places] if encodings else []
            by_place |= zip(places, self._compute_batch([items[place] for place in places], own), strict=True)
        return [by_place[place] for place in range(len(items))]

    @torch.inference_mode()
    def _compute_batch(self, items: Items, encodings: Sequence[Encoding]) -> list[Float32s]:
        batch = batch_items(items).to(self.device)
        every = self.encoder.list_hidden_states(batch)
        states = [every[layer] for layer in self.origin.layers]
        hidden_TH = torch.cat(states, -1) if self.settings.combine == "concat" else torch.stack(states).sum(0)
        if self.settings.combine == "mean":
            hidden_TH = hidden_TH / len(states)
        if self.settings.by == "text":
            vectors_SH = self.after(pool_tokens(hidden_TH, batch, self.settings.pooling))
            return [row[None] for row in vectors_SH.cpu().numpy()]
        of_texts = torch.split(hidden_TH.float().cpu(), [len(encoding) for encoding in encodings])
        return [
            _compute_piece_means(rows, [*_iter_pieces(encoding, self.settings.by)])
            for rows, encoding in zip(of_texts, encodings, strict=True)
        ]


def _resolve_layers(settings: EmbedSettings, encoder: TransformerEncoder, folder: Path) -> tuple[int, ...]:
    """Convert the requested layers, which may be negative, to indices from 0 (the input of the first layer) on.

    Raises InputError if a layer does not exist. `folder` is used in the message.
    """
    depth = encoder.shape.layers
    wrong = [layer for layer in settings.layers if not -depth - 1 <= layer <= depth]
    if wrong:
        raise InputError(
            f"layers names {wrong[0]}, and the model {folder} has {depth}: name some from 1 to {depth}, from "
            "-1 (the last) back, or 0 for what enters the first."
        )
    return tuple(layer % (depth + 1) for layer in settings.layers)


def _find_after_pooling(
    model: VectorModel | None, settings: EmbedSettings, layers: tuple[int, ...], encoder: TransformerEncoder
) -> tuple[nn.Module, int]:
    """Find the modules that are applied after the pooling, and the width of the vectors.

    The modules of the model are only used with the model's own pooling of its last layer.

    Args:
        model: The model, if it was fine-tuned for vectors; None otherwise.
        settings: The settings, including the pooling of the model.
        layers: The indices of the layers to read.
        encoder: The encoder.
    """
    by_text = settings.by == "text"
    if model is not None and by_text and (settings.pooling, layers) == (model.pooling, (encoder.shape.layers,)):
        return model.after, model.widths[-1]
    parts = len(layers) if settings.combine == "concat" else 1
    return nn.Sequential(), encoder.shape.hidden_size * parts * (len(settings.pooling.split("+")) if by_text else 1)


def _digest_weights(folder: Path, sentences: SentenceFolder | None) -> str:
    """Compute a SHA-256 of the weights of the encoder in a folder and of the modules after its pooling."""
    steps = sentences.steps if sentences is not None else ()
    paths = [path for step in steps if step.path for path in sorted((folder / step.path).glob("*"))]
    return digest_files([folder / WEIGHTS, *paths])


def _iter_pieces(encoding: Encoding, by: str) -> Iterator[list[int]]:
    """Yield the token indices of each word or, if `by` is "token", of each token. Words are split by the tokenizer.

    Special tokens are skipped.
    """
    words = [
        (place, place if by == "token" or word is None else None, word)
        for place, (word, special) in enumerate(zip(encoding.word_ids, encoding.special_tokens_mask, strict=True))
        if not special
    ]
    for _, tokens in groupby(words, key=lambda token: token[1:]):
        yield [place for place, _, _ in tokens]


def _compute_piece_means(rows_TH: Tensor, pieces: Sequence[list[int]]) -> Float32s:
    """Compute the mean hidden state of each word or token: float32 [N, H].

    `pieces` has the token indices of each, relative to `rows_TH`.
    """
    means = [rows_TH[places].mean(0) for places in pieces]
    return torch.stack(means).numpy() if means else np.empty((0, rows_TH.shape[1]), np.float32)


# Files.


def embed_file(
    embedder: Embedder, file: FileSettings, output: Path, on_event: Callable[[Event], None]
) -> dict[str, Any]:
    """Write the vectors of a file's records to a Parquet file.

    Args:
        embedder: The model.
        file: The file and how to read it.
        output: The file to write. If an earlier call was interrupted, it is resumed.
        on_event: Called with an event every few seconds.

    Returns:
        A summary with the keys `texts` (their number), `rows`, `width` (dimensions), and `ledger`.

    Raises:
        InputError: If the file cannot be read or changes while it is read, or if the output cannot be written.
    """
    counts, states = RowCounts(), read_states([file.path])
    precision = embedder.settings.precision
    schema = build_schema(embedder.origin, embedder.width, precision)
    with open_parts(output, _describe_request(embedder, file), schema) as parts:
        with hold_unchanged(states):
            windows = iter_windows(read_named_texts(file, counts), embedder.texts)
            done, tokens = _embed_windows(embedder, windows, parts, on_event)
        rows = parts.rows
        with create_vector_file(output, schema) as write:
            for table in parts.iter_tables():
                write(table)
    figures = {"tokens": tokens, "texts_cut": embedder.texts.num_cut, "tokens_cut": embedder.texts.tokens_cut}
    ledger = Ledger(accounts=(counts.account,), figures=figures).check()
    return {"texts": done, "rows": rows, "width": embedder.width, "ledger": ledger.to_json()}


def _embed_windows(
    embedder: Embedder, windows: Iterator[Window], parts: VectorParts, on_event: Callable[[Event], None]
) -> tuple[int, int]:
    """Compute the vectors of all windows that are not yet in a part, and write them to parts.

    Args:
        embedder: The model.
        windows: All windows of the file, in order.
        parts: The parts so far, to which vectors are added.
        on_event: Called with an event every few seconds.

    Returns:
        The total number of texts and of tokens.
    """
    schema = build_schema(embedder.origin, embedder.width, embedder.settings.precision)
    kept = parts.windows
    done = tokens = 0
    reported = saved = time.monotonic()
    for number, (texts, encodings) in enumerate(windows):
        done += len(texts)
        tokens += sum(map(len, encodings))
        if number >= kept:
            parts.add(build_table(build_vector_rows(embedder, texts, encodings), schema))
        if time.monotonic() - saved >= SAVE_SECONDS:
            parts.save()
            saved = time.monotonic()
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            on_event({"event": "step", "step": done, "rows": parts.rows})
    parts.save()
    return done, tokens


def _describe_request(embedder: Embedder, file: FileSettings) -> dict[str, Any]:
    """Describe everything that determines the vectors and their order, as a JSON object.

    An earlier run is only resumed if its description is equal. If the file is a pipe, it never is.
    """
    tokenizer = hashlib.sha256(embedder.texts.tokenizer.to_str().encode()).hexdigest()
    return {
        "made": asdict(embedder.origin),
        "settings": asdict(embedder.settings),
        "tokenizer": tokenizer,
        "device": embedder.device.type,
        "windows": [TEXTS_AT_ONCE, WINDOW_TOKENS, BATCH_TOKENS],
        "file": {**asdict(file), "path": ""},
        "contents": digest_if_exists(file.path) or f"none, at {time.time_ns()}",  # of a pipe: a run never resumes
    }


def build_vector_rows(embedder: Embedder, texts: Sequence[NamedText], encodings: Sequence[Encoding]) -> VectorRows:
    """Compute the rows of the vector file for a list of texts.

    Args:
        embedder: The model.
        texts: The texts, with their ids.
        encodings: The tokens of each text.
    """
    arrays = embedder.compute_vectors(encodings)
    vectors = np.concatenate(arrays)
    if embedder.settings.by == "text":
        return VectorRows([text.id for text in texts], vectors)
    pieces = [
        (text.id, number, text.text[own[places[0]][0] : own[places[-1]][1]])
        for text, encoding in zip(texts, encodings, strict=True)
        for own in [find_piece_offsets(text.text, encoding)]
        for number, places in enumerate(_iter_pieces(encoding, embedder.settings.by))
    ]
    ids, places, words = zip(*pieces, strict=True) if pieces else ((), (), ())
    return VectorRows(ids, vectors, places, words)


def iter_windows(texts: Iterator[NamedText], encoder: TextEncoder) -> Iterator[Window]:
    """Yield windows: lists of texts and of their encodings. All but the last have at least WINDOW_TOKENS tokens.

    The prompt of the encoder is put in front of each text.
    """
    batches = iter(lambda: [*islice(texts, TEXTS_AT_ONCE)], [])
    prompt = encoder.prompts[0]
    encoded = (zip(batch, encoder.encode([prompt + text.text for text in batch]), strict=True) for batch in batches)
    for some in group_by_size(chain.from_iterable(encoded), lambda both: len(both[1]), WINDOW_TOKENS):
        yield [text for text, _ in some], [encoding for _, encoding in some]


def read_named_texts(file: FileSettings, counts: RowCounts) -> Iterator[NamedText]:
    """Yield the texts of a file with their ids.

    Args:
        file: The file and how to read it. Its roles are `text` and, optionally, `id`.
        counts: Counts of usable and unusable records, updated in place.

    Raises:
        InputError: If the file cannot be read, or has too many unusable records. Raised while iterating.
    """
    check_untagged(file.path)

    def made(values: Any) -> tuple[str | None, str]:
        name = values.get("id")
        return None if name is None else as_label(name, "id"), as_text(values["text"], "text")

    check_columns(file, ("text", "id"), "`cloze embed`")
    for number, (own_id, text) in read_examples(file, counts, ("text",), made, ("id",)):
        yield NamedText(str(number) if own_id is None else own_id, text)
