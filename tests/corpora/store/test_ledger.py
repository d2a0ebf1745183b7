"""Ledgers: what does not add up is never passed on."""

import json
import pickle
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.store.ledger import Account, Ledger, LedgerError, check_edge, sum_ledgers

counts = st.integers(0, 10**12)
names = st.sampled_from(["kept", "dropped: short", "dropped: long"])
outcomes = st.dictionaries(names, counts)
accounts = st.builds(
    lambda unit, outcomes: Account(unit=unit, total=sum(outcomes.values()), outcomes=outcomes),
    st.sampled_from(["records", "documents", "tokens"]),
    outcomes,
)
ledgers = st.builds(
    lambda accounts, figures: Ledger(accounts=tuple(accounts), figures=figures),
    st.lists(accounts, max_size=3, unique_by=lambda account: account.unit),
    st.dictionaries(st.sampled_from(["bytes", "sentences"]), counts),
)


def documents(total: int, **outcomes: int) -> Account:
    return Account(unit="documents", total=total, outcomes=outcomes)


@pytest.mark.parametrize(
    "account",
    [
        documents(3, kept=2),
        documents(3, kept=2, dropped=2),
        documents(1),
        documents(3, kept=4, dropped=-1),
    ],
    ids=["one vanished", "one appeared", "no outcome", "a negative count hides one"],
)
def test_a_mismatch_raises(account: Account) -> None:
    ledger = Ledger(accounts=(documents(2, kept=2), Account(unit="records", total=0, outcomes={})))
    assert ledger.check() is ledger
    with pytest.raises(LedgerError, match=r"\d documents came in and \d are accounted for"):
        account.check()
    with pytest.raises(LedgerError):
        Ledger(accounts=(account,)).check()


def test_two_wrong_ledgers_do_not_make_a_right_one() -> None:
    one, other = Ledger(accounts=(documents(3, kept=2),)), Ledger(accounts=(documents(2, kept=3),))
    assert (one + other).find_account("documents").total == 5
    with pytest.raises(LedgerError):
        sum_ledgers([one, other])


def test_one_account_a_unit() -> None:
    with pytest.raises(AssertionError, match="one account a unit"):
        Ledger(accounts=(documents(1, kept=1), documents(2, kept=2)))


@given(st.lists(ledgers, max_size=5))
def test_sums_keep_every_count(parts: list[Ledger]) -> None:
    total = sum_ledgers(parts)
    for unit in ("records", "documents", "tokens"):
        assert total.find_account(unit).total == sum(part.find_account(unit).total for part in parts)
        for name in ("kept", "dropped: short"):
            summed = sum(part.find_account(unit).outcomes.get(name, 0) for part in parts)
            assert total.find_account(unit).outcomes.get(name, 0) == summed
    assert total.figures.get("bytes", 0) == sum(part.figures.get("bytes", 0) for part in parts)


@given(ledgers, ledgers, ledgers)
def test_sums_do_not_depend_on_grouping_or_order(one: Ledger, two: Ledger, three: Ledger) -> None:
    total = ((one + two) + three).to_json()
    assert (one + (two + three)).to_json() == total
    assert (three + one + two).to_json() == total
    assert (Ledger() + one).to_json() == one.to_json()


@given(st.lists(ledgers, max_size=5))
def test_many_are_summed_as_one_after_another(parts: list[Ledger]) -> None:
    """Fails if the sum at once has other accounts, counts or figures than `+`, or another order."""
    total = sum_ledgers(parts)
    assert total == reduce(add, parts, Ledger())
    assert json.dumps(total.to_json()) == json.dumps(reduce(add, parts, Ledger()).to_json())
    assert [list(account.outcomes) for account in total.accounts] == [sorted(a.outcomes) for a in total.accounts]


@given(ledgers)
def test_ledgers_come_back_from_json_and_from_other_processes(ledger: Ledger) -> None:
    written = json.dumps(ledger.to_json())
    assert json.dumps(Ledger.from_json(json.loads(written)).to_json()) == written
    assert pickle.loads(pickle.dumps(ledger)) == ledger


def test_outcomes_are_summed_by_the_beginning_of_their_names() -> None:
    account = Account(unit="records", total=9, outcomes={"dropped: a": 2, "dropped: b": 3, "documents": 4})
    assert (account.sum_outcomes("dropped"), account.sum_outcomes("dropped: a"), account.sum_outcomes("x")) == (5, 2, 0)
    assert Ledger().find_account("records") == Account(unit="records", total=0, outcomes={})


def test_an_edge_compares_both_sides() -> None:
    check_edge(7, 7, "documents", "clean -> corpus")
    with pytest.raises(LedgerError, match="clean -> corpus: 7 documents were given and 6 were received"):
        check_edge(7, 6, "documents", "clean -> corpus")
