"""The errors a user can mend.

One family, so that the command line can tell the user's mistakes from ours: an `InputError` is printed as one
paragraph and ends with exit code 2; anything else is a fault of the program and keeps its traceback.
"""


class InputError(ValueError):
    """Something the user gave is wrong: the message says what, where, and what would mend it."""
