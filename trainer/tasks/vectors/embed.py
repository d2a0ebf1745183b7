"""Vectors of texts, of their words or of their tokens, by any model, fine-tuned or only pre-trained.

    records ─► texts ─► windows of tokens ─► batches of one length ─► layers chosen ─► pooled ─► Parquet, in file order

Promise: a row for each record that can be used, in the order of the file, and for each word or token of it where these
are asked for; of a text that is cut those of what is left. The file appears in one step. The same command after a kill
resumes after what was written (`vector_parts`), and ends with the same bytes: it reads and cuts the texts again, and
computes only what is missing. Memory: the model, and the vectors of WINDOW_TOKENS tokens in every layer asked for,
however long the file is.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor, nn

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.sources.bytes.unchanged import states_of, unchanged
from corpora.store.ledger import Ledger
from tokenizers_train.vocabularies.borders import find_piece_offsets
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.sentences import Prompt, SentenceFolder
from trainer.metrics import line
from trainer.model.encoder import TransformerEncoder
from trainer.tasks.contract import Items, TaskItem, Tokens
from trainer.tasks.data import digest_at, digest_of, enough_together, together
from trainer.tasks.embeddings import VectorRows, VectorsMade, new_vectors, vector_schema, vector_table
from trainer.tasks.formats.layouts.retrieval import check_untagged
from trainer.tasks.formats.reading import check_columns, read_examples
from trainer.tasks.formats.records import FileSettings, RowCounts, as_label, as_text
from trainer.tasks.heads.task_model import batch_of_items
from trainer.tasks.heads.vector_steps import pooled
from trainer.tasks.heads.vectors import VectorModel
from trainer.tasks.kinds.vectors import SKIPPED
from trainer.tasks.saving import read_source
from trainer.tasks.text_encoder import TextEncoder
from trainer.tasks.vectors.parts import VectorParts, vector_parts
from trainer.tasks.vectors.settings import EmbedSettings

TEXTS_AT_ONCE = 256
WINDOW_TOKENS = 32_768
BATCH_TOKENS = 8_192
SAY_SECONDS = 5.0
SAVE_SECONDS = 60.0  # after which what is made is written down


class NamedText(NamedTuple):
    """A record: its id, or its line, and its text."""

    id: str
    text: str


Window = tuple[list[NamedText], list[Encoding]]  # that is read at once


@dataclass(slots=True, kw_only=True)
class Embedder:
    """A model that makes vectors. after: what follows its pooling; width: numbers of a vector"""

    encoder: TransformerEncoder
    after: nn.Module
    width: int
    texts: TextEncoder
    settings: EmbedSettings
    made: VectorsMade
    device: torch.device

    @staticmethod
    def of(folder: Path, settings: EmbedSettings, device: torch.device, prompt: Prompt = "") -> "Embedder":
        """Return the encoder of a folder. Raises InputError for layers and lengths that it does not have.

        prompt: of the folder for what is embedded, where the settings name none
        """
        loaded = read_source(folder)
        model = loaded.model if isinstance(loaded.model, VectorModel) else None
        has_two = model is not None and not model.task.shared
        encoder = [*loaded.model.encoders()][has_two and settings.side == "second"]
        length, own = settings.max_length or loaded.max_length, model.pooling if model is not None else "mean"
        if length > loaded.settings.positions:
            positions = loaded.settings.positions
            raise InputError(f"max_length = {length}, and the model {folder} reads {positions} tokens: lower it.")
        resolved, layers = replace(settings, pooling=settings.pooling or own), _layers(settings, encoder, folder)
        prompts = (settings.prompt or prompt,) * 2 if settings.by == "text" else ((), ())
        texts = TextEncoder.of(folder, loaded.inputs, length, prompts)
        after, width = _after(model, resolved, layers, encoder)
        sentences = model.sentences if model is not None else None
        made = VectorsMade(
            model=_digest(folder, sentences),
            by=resolved.by,
            pooling=resolved.pooling,
            layers=layers,
            combine=resolved.combine if len(layers) > 1 else "",
            side=resolved.side if has_two else "first",
            similarity=(sentences and sentences.similarity) or (model.task.by if model is not None else "cosine"),
            max_length=length,
            prompt=texts.prompts[0],
        )
        return Embedder(
            encoder=encoder.to(device).eval(),
            after=after.to(device).eval(),
            width=width,
            texts=texts,
            settings=resolved,
            made=made,
            device=device,
        )

    def vectors(self, encodings: Sequence[Encoding]) -> list[Float32s]:
        """Return the vectors asked for of each text, float32 [1 or words or tokens, H]; in their order."""
        return self.vectors_of([*map(Tokens.of, encodings)], encodings)

    def vectors_of(self, sequences: Sequence[Tokens], encodings: Sequence[Encoding] = ()) -> list[Float32s]:
        """Return the same of sequences of tokens. encodings: of each, where words or tokens are asked for"""
        targets = {SKIPPED: np.array(self.texts.skipped[:1], np.int64)} if self.texts.skipped else {}
        items = [TaskItem(sequences=(each,), example=0, targets=targets) for each in sequences]
        by_place = dict[int, Float32s]()
        for places in together(items, BATCH_TOKENS):
            own = [encodings[place] for place in places] if encodings else []
            by_place |= zip(places, self._batch([items[place] for place in places], own), strict=True)
        return [by_place[place] for place in range(len(items))]

    @torch.inference_mode()
    def _batch(self, items: Items, encodings: Sequence[Encoding]) -> list[Float32s]:
        batch = batch_of_items(items).to(self.device)
        every = self.encoder.hidden_states(batch)
        states = [every[layer] for layer in self.made.layers]
        hidden_TH = torch.cat(states, -1) if self.settings.combine == "concat" else torch.stack(states).sum(0)
        if self.settings.combine == "mean":
            hidden_TH = hidden_TH / len(states)
        if self.settings.by == "text":
            vectors_SH = self.after(pooled(hidden_TH, batch, self.settings.pooling))
            return [row[None] for row in vectors_SH.cpu().numpy()]
        of_texts = torch.split(hidden_TH.float().cpu(), [len(encoding) for encoding in encodings])
        return [
            _of_pieces(rows, [*_pieces(encoding, self.settings.by)])
            for rows, encoding in zip(of_texts, encodings, strict=True)
        ]


def _layers(settings: EmbedSettings, encoder: TransformerEncoder, folder: Path) -> tuple[int, ...]:
    """Return the layers that are asked for, counted from what enters the first. Raises InputError."""
    depth = encoder.shape.layers
    wrong = [layer for layer in settings.layers if not -depth - 1 <= layer <= depth]
    if wrong:
        raise InputError(
            f"layers names {wrong[0]}, and the model {folder} has {depth}: name some from 1 to {depth}, from "
            "-1 (the last) back, or 0 for what enters the first."
        )
    return tuple(layer % (depth + 1) for layer in settings.layers)


def _after(
    model: VectorModel | None, settings: EmbedSettings, layers: tuple[int, ...], encoder: TransformerEncoder
) -> tuple[nn.Module, int]:
    """Return what follows the pooling, and the width of vectors: of a model's own pooling of its last layer, or none.

    settings: with the pooling
    """
    by_text = settings.by == "text"
    if model is not None and by_text and (settings.pooling, layers) == (model.pooling, (encoder.shape.layers,)):
        return model.after, model.widths[-1]
    parts = len(layers) if settings.combine == "concat" else 1
    return nn.Sequential(), encoder.shape.hidden_size * parts * (len(settings.pooling.split("+")) if by_text else 1)


def _digest(folder: Path, sentences: SentenceFolder | None) -> str:
    """Return a digest of the weights of an encoder and of what follows its pooling."""
    steps = sentences.steps if sentences is not None else ()
    paths = [path for step in steps if step.path for path in sorted((folder / step.path).glob("*"))]
    return digest_of([folder / WEIGHTS, *paths])


def _pieces(encoding: Encoding, by: str) -> Iterator[list[int]]:
    """Yield the places of each word's tokens, as the tokenizer splits words, or of each token, but for special ones."""
    words = [
        (place, place if by == "token" or word is None else None, word)
        for place, (word, special) in enumerate(zip(encoding.word_ids, encoding.special_tokens_mask, strict=True))
        if not special
    ]
    for _, tokens in groupby(words, key=lambda token: token[1:]):
        yield [place for place, _, _ in tokens]


def _of_pieces(rows_TH: Tensor, pieces: Sequence[list[int]]) -> Float32s:
    """The mean of each piece's tokens: [pieces, H]."""
    means = [rows_TH[places].mean(0) for places in pieces]
    return torch.stack(means).numpy() if means else np.empty((0, rows_TH.shape[1]), np.float32)


# Files.


def embed_file(embedder: Embedder, file: FileSettings, output: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Write the vectors of a file's records; what was done. Raises InputError."""
    counts, states = RowCounts(), states_of([file.path])
    precision = embedder.settings.precision
    schema = vector_schema(embedder.made, embedder.width, precision)
    with vector_parts(output, _asked(embedder, file), schema) as parts:
        with unchanged(states):
            windows = windows_of(named_texts(file, counts), embedder.texts)
            done, tokens = _embed_windows(embedder, windows, parts, say)
        rows = parts.rows
        with new_vectors(output, schema) as write:
            for table in parts.tables():
                write(table)
    figures = {"tokens": tokens, "texts_cut": embedder.texts.num_cut, "tokens_cut": embedder.texts.tokens_cut}
    ledger = Ledger(accounts=(counts.account,), figures=figures).check()
    return {"texts": done, "rows": rows, "width": embedder.width, "ledger": ledger.to_json()}


def _embed_windows(
    embedder: Embedder, windows: Iterator[Window], parts: VectorParts, say: Callable[[str], None]
) -> tuple[int, int]:
    """Make the vectors of all windows that no part has; return the number of all texts and tokens."""
    schema = vector_schema(embedder.made, embedder.width, embedder.settings.precision)
    kept = parts.windows
    done = tokens = 0
    reported = saved = time.monotonic()
    for number, (texts, encodings) in enumerate(windows):
        done += len(texts)
        tokens += sum(map(len, encodings))
        if number >= kept:
            parts.add(vector_table(vector_rows(embedder, texts, encodings), schema))
        if time.monotonic() - saved >= SAVE_SECONDS:
            parts.save()
            saved = time.monotonic()
        if time.monotonic() - reported >= SAY_SECONDS:
            reported = time.monotonic()
            say(line({"event": "step", "step": done, "rows": parts.rows}))
    parts.save()
    return done, tokens


def _asked(embedder: Embedder, file: FileSettings) -> dict[str, Any]:
    """Return what must be the same where a run resumes: all that the vectors and their order follow from."""
    tokenizer = hashlib.sha256(embedder.texts.tokenizer.to_str().encode()).hexdigest()
    return {
        "made": asdict(embedder.made),
        "settings": asdict(embedder.settings),
        "tokenizer": tokenizer,
        "device": embedder.device.type,
        "windows": [TEXTS_AT_ONCE, WINDOW_TOKENS, BATCH_TOKENS],
        "file": {**asdict(file), "path": ""},
        "contents": digest_at(file.path) or f"none, at {time.time_ns()}",  # of a pipe: a run never resumes
    }


def vector_rows(embedder: Embedder, texts: Sequence[NamedText], encodings: Sequence[Encoding]) -> VectorRows:
    """Return the rows of a window."""
    arrays = embedder.vectors(encodings)
    vectors = np.concatenate(arrays)
    if embedder.settings.by == "text":
        return VectorRows([text.id for text in texts], vectors)
    pieces = [
        (text.id, number, text.text[own[places[0]][0] : own[places[-1]][1]])
        for text, encoding in zip(texts, encodings, strict=True)
        for own in [find_piece_offsets(text.text, encoding)]
        for number, places in enumerate(_pieces(encoding, embedder.settings.by))
    ]
    ids, places, words = zip(*pieces, strict=True) if pieces else ((), (), ())
    return VectorRows(ids, vectors, places, words)


def windows_of(texts: Iterator[NamedText], encoder: TextEncoder) -> Iterator[Window]:
    """Texts and their tokens, so many together as memory is meant for."""
    batches = iter(lambda: [*islice(texts, TEXTS_AT_ONCE)], [])
    prompt = encoder.prompts[0]
    encoded = (zip(batch, encoder.encode([prompt + text.text for text in batch]), strict=True) for batch in batches)
    for some in enough_together(chain.from_iterable(encoded), lambda both: len(both[1]), WINDOW_TOKENS):
        yield [text for text, _ in some], [encoding for _, encoding in some]


def named_texts(file: FileSettings, counts: RowCounts) -> Iterator[NamedText]:
    """Yield the records of a file with their ids. Raises InputError."""
    check_untagged(file.path)

    def made(values: Any) -> tuple[str | None, str]:
        name = values.get("id")
        return None if name is None else as_label(name, "id"), as_text(values["text"], "text")

    check_columns(file, ("text", "id"), "`cloze embed`")
    for number, (own_id, text) in read_examples(file, counts, ("text",), made, ("id",)):
        yield NamedText(str(number) if own_id is None else own_id, text)
