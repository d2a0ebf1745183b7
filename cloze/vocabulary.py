"""Vocabularies: trained on documents, or loaded; called as Hugging Face's tokenizers are called.

vocab = cloze.train_vocabulary(docs, size=8000)
vocab("The tide was out.", truncation=True, max_length=128)["input_ids"]
vocab.save("my-tokenizer")                                   a folder that AutoTokenizer opens
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cloze.documents import to_documents
from cloze.encoding import CallOptions, Encoding, TokenizerCall
from cloze.workspace import Tables, Workspace
from corpora.build import Corpus
from corpora.errors import InputError
from corpora.store.manifest import Manifest
from flows.recipes.guessed_fields import propose_settings
from flows.recipes.recipe import Recipe
from flows.run.example_stages import make_vocabularies
from tokenizers_train.build import plan_given_vocabulary, read_vocabulary
from tokenizers_train.vocabularies.files import CONFIG, ROLES
from tokenizers_train.vocabularies.vocabulary import Vocabulary as Words
from tokenizers_train.vocabularies.vocabulary import load_vocabulary as load_words
from trainer.complete_folders import explain_disk_errors


class Vocabulary:
    """A vocabulary that can be called like a tokenizer of transformers, and used in its data collators and `Trainer`.

    `len(vocab)` is the number of tokens, whose ids start at 0, and `"[MASK]" in vocab` checks for a token. It has
    `mask_token`, `mask_token_id`, and the same for pad, unk, cls and sep.
    """

    is_fast = True  # which transformers asks before it uses offsets

    def __init__(self, words: Words, tables: Tables | None = None, made: tuple[Workspace, Manifest] | None = None):
        """Create a vocabulary. This is only for functions of this package.

        Args:
            words: The vocabulary.
            tables: Keys of the recipe's table `[vocabulary]` with which it was trained.
            made: The workspace in which it was trained, and its manifest.
        """
        self._words, self._tables, self._made = words, tables or {}, made
        config = json.loads(words.to_files().get(CONFIG, b"{}"))
        self._call = TokenizerCall(words.to_tokenizer(), config, dict(words.special_tokens))

    def __call__(
        self,
        text: Any,
        text_pair: Any = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
    ) -> Encoding:
        """Encode one or more texts or pairs of texts. transformers returns the same for the same arguments.

        Args:
            text: A text, or several in a list, an array or a column. With `is_split_into_words`, a list of words, or
                several such lists.
            text_pair: The second text of each pair, in the same format as `text`.
            add_special_tokens: Whether to add special tokens such as [CLS].
            padding: True or "longest", "max_length", or False.
            truncation: True or "longest_first", "only_first", "only_second", or False.
            max_length: Maximum number of tokens, including special tokens (default: `model_max_length` of the folder).
            stride: Number of tokens that a truncated text and its overflow share.
            is_split_into_words: Whether texts are given as lists of words.
            pad_to_multiple_of: If set, texts are padded to a multiple of this length.
            padding_side: "right" or "left" (default: from the folder).
            return_tensors: "np" for NumPy arrays or "pt" for torch tensors, int64 [B, T]. None for lists.

        Raises:
            InputError: If an option is unknown, there is no padding token, or an array was requested for texts of
                different lengths.
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "text", "text_pair")}
        return self._call.encode(text, text_pair, CallOptions(**options))

    def tokenize(self, text: str, pair: str | None = None, *, add_special_tokens: bool = False) -> list[str]:
        """Split a text, or a pair of texts, into the tokens of this vocabulary.

        Args:
            text: The text.
            pair: The second text of a pair, or None.
            add_special_tokens: Whether to add special tokens such as [CLS].
        """
        return self(text, pair, add_special_tokens=add_special_tokens).tokens()

    def decode(self, ids: Any, *, skip_special_tokens: bool = False) -> str:
        """Convert token ids of this vocabulary to one string.

        Args:
            ids: One id, or a list, array or tensor of ids [T].
            skip_special_tokens: Whether to leave out special tokens such as [CLS].
        """
        numbers = [int(number) for number in (ids if isinstance(ids, Iterable) else [ids])]
        return str(self._call.tokenizer.decode(numbers, skip_special_tokens=skip_special_tokens))

    def batch_decode(self, ids: Any, *, skip_special_tokens: bool = False) -> list[str]:
        """Convert several lists of token ids to one string each.

        Args:
            ids: Lists of ids, or an array or tensor [B, T].
            skip_special_tokens: Whether to leave out special tokens such as [CLS].
        """
        return [self.decode(row, skip_special_tokens=skip_special_tokens) for row in ids]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Return the id of a token, or a list of ids for several tokens.

        A token that is not in this vocabulary gets the id of the unknown token, or None if there is no such token.
        """
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        return self._words.find_id(tokens) if tokens in self._words else self.special_ids.get("unk")

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens with these ids.

        Raises:
            IndexError: If an id is out of range.
        """
        return [self._words.tokens[number] for number in ids]

    @property
    def algorithm(self) -> str:
        """Algorithm: "wordpiece", "byte-bpe", "unigram", or another model type of the tokenizers library."""
        return self._words.algorithm

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids of the special tokens of this vocabulary by role (pad, unk, cls, sep, mask).

        Special tokens without a role are listed by their text.
        """
        return self._words.special_ids

    @property
    def model_input_names(self) -> list[str]:
        """Names of the fields, such as "input_ids", that a call of this vocabulary returns by default, in order."""
        return [*self._call.names]

    @property
    def model_max_length(self) -> int:
        """Maximum input length, in tokens, of models that use this vocabulary. It is 10^20 if its folder does not
        specify one.
        """
        return self._call.max_length

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        verbose: bool = True,
    ) -> Encoding:
        """Pad encoded texts to the same length, as transformers does. Called by the transformers data collators.

        Args:
            encoded_inputs: The result of calling this vocabulary, or a list of results for single texts.
            padding: True or "longest" (the longest text), "max_length", or False.
            max_length: The length for "max_length" in tokens (default: the longest text).
            pad_to_multiple_of: If set, texts are padded to a multiple of this length.
            padding_side: "right" or "left" (default: from the folder).
            return_attention_mask: Whether to return the attention mask (default: as in `__call__`).
            return_tensors: "np" for NumPy arrays or "pt" for torch tensors, int64 [B, T]. None for lists.
            verbose: Ignored.

        Raises:
            InputError: If `input_ids` are missing, there is no padding token, or an option is unknown.
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "encoded_inputs", "verbose")}
        return self._call.pad(encoded_inputs, CallOptions(**options))

    def get_special_tokens_mask(
        self, token_ids_0: Any, token_ids_1: Any = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """Return a mask over token ids: 1 for special tokens, 0 for all others. The arguments are as in transformers.

        Args:
            token_ids_0: The ids, which already contain special tokens.
            token_ids_1: Must be None.
            already_has_special_tokens: Must be True.

        Raises:
            InputError: If `already_has_special_tokens` is False or a second list is given.
        """
        if not already_has_special_tokens or token_ids_1 is not None:
            raise InputError("Special tokens are put in by a call: ask that for them, with return_special_tokens_mask.")
        special = {*self.all_special_ids}
        return [int(int(number) in special) for number in token_ids_0]

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of all special tokens of this vocabulary, as a list."""
        return [*self.special_ids.values()]

    @property
    def padding_side(self) -> str:
        """Side on which this vocabulary pads texts by default: "right" or "left"."""
        return self._call.default_padding_side

    def __getattr__(self, name: str) -> Any:
        """Return `pad_token`, `mask_token_id` and so on: the special token of a role or its id, or None if there is
        none.
        """
        role, _, kind = name.partition("_")
        if role not in (*ROLES, "bos", "eos") or kind not in ("token", "token_id"):
            raise AttributeError(f"a vocabulary has no {name!r}")
        return (self.special_ids if kind == "token_id" else self._words.special_tokens).get(role)

    def save(self, folder: str | Path) -> None:
        """Write this vocabulary to a folder that the tokenizers library and AutoTokenizer open.

        The folder is created if necessary. Its files with the same names are replaced.

        Raises:
            InputError: If the folder cannot be written.
        """
        with explain_disk_errors(Path(folder)):
            self._words.save(Path(folder))

    save_pretrained = save

    def to_hf(self) -> Any:
        """Return a transformers tokenizer with the tokens and settings of this vocabulary.

        Raises:
            ImportError: If transformers is not installed.
        """
        from transformers import AutoTokenizer  # an extra: `reference`

        with TemporaryDirectory() as folder:
            self.save(folder)
            return AutoTokenizer.from_pretrained(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self._words, self._tables)

    def __len__(self) -> int:
        return self._words.size

    def __getitem__(self, at: int | slice) -> Any:
        """Return the token with an id, or a list of tokens for a slice.

        Raises:
            IndexError: If the id is out of range.
        """
        return [*self._words.tokens[at]] if isinstance(at, slice) else self._words.tokens[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._words.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._words

    def __repr__(self) -> str:
        return f"Vocabulary({self.algorithm}, {len(self):,} tokens)"


def train_vocabulary(
    docs: Any, algorithm: str = "wordpiece", size: int = 8000, *, progress: bool | None = None, **settings: Any
) -> Vocabulary:
    """Train a vocabulary on documents. Documents that are held out for evaluation are not used.

    Args:
        docs: Documents, or anything that `read` accepts. Near-duplicates contribute to the word counts unless you
            removed them first.
        algorithm: "wordpiece" (BERT), "byte-bpe" (RoBERTa) or "unigram" (ALBERT).
        size: Maximum number of tokens, including special tokens. A small corpus may yield fewer.
        progress: Whether to show progress bars (default: like the documents).
        settings: Additional keys of a recipe's table `[vocabulary]`: `lowercase`, `strip_accents`, `min_frequency`, ...
            By default, case, accents and letters are kept if the texts need it, as in `cloze run --source`.

    Raises:
        InputError: If a setting is unknown, the size is too small, or there are no words.

    >>> vocab = train_vocabulary(["The tide goes out. The tide comes in."] * 9, size=40)
    >>> vocab.tokenize("The tide")
    ['the', 'tide']
    """
    given = to_documents(docs, progress)
    chosen = {"algorithm": algorithm, "size": size, **settings}
    fitted = {"size": 8000, **given._opened.select_fitted("vocabulary").get("vocabulary", {})}
    table = (
        propose_settings({f"vocabulary.{key}": value for key, value in chosen.items()}, "vocabulary", fitted) | chosen
    )
    made = given._with("corpus", progress=progress, vocabulary=table)
    workspace, recipe = made._workspace, made._recipe

    def work() -> Manifest:
        corpus = Corpus(workspace.place, made._make_corpus())
        vocabularies, measures = make_vocabularies(recipe, corpus, {}, workspace.perform)
        workspace.perform(measures)
        return vocabularies[""]

    manifest = made._retry_without_bad_files(work)
    return Vocabulary(read_vocabulary(workspace.place, manifest), table, (workspace, manifest))


def load_vocabulary(folder: str | Path, *, lowercase: bool | None = None) -> Vocabulary:
    """Load a vocabulary from a folder written by `save`, `cloze run` or Hugging Face's tools, or from a vocab.txt.

    No code in the folder is run.

    Args:
        folder: The folder or file.
        lowercase: For a vocab.txt without configuration, whether it is uncased (default: guessed from its tokens).

    Raises:
        InputError: If there is no tokenizer, or its files contradict each other.
    """
    return Vocabulary(load_words(Path(folder), lowercase))


def store_vocabulary(vocabulary: Vocabulary, workspace: Workspace, recipe: Recipe) -> Manifest:
    """Copy a vocabulary into the store of a workspace, unless it was trained there.

    Args:
        vocabulary: The vocabulary.
        workspace: The workspace.
        recipe: The recipe that names the copy.

    Returns:
        The manifest (stored description) of the vocabulary in this store.

    Raises:
        InputError: If the vocabulary lacks a special token.
    """
    if vocabulary._made is not None and vocabulary._made[0].place.address == workspace.place.address:
        return vocabulary._made[1]
    vocabulary._words.check_roles("The vocabulary")
    [manifest] = workspace.perform([plan_given_vocabulary(recipe.name_artifact(""), vocabulary._words.with_template())])
    return manifest
