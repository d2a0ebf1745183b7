"""Choosing one of several texts that continue a context, or answer a question about it: COPA, RACE, SWAG.

    context, question, choices ─► for each choice: the context, then question and choice ─► a score each ─► softmax

Each choice is a separate sequence. The probabilities of a question's choices add up to 1, however many there are. If a
sequence is too long, the context is truncated. Question and choice have up to `max_choice` tokens (RACE: 128 of 512,
Liu et al. 2019, section 4.3). A gap (`_`) in a question is filled with the choice, as fairseq does for RACE. COPA's
"cause" and "effect" are replaced by the questions that its authors print: "What was the CAUSE of this?" and "What
happened as a RESULT?".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.store.settings import check_range
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import Unusable, as_label, as_text
from trainer.tasks.task import MAX_COUNT, Answers, Items, Task, TaskItem, Tokens, softmax, with_first
from trainer.tasks.text_encoder import CUT_FIRST, TextEncoder

CHOICE = Term("choice")
COPA_QUESTIONS = {"cause": "What was the CAUSE of this?", "effect": "What happened as a RESULT?"}
GAP = "_"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class ChoiceExample(NamedTuple):
    """A question with several choices. The question may be empty.

    right: the zero-based index of the correct choice, or None if it is unknown
    level: the level of the question, such as "middle" or "high" in RACE; "" if there is none
    """

    context: str
    question: str
    choices: tuple[str, ...]
    right: int | None
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceTask(Task):
    """The task of finding the correct one of several choices.

    max_choice: maximum number of tokens of question and choice together; never more than half of a sequence
    endings:    names of columns with one choice each, instead of a column `choices` with a list
    metric:     metric that is used to choose the best epoch
    """

    max_choice: int = 128
    endings: tuple[str, ...] = ()
    metric: str = ""

    kind: ClassVar[str] = "choice"
    builder: ClassVar[str] = "trainer.tasks.heads.texts:ChoiceModel"
    term: ClassVar[Term] = CHOICE
    architecture: ClassVar[str] = "choices"
    optional_roles: ClassVar[frozenset[str]] = frozenset({"question", "level"})
    label_roles: ClassVar[frozenset[str]] = frozenset({"label"})

    def __post_init__(self) -> None:
        check_range("max_choice", self.max_choice, 1, MAX_COUNT)
        if len(self.endings) == 1 or len({*self.endings}) < len(self.endings):
            raise InputError(f"endings = {', '.join(self.endings)}: name two columns or more, each once.")
        _ = self.metrics

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of a record: the context, the question, the choices, the index of the correct one, and the level.

        If the examples have levels, scores are also computed for each level.
        """
        return ("context", "question", *(self.endings or ("choices",)), "label", "level")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The only metric, accuracy: the fraction of questions that are answered correctly."""
        return with_first(self.metric, ("accuracy",))

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> ChoiceExample:
        """Build an example from the values of a question with choices.

        Raises:
            Unusable: If there are fewer than two choices, a choice is empty, or the label is not one of the choices.
        """
        given = [values[name] for name in self.endings] if self.endings else values["choices"]
        if not isinstance(given, list | tuple) or len(given) < 2:
            raise Unusable("fewer than two choices")
        choices = tuple(as_text(choice, "a choice") for choice in given)
        if not all(choice.strip() for choice in choices):
            raise Unusable("an empty choice")
        question = values.get("question")
        return ChoiceExample(
            context=as_text(values["context"], "context"),
            question="" if question is None else as_text(question, "question"),
            choices=choices,
            right=_parse_choice(values.get("label"), len(choices)) if labelled else None,
            level="" if values.get("level") is None else as_label(values["level"], "level"),
        )

    def make_items(self, examples: Sequence[ChoiceExample], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Build an item for each question, with one sequence of context, question and choice for each choice.

        Args:
            examples: The questions.
            encoder: Turns texts into tokens.
            labelled: True to add the index of the correct choice as a target.
        """
        return [
            TaskItem(
                sequences=self._make_sequences(example, encoder),
                example=number,
                targets={CHOICE.name: np.array([example.right], np.int64)} if labelled else {},
            )
            for number, example in enumerate(examples)
        ]

    def _make_sequences(self, example: ChoiceExample, encoder: TextEncoder) -> tuple[Tokens, ...]:
        [context] = encoder.tokenize([example.context])
        endings = encoder.tokenize([format_ending(example.question, choice) for choice in example.choices])
        encoder.shorten(endings, min(self.max_choice, encoder.count_room(2) // 2))
        encodings = encoder.join([context] * len(endings), endings, cut=CUT_FIRST)
        return tuple(map(Tokens.from_encoding, encodings))

    def make_predictions(self, examples: Sequence[ChoiceExample], items: Items, answers: Answers) -> list[Float32s]:
        """Return the score (logit) of each choice of each question: float32 [choices].

        `answers` has the scores of each item's sequences, float32 [choices, 1].
        """
        return [answer[:, 0] for answer in answers]

    def compute_scores(self, examples: Sequence[ChoiceExample], predictions: Sequence[Float32s]) -> dict[str, float]:
        """Compute the `accuracy` of the predicted choices.

        If questions have levels, also compute `accuracy_LEVEL` for each.
        """
        right = np.array([outputs.argmax() == each.right for each, outputs in zip(examples, predictions, strict=True)])
        levels = np.array([example.level for example in examples])
        of_each = {
            f"accuracy_{level}": float(right[levels == level].mean()) for level in sorted({*levels.tolist()} - {""})
        }
        return {"accuracy": float(right.mean()), **of_each}

    def to_row(self, example: ChoiceExample, prediction: Float32s) -> dict[str, Any]:
        """Build a row for output from a question's scores.

        The keys are `label` (the index of the chosen text), `text` and `probabilities`, a list in the order of the
        choices.
        """
        chosen = int(prediction.argmax())
        return {
            "label": chosen,
            "text": example.choices[chosen],
            "probabilities": softmax(prediction).tolist(),
        }

    def judge(self, example: ChoiceExample, prediction: Float32s) -> dict[str, Any]:
        """Return the index of the correct choice as `gold`, and `score`: 1.0 if it was predicted, otherwise 0.0."""
        return {"gold": example.right, "score": float(prediction.argmax() == example.right)}


def format_ending(question: str, choice: str) -> str:
    """Join a question and a choice with a space, or fill a gap `_` in the question with the choice.

    The COPA questions "cause" and "effect" are spelled out.

    >>> format_ending("", "He ran."), format_ending("Oslo is in _ .", "Norway"), format_ending("Why?", "Rain.")
    ('He ran.', 'Oslo is in Norway .', 'Why? Rain.')
    >>> format_ending("cause", "It rained.")
    'What was the CAUSE of this? It rained.'
    """
    if GAP in question:
        return question.replace(GAP, choice)
    return f"{COPA_QUESTIONS.get(question, question)} {choice}".strip()


def _parse_choice(label: Any, count: int) -> int:
    """Parse the label of a question, and return the zero-based index of a choice.

    The label may be that index, or a letter from A on. `count` is the number of choices. Raises Unusable if the
    label does not identify a choice.
    """
    place = label
    if isinstance(label, str):
        text = label.strip()
        place = int(text) if text.isdecimal() and text.isascii() else LETTERS.find(text) if len(text) == 1 else -1
    if type(place) is not int or not 0 <= place < count:
        raise Unusable("a label that is none of the choices", f"{label!r:.40} of {count} from 0")
    return place
