"""English-like texts for the tests of benchmarks."""

import random

WORDS = (
    "the of and to that river keeper market light house café winter carried measured remembered stones boat quiet "
    "evening before because village naïve hundred stories people island road little always never"
).split()


def prose(seed: int, sentences: int = 9) -> str:
    """English-like text that the rules keep, with a few letters beyond ASCII."""
    draw = random.Random(seed)
    picked = (draw.choices(WORDS, k=draw.randrange(8, 14)) for _ in range(sentences))
    return " ".join(f"The {' '.join(words)} “with” him." for words in picked)
