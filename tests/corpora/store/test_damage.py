"""Documents that end with a digest of themselves: no byte of one changes unnoticed."""

import json

import pytest

from corpora.store.damage import Damaged, seal, unseal

FIELDS = {"key": "ab", "ids": ["c"]}
PLAIN = json.dumps(FIELDS, indent=1).encode()


def test_a_sealed_document_with_any_byte_changed_or_cut_is_refused() -> None:
    document = seal(PLAIN)
    assert unseal(document, "here") == FIELDS
    for place in range(len(document)):
        for changed in {0, 0x0A, 0x20, 0x22, 0x61, document[place] ^ 1, document[place] ^ 16} - {document[place]}:
            with pytest.raises(Damaged):
                unseal(document[:place] + bytes([changed]) + document[place + 1 :], "here")
        with pytest.raises(Damaged):
            unseal(document[:place], "here")
    with pytest.raises(Damaged):
        unseal(document + b"\n", "here")
