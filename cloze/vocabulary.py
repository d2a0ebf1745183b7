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
    """A vocabulary. `len(vocab)` is the number of its tokens, which have the ids from 0; `"[MASK]" in vocab`.

    It is called as a tokenizer of transformers is, and can replace one in calls, data collators and `Trainer`. It has
    `mask_token`, `mask_token_id` and so on for pad, unk, cls and sep.
    """

    is_fast = True  # which transformers asks before it uses offsets

    def __init__(self, words: Words, tables: Tables | None = None, made: tuple[Workspace, Manifest] | None = None):
        """For the functions of this package. made: the workspace and artifact, if it was trained there"""
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
        """Encode a text or several, as single texts or in pairs, as transformers does with the same arguments.

        text, text_pair: texts, in a list, an array or a column; with `is_split_into_words` lists of words
        padding:        True or "longest", "max_length", False
        truncation:     True or "longest_first", "only_first", "only_second", False
        max_length:     tokens, special ones included; default: the `model_max_length` of the vocabulary's folder
        stride:         tokens that a cut text and the one that overflows share
        return_tensors: "np" for arrays of numpy, "pt" for tensors of torch, [B, T] of 64 bits; None for lists

        Raises InputError: an unknown choice, a padding without a pad token, texts of different lengths as an array.
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "text", "text_pair")}
        return self._call.encode(text, text_pair, CallOptions(**options))

    def tokenize(self, text: str, pair: str | None = None, *, add_special_tokens: bool = False) -> list[str]:
        """Return the tokens of a text, or of a pair of texts."""
        return self(text, pair, add_special_tokens=add_special_tokens).tokens()

    def decode(self, ids: Any, *, skip_special_tokens: bool = False) -> str:
        """Return the text of ids: a number, a list, an array or a tensor [T]."""
        numbers = [int(number) for number in (ids if isinstance(ids, Iterable) else [ids])]
        return str(self._call.tokenizer.decode(numbers, skip_special_tokens=skip_special_tokens))

    def batch_decode(self, ids: Any, *, skip_special_tokens: bool = False) -> list[str]:
        """Return the texts of several lists of ids, or of an array or a tensor [B, T]."""
        return [self.decode(row, skip_special_tokens=skip_special_tokens) for row in ids]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Return the id of a token, or of each; of what is no token that of the unknown one."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        return self._words.find_id(tokens) if tokens in self._words else self.special_ids.get("unk")

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens with these ids. Raises IndexError."""
        return [self._words.tokens[number] for number in ids]

    @property
    def algorithm(self) -> str:
        """How its tokens were learnt: "wordpiece", "byte-bpe", "unigram", or another name of tokenizers' for it."""
        return self._words.algorithm

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids of the special tokens by role: pad, unk, cls, sep, mask; of further ones by the token itself."""
        return self._words.special_ids

    @property
    def model_input_names(self) -> list[str]:
        """What a call returns, in the order of transformers."""
        return [*self._call.input_names]

    @property
    def model_max_length(self) -> int:
        """Tokens of the longest text that its models read, as far as its folder says so; else 10^20."""
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
        """Fill encoded texts to one length, as transformers does; its data collators ask for it.

        encoded_inputs: what a call gave, or a list of what calls gave for one text each
        """
        options = {name: value for name, value in locals().items() if name not in ("self", "encoded_inputs", "verbose")}
        return self._call.pad(encoded_inputs, CallOptions(**options))

    def get_special_tokens_mask(
        self, token_ids_0: Any, token_ids_1: Any = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """Return 1 for each special token of ids that have them, and 0 for each other. Raises InputError."""
        if not already_has_special_tokens or token_ids_1 is not None:
            raise InputError("Special tokens are put in by a call: ask that for them, with return_special_tokens_mask.")
        special = {*self.all_special_ids}
        return [int(int(number) in special) for number in token_ids_0]

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of the special tokens."""
        return [*self.special_ids.values()]

    @property
    def padding_side(self) -> str:
        """The side at which texts are filled: "right" or "left"."""
        return self._call.padding_side

    def __getattr__(self, name: str) -> Any:
        """Return `pad_token`, `mask_token_id` and so on: a special token of a role, or its id; None without one."""
        role, _, kind = name.partition("_")
        if role not in (*ROLES, "bos", "eos") or kind not in ("token", "token_id"):
            raise AttributeError(f"a vocabulary has no {name!r}")
        return (self.special_ids if kind == "token_id" else self._words.special_tokens).get(role)

    def save(self, folder: str | Path) -> None:
        """Write its files into a folder, which tokenizers and AutoTokenizer open. Raises InputError."""
        with explain_disk_errors(Path(folder)):
            self._words.save(Path(folder))

    save_pretrained = save

    def to_hf(self) -> Any:
        """Return the tokenizer of transformers. Raises ImportError if transformers is not installed."""
        from transformers import AutoTokenizer  # an extra: `reference`

        with TemporaryDirectory() as folder:
            self.save(folder)
            return AutoTokenizer.from_pretrained(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self._words, self._tables)

    def __len__(self) -> int:
        return self._words.size

    def __getitem__(self, at: int | slice) -> Any:
        """Return the token with an id, or those of a slice as a list. Raises IndexError."""
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
    """Train a vocabulary on documents, without those that are held out for evaluation.

    docs:      documents, as they are: near-duplicates count if they were not removed; or what `read` takes
    algorithm: "wordpiece" (BERT), "byte-bpe" (RoBERTa) or "unigram" (ALBERT)
    size:      tokens in all, special ones included; fewer if the texts yield no more
    progress:  whether bars are shown; default: as for the documents
    settings:  further keys of a recipe's table `[vocabulary]`: `lowercase`, `strip_accents`, `min_frequency`, ...; by
               default, case, accents and letters are kept as the texts of a folder need it, as by `cloze run --source`

    Raises InputError: an unknown setting, a size with nothing to learn, or no words.

    >>> vocab = train_vocabulary(["The tide goes out. The tide comes in."] * 9, size=40)
    >>> vocab.tokenize("The tide")
    ['the', 'tide']
    """
    given = to_documents(docs, progress)
    chosen = {"algorithm": algorithm, "size": size, **settings}
    fitted = {"size": 8000, **given._opened.get_fitted("vocabulary").get("vocabulary", {})}
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

    manifest = made._run_past_faults(work)
    return Vocabulary(read_vocabulary(workspace.place, manifest), table, (workspace, manifest))


def load_vocabulary(folder: str | Path, *, lowercase: bool | None = None) -> Vocabulary:
    """Load a vocabulary from a folder that `save`, `cloze run` or Hugging Face's tools wrote, or from a vocab.txt.

    lowercase: whether a bare vocab.txt is of an uncased model; default: as its tokens look

    Nothing in the folder is run. Raises InputError: no tokenizer there, or one that contradicts itself.
    """
    return Vocabulary(load_words(Path(folder), lowercase))


def get_manifest(vocabulary: Vocabulary, workspace: Workspace, recipe: Recipe) -> Manifest:
    """Return the manifest of a vocabulary in a workspace, which stores it first if it was made elsewhere.

    Raises InputError if the vocabulary lacks special tokens.
    """
    if vocabulary._made is not None and vocabulary._made[0].place.address == workspace.place.address:
        return vocabulary._made[1]
    vocabulary._words.check_roles("The vocabulary")
    [manifest] = workspace.perform([plan_given_vocabulary(recipe.name_artifact(""), vocabulary._words.with_template())])
    return manifest
