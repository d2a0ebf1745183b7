"""`cloze vocabulary adapt`: a vocabulary, and a model that was trained with it, fitted to a domain.

It imports what it needs when it runs.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.command.arguments import AsJson, Count, NamesStore, VocabularyName
from flows.command.terminal.output import console, print_json, say


def adapt(
    vocabulary: VocabularyName,
    *,
    corpus: Annotated[
        list[str], Parameter(help="Files, a folder or a corpus of the store; may be given again.", negative=())
    ],
    output: Annotated[Path, Parameter(help="Folder for the new vocabulary; it must be empty or not exist.")],
    tokens: Annotated[Count | None, Parameter(help="How many tokens to add, in unused slots first.")] = None,
    fill: Annotated[bool, Parameter(help="Add as many as there are [unusedN] slots.", negative=())] = False,
    append: Annotated[bool, Parameter(help="Leave unused slots as they are.", negative=())] = False,
    checkpoint: Annotated[
        str | None, Parameter(help="A model that was trained with the vocabulary: give it rows for the new tokens.")
    ] = None,
    min_count: Annotated[Count, Parameter(help="Ignore words that occur less often.")] = 5,
    digits: Annotated[bool, Parameter(help="Also take words with digits.", negative=())] = False,
    text: Annotated[str, Parameter(help="The field or column that holds the text.")] = "text",
    store: NamesStore = "store",
    as_json: AsJson = False,
) -> None:
    """Add tokens for the words of a domain, to a model as well.

    What the new tokens save is reported.
    """
    from corpora.errors import InputError
    from flows.command.trainer_process import model_folder
    from flows.command.vocabulary.adaptation import adapt_vocabulary, number_wanted
    from flows.command.vocabulary.display import adaptation_display
    from flows.command.vocabulary.domain_counts import count_domain
    from flows.command.vocabulary.named import find_vocabulary
    from flows.export.folder import new_folder
    from tokenizers_train.adapting.adapt import LETTERS, LETTERS_AND_DIGITS, AdaptSettings
    from trainer.huggingface.embeddings import adapt_checkpoint, checked_config

    if append and fill:
        raise InputError("--append leaves unused slots as they are, and --fill fills them: give one of the two.")
    old = find_vocabulary(vocabulary, store)
    wanted = number_wanted(old, tokens, fill)
    characters = LETTERS_AND_DIGITS if digits else LETTERS
    settings = AdaptSettings(min_count=min_count, characters=characters)
    with ExitStack() as stack:
        folder = stack.enter_context(new_folder(output))
        model = stack.enter_context(model_folder(checkpoint)) if checkpoint else None
        if model is not None:
            checked_config(model, old)
        domain = count_domain(corpus, old, store, text, (lambda line: None) if as_json else say)
        new, facts = adapt_vocabulary(old, domain, wanted, settings, append)
        if model is None:
            new.save(folder)
        else:
            facts["model_rows"] = adapt_checkpoint(model, old, new, folder)
    if as_json:
        print_json(facts)
    else:
        console.print(adaptation_display(vocabulary, facts, output))
