"""A call of a vocabulary, in the form of Hugging Face's tokenizers: the same arguments, the same names, the same ids.

Promise: what comes out is what transformers' tokenizer of the same folder gives for the same arguments; a property test
compares them on hostile text. Only the places differ of tokens that begin late there: by the space that a tokenizer put
before a word, theirs cuts a letter off, and here the word begins where it does in the text. Like theirs, and other than
the encoding of documents for shards, it takes a special token that is written out in a text ("[MASK]") for that token.
Cost: that of the library `tokenizers`, 2 to 4 MB of text a second of one core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from threading import Lock
from typing import Any

import numpy as np
import tokenizers

from cloze.inputs import to_texts
from corpora.errors import InputError
from corpora.store.settings import check_choice
from tokenizers_train.vocabularies.borders import keep_spaces, trim_spaces
from tokenizers_train.vocabularies.files import translate_tokenizers_errors

NO_LENGTH = 10**20  # of a folder that sets no longest text, as transformers has it
PADDINGS = {False: "do_not_pad", True: "longest"}
TRUNCATIONS = {None: "do_not_truncate", False: "do_not_truncate", True: "longest_first"}
FILLS = {"attention_mask": 0, "token_type_ids": 0, "special_tokens_mask": 1}  # of what is no text
WITH_SEGMENTS = ("Bert", "Electra", "Albert")  # classes of tokenizers whose models have two segments


class Encoding(dict[str, Any]):
    """The result of calling a vocabulary: a dictionary with values that can also be read as attributes.

    It has `input_ids` and `attention_mask`, and `token_type_ids` if models with this vocabulary have segments. For one
    text, the values are lists of integers [T]. For several texts, they are lists of such lists [B][T], or arrays or
    tensors [B, T] if requested.
    """

    encodings: list[tokenizers.Encoding]

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def tokens(self, number: int = 0) -> list[str]:
        """Return the tokens of one encoded text as strings, including special tokens and padding.

        Args:
            number: Zero-based index of the text in the batch.

        Raises:
            IndexError: If the batch has no such text, or this is the result of `pad`.
        """
        return list(self.encodings[number].tokens)

    def word_ids(self, number: int = 0) -> list[int | None]:
        """Return, for each token of one text, the index of the word that it belongs to, or None if it is special.

        Args:
            number: Zero-based index of the text in the batch.

        Raises:
            IndexError: If the batch has no such text, or this is the result of `pad`.
        """
        return list(self.encodings[number].word_ids)

    def sequence_ids(self, number: int = 0) -> list[int | None]:
        """Return, for each token, 0 in the first text of a pair, 1 in the second, and None if it is special.

        Args:
            number: Zero-based index of the text, or pair of texts, in the batch.

        Raises:
            IndexError: If the batch has no such text, or this is the result of `pad`.
        """
        return list(self.encodings[number].sequence_ids)

    def to(self, device: Any) -> "Encoding":
        """Move all tensors of this encoding to a device, in place, and return this object. Other values are left
        unchanged.

        Args:
            device: A torch device or its name, such as "cuda".
        """
        self.update({name: value.to(device) if hasattr(value, "to") else value for name, value in self.items()})
        return self


@dataclass(frozen=True)
class CallOptions:
    """The arguments of a call, with the names that transformers uses. They are checked on creation.

    Raises:
        InputError: If a value is not allowed.
    """

    _: KW_ONLY
    add_special_tokens: bool = True
    padding: bool | str
    truncation: bool | str | None = None
    max_length: int | None
    stride: int = 0
    is_split_into_words: bool = False
    pad_to_multiple_of: int | None
    padding_side: str | None
    return_tensors: str | None
    return_token_type_ids: bool | None = None
    return_attention_mask: bool | None
    return_overflowing_tokens: bool = False
    return_special_tokens_mask: bool = False
    return_offsets_mapping: bool = False
    return_length: bool = False

    def __post_init__(self) -> None:
        check_choice("padding", self.padding_name, ("longest", "max_length", "do_not_pad"))
        names = ("longest_first", "only_first", "only_second", "do_not_truncate")
        check_choice("truncation", self.truncation_name, names)
        check_choice("padding_side", self.padding_side or "right", ("right", "left"))
        check_choice("return_tensors", self.return_tensors or "np", ("np", "pt"))

    @property
    def padding_name(self) -> str:
        """Padding strategy: "longest" (pad to the longest text of the batch), "max_length" or "do_not_pad"."""
        return PADDINGS[self.padding] if isinstance(self.padding, bool) else self.padding

    @property
    def truncation_name(self) -> str:
        """Truncation strategy: "longest_first", "only_first", "only_second" or "do_not_truncate".

        As in transformers, giving `max_length` without `truncation` or `padding` turns truncation on.
        """
        if isinstance(self.truncation, str):
            return self.truncation
        cuts = self.max_length is not None and self.padding is False and self.truncation is None
        return "longest_first" if cuts else TRUNCATIONS[self.truncation]


class TokenizerCall:
    """A tokenizer that can be called like one of transformers, also from several threads at once.

    Args:
        tokenizer: The tokenizer.
        config: The parsed tokenizer_config.json of its folder.
        special: The special token of each role, such as "mask".
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, config: dict[str, Any], special: dict[str, str]) -> None:
        self.tokenizer, self._config, self._special, self._lock = tokenizer, config, special, Lock()
        self._prefix = keep_spaces(tokenizer)
        name = str(config.get("tokenizer_class", ""))
        usual = ["input_ids", *["token_type_ids"] * name.startswith(WITH_SEGMENTS), "attention_mask"]
        self.names = list(config.get("model_input_names", usual))
        self.max_length = int(config.get("model_max_length") or NO_LENGTH)

    def encode(self, text: Any, pair: Any, options: CallOptions) -> Encoding:
        """Encode one or more texts or pairs of texts.

        Args:
            text: A text, or a list of texts. With `is_split_into_words`, a list of words or a list of such lists.
            pair: The second text of each pair, in the same format as `text`, or None.
            options: Options of the call, such as `padding` and `truncation`.

        Returns:
            For one text, lists of integers [T]. For several, lists of such lists [B][T]. With `return_tensors`, arrays
            or tensors [B, T].

        Raises:
            InputError: If `text` and `pair` do not match, an option cannot be applied, or a text cannot be encoded.
        """
        text = to_texts(text, "text", options.is_split_into_words)
        pair = None if pair is None else to_texts(pair, "text_pair", options.is_split_into_words)
        nested = isinstance(text, list)
        if pair is not None and isinstance(pair, list) != nested:
            raise InputError("text_pair must be as text is: a text with a text, or a list with a list of as many.")
        batched = bool(nested and text and isinstance(text[0], list)) if options.is_split_into_words else nested
        rows = _pair_texts(text, pair) if batched else [(text, pair) if pair else text]
        if not rows:
            return _build_encoding({name: [] for name in self.names}, [])
        with self._lock, translate_tokenizers_errors("A text cannot be encoded by this vocabulary's tokenizer"):
            self._set_lengths(options)
            encoded = self.tokenizer.encode_batch(
                rows, add_special_tokens=options.add_special_tokens, is_pretokenized=options.is_split_into_words
            )
        overflow = options.return_overflowing_tokens
        numbered = [(n, e) for n, one in enumerate(encoded) for e in [one, *(one.overflowing if overflow else ())]]
        columns = self._build_columns([e for _, e in numbered], options)
        if "offset_mapping" in columns and self._prefix is not None:
            sides = [row if pair else (row,) for row in rows]
            columns["offset_mapping"] = [self._find_offsets(e, sides[number], options) for number, e in numbered]
        if overflow:
            columns["overflow_to_sample_mapping"] = [number for number, _ in numbered]
        if options.return_tensors:
            columns = _to_arrays(columns, options.return_tensors)
        elif not batched and not overflow:
            columns = {name: values[0] if isinstance(values[0], list) else values for name, values in columns.items()}
        return _build_encoding(columns, [e for _, e in numbered])

    def pad(self, rows: Any, options: CallOptions) -> Encoding:
        """Pad encoded texts to the same length. The arguments are not changed.

        Args:
            rows: The encoding of one or more texts, or a list of single-text encodings.
            options: Padding options, such as `padding` and `max_length`.

        Raises:
            InputError: If `input_ids` are missing, there is no padding token, or an array was requested for texts that
                still differ in length.
        """
        if not isinstance(rows, Mapping):
            rows = [*rows]
            rows = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        if "input_ids" not in rows:
            raise InputError(f"pad fills what a call gives, with `input_ids`, and got {', '.join(rows) or 'nothing'}.")
        columns: dict[str, list[Any]] = {name: [*map(_to_plain, values)] for name, values in rows.items()}
        single = not all(isinstance(ids, list) for ids in columns["input_ids"])
        if single:
            columns = {name: [values] for name, values in columns.items()}
        lengths = [len(ids) for ids in columns["input_ids"]]
        filled, asked = dict(FILLS), options.return_attention_mask
        if not ("attention_mask" in self.names if asked is None else asked):
            del filled["attention_mask"]
        elif "attention_mask" not in columns:
            columns["attention_mask"] = [[1] * length for length in lengths]
        if options.padding_name != "do_not_pad":
            width = options.max_length if options.padding_name == "max_length" else None
            width, multiple = max(lengths, default=0) if width is None else width, options.pad_to_multiple_of or 1
            width = -(-width // multiple) * multiple
            left = (options.padding_side or self.default_padding_side) == "left"
            filled["input_ids"] = self.pad_id
            for name in filled.keys() & columns.keys():
                pairs = [(row, [filled[name]] * (width - len(row))) for row in columns[name]]
                columns[name] = [[*more, *row] if left else [*row, *more] for row, more in pairs]
        if single:
            columns = {name: values[0] for name, values in columns.items()}
        return _build_encoding(_to_arrays(columns, options.return_tensors) if options.return_tensors else columns, [])

    @property
    def default_padding_side(self) -> str:
        """Side on which texts are padded if a call does not name one: "right" or "left"."""
        return str(self._config.get("padding_side", "right"))

    @property
    def pad_id(self) -> int:
        """Id of the padding token.

        Raises:
            InputError: If the vocabulary has no padding token.
        """
        pad = self._special.get("pad")
        if pad is None:
            raise InputError("This vocabulary has no pad token to fill texts with: call it with padding=False.")
        number = self.tokenizer.token_to_id(pad)
        assert number is not None, "a special token is in its vocabulary"
        return number

    def _build_columns(self, encoded: Sequence[tokenizers.Encoding], options: CallOptions) -> dict[str, Any]:
        """Collect the requested values of encoded texts by name, such as `input_ids`: one list per text.

        Args:
            encoded: The encoded texts.
            options: Options of the call. If its `return_...` field is None, a value is included if models with this
                vocabulary read it.
        """
        asked = {
            ("token_type_ids", "type_ids"): options.return_token_type_ids,
            ("attention_mask", "attention_mask"): options.return_attention_mask,
            ("special_tokens_mask", "special_tokens_mask"): options.return_special_tokens_mask,
            ("offset_mapping", "offsets"): options.return_offsets_mapping,
        }
        columns: dict[str, Any] = {"input_ids": [e.ids for e in encoded]}
        for (name, attribute), wanted in asked.items():
            if name in self.names if wanted is None else wanted:
                columns[name] = [getattr(e, attribute) for e in encoded]
        if options.return_length:
            columns["length"] = [len(e.ids) for e in encoded]
        return columns

    def _find_offsets(
        self, encoding: tokenizers.Encoding, texts: Sequence[Any], options: CallOptions
    ) -> list[tuple[int, int]]:
        """Return the character range (start, end) of each token of one encoded text or pair.

        Args:
            encoding: The encoded text or pair.
            texts: The text, or both texts of the pair. With `is_split_into_words`, their lists of words.
            options: Options of the call.

        Returns:
            Ranges relative to the token's text, or to its word if words were given. A special token has the
            range (0, 0).
        """
        places, before = [], None
        each = zip(encoding.tokens, encoding.offsets, encoding.sequence_ids, encoding.word_ids, strict=True)
        for token, place, side, word in each:
            if side is not None:
                text = texts[side][word] if options.is_split_into_words else texts[side]
                prefixed = bool(self._prefix) and (side != before or place[0] == 0)
                place = trim_spaces(text, token, place, prefixed)
            places.append(place)
            before = side
        return places

    def _set_lengths(self, options: CallOptions) -> None:
        """Set padding and truncation of the tokenizer for the next call.

        Raises:
            InputError: If `max_length` is not a multiple of `pad_to_multiple_of`, or there is no padding token.
        """
        padding, truncation, length = options.padding_name, options.truncation_name, options.max_length
        if length is None and self.max_length >= NO_LENGTH:
            padding = "do_not_pad" if padding == "max_length" else padding
            truncation = "do_not_truncate"
        length = self.max_length if length is None else length
        multiple = options.pad_to_multiple_of
        if truncation == "do_not_truncate":
            self.tokenizer.no_truncation()
        else:
            if padding != "do_not_pad" and multiple and length % multiple:
                raise InputError(f"max_length = {length} is no multiple of pad_to_multiple_of = {multiple}: let it be.")
            side = self._config.get("truncation_side", "right")
            self.tokenizer.enable_truncation(length, stride=options.stride, strategy=truncation, direction=side)
        if padding == "do_not_pad":
            self.tokenizer.no_padding()
            return
        self.tokenizer.enable_padding(
            length=length if padding == "max_length" else None,
            direction=options.padding_side or self.default_padding_side,
            pad_id=self.pad_id,
            pad_token=self._special["pad"],
            pad_to_multiple_of=multiple,
        )


def _build_encoding(columns: Mapping[str, Any], encodings: list[tokenizers.Encoding]) -> Encoding:
    """Build the result of a call from its values, such as `input_ids`, and the encoded texts.

    Args:
        columns: The values by name.
        encodings: The encoded texts, which the methods of the result use. Empty if they are not known.
    """
    encoding = Encoding(columns)
    object.__setattr__(encoding, "encodings", encodings)
    return encoding


def _pair_texts(text: list[Any], pair: Any) -> list[Any]:
    """Combine each text with its second text into a tuple. If `pair` is None, return the texts as a list.

    Raises:
        InputError: If the numbers of texts differ.
    """
    if pair is None:
        return list(text)
    if isinstance(pair, str) or len(pair) != len(text):
        raise InputError(f"text has {len(text)} texts, and text_pair must be a list of as many.")
    return list(zip(text, pair, strict=True))


def _to_arrays(columns: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Convert columns of lists to NumPy arrays ("np") or torch tensors ("pt"), [B, T] each.

    Args:
        columns: For each name a list with one list of numbers per text.
        kind: "np" or "pt".

    Raises:
        InputError: If the texts have different lengths.
    """
    arrays = {name: _to_array(name, values) for name, values in columns.items()}
    if kind == "np":
        return arrays
    from trainer.datasets import to_tensors  # torch is slow to import

    return to_tensors(arrays)


def _to_plain(values: Any) -> Any:
    """Convert a NumPy array or torch tensor to nested lists. Other values are returned unchanged."""
    return values.tolist() if hasattr(values, "tolist") else values


def _to_array(name: str, values: Any) -> Any:
    """Convert nested lists of equal lengths to an array: int64, or float32 if the values are floating-point numbers.

    Args:
        name: Name of the column in the error message.
        values: The lists.

    Raises:
        InputError: If the lists have different lengths.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"{name}: the texts have different lengths, and an array has one: call with padding=True and truncation="
            "True, or without return_tensors."
        ) from error
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
