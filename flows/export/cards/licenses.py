"""Licenses as others spell them: an SPDX identifier, and the tag of the Hugging Face hub.

The stated license is that of a record, a source or the recipe. Nothing is guessed: an unknown spelling is kept.
"""

import re

_IDENTIFIERS = (
    "CC0-1.0 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC-BY-NC-4.0 CC-BY-ND-4.0 CC-BY-NC-SA-4.0 CC-BY-NC-ND-4.0 "
    "Apache-2.0 MIT BSD-2-Clause BSD-3-Clause PSF-2.0 Python-2.0 ISC Unlicense"
).split()
SPDX = {  # by the spelling in lower case, with hyphens
    **{identifier.lower(): identifier for identifier in _IDENTIFIERS},
    **{"cc0": "CC0-1.0", "gfdl": "GFDL-1.3-or-later"},
    **{"odc-by-1.0": "ODC-By-1.0", "odbl-1.0": "ODbL-1.0", "pddl-1.0": "PDDL-1.0"},
}
TAGS = {  # most are the identifier in lower case; Python's licences have no tag
    **{identifier: identifier.lower() for identifier in _IDENTIFIERS if not identifier.startswith("P")},
    **{"GFDL-1.3-or-later": "gfdl", "ODC-By-1.0": "odc-by", "ODbL-1.0": "odbl", "PDDL-1.0": "pddl"},
}
NOT_STATED = "not stated"
_LICENSE_URL = re.compile(r"https?://(?:www\.)?creativecommons\.org/licenses/([a-z-]+)/(\d\.\d)(?:/.*)?", re.IGNORECASE)
_CC0_URL = re.compile(r"https?://(?:www\.)?creativecommons\.org/publicdomain/zero/1\.0(?:/.*)?", re.IGNORECASE)


def find_spdx_id(stated: str) -> str:
    """Return the SPDX identifier for a license name or URL as stated by a source, or "" if it is not recognized.

    >>> find_spdx_id("CC BY-SA 4.0"), find_spdx_id("https://creativecommons.org/licenses/by/4.0/")
    ('CC-BY-SA-4.0', 'CC-BY-4.0')
    >>> find_spdx_id("All rights reserved")
    ''
    """
    if _CC0_URL.fullmatch(stated):
        return "CC0-1.0"
    match = _LICENSE_URL.fullmatch(stated)
    text = f"cc-{match[1]}-{match[2]}" if match else stated
    return SPDX.get(re.sub(r"[\s_]+", "-", text.strip()).lower(), "")


def to_license_tags(stated: set[str]) -> list[str]:
    """Convert license names to a sorted list of Hugging Face Hub license tags.

    A license without a tag becomes "other". If there are no licenses, the only tag is "unknown".

    >>> to_license_tags({"CC0", "All rights reserved"}), to_license_tags(set())
    (['cc0-1.0', 'other'], ['unknown'])
    """
    tags = {"unknown" if text == NOT_STATED else TAGS.get(find_spdx_id(text), "other") for text in stated}
    return sorted(tags) or ["unknown"]


def to_license_address(stated: str) -> str:
    """Return the SPDX URL for a stated license, or the text unchanged if it is not recognized.

    >>> to_license_address("CC BY-SA 4.0"), to_license_address("by permission")
    ('https://spdx.org/licenses/CC-BY-SA-4.0', 'by permission')
    """
    identifier = find_spdx_id(stated)
    return f"https://spdx.org/licenses/{identifier}" if identifier else stated
