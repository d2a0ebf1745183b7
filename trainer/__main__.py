"""The trainer's commands, `python -m trainer COMMAND ...`. Each is the `main` of a module.

    train       JOB.json                 pre-train a model (under torchrun, one process per rank)
    export      WORK FOLDER [--step N]   export a checkpoint as a folder that transformers can load
    finetune    JOB.json                 fine-tune a model on a task
    predict     MODEL FILE.json OUTPUT   predict every record of a file with a fine-tuned model
    evaluate    JOB.json                 fine-tune a model on the tasks of a suite, and score each
    fill        MODEL TEXT               predict the words for every [MASK] of a text
    onnx        MODEL FOLDER             export a model as an ONNX file, with its tokenizer and labels
    import      SOURCE OUTPUT            convert a checkpoint from an older format to the current one
    embed       JOB.json                 compute vectors of texts, words or tokens, and search among them

With `--die-with PID` before the command, the process exits when the parent process PID does, even if that one is
killed. An error that the user can fix is printed as one paragraph, and the exit code is 2. The process exits as soon as
its command returns.
"""

import importlib
import sys

from corpora.errors import InputError
from corpora.store.processes import exit_now, exit_with_parent

COMMANDS = {
    "train": "trainer.pretrain",
    "export": "trainer.checkpoints.exporting",
    "finetune": "trainer.tasks.finetuning.finetune",
    "predict": "trainer.tasks.predict",
    "evaluate": "trainer.tasks.evaluate",
    "fill": "trainer.tasks.fill",
    "onnx": "trainer.tasks.onnx",
    "import": "trainer.huggingface.checkpoints",
    "embed": "trainer.tasks.vectors.search",
}


def main(arguments: list[str]) -> int:
    """Run a command of the trainer, such as `train JOB.json`, and return its exit code.

    Args:
        arguments: The name of the command and its arguments. `--die-with PID` before them makes this process exit
            together with that one.

    Returns:
        The exit code of the command, or 2 for an unknown command or an error that the user can fix, which is printed.
    """
    if arguments[:1] == ["--die-with"]:
        exit_with_parent(int(arguments[1]))  # before torch is imported, which takes seconds
        arguments = arguments[2:]
    if not arguments or arguments[0] not in COMMANDS:
        print(f"trainer: name one of {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(COMMANDS[arguments[0]])
        return int(module.main(arguments[1:]))
    except InputError as error:
        print("trainer:", *str(error).splitlines(), file=sys.stderr)  # one line, whatever a file's name has in it
        return 2


if __name__ == "__main__":
    exit_now(main(sys.argv[1:]))
