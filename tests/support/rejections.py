"""That a bad argument is refused, by the fields of the error and not by its sentence."""

import contextlib

import pytest

from dpmpc.base.errors import InputError


@contextlib.contextmanager
def rejects(argument, kind=InputError, **fields):
    """Expect an error of a kind that names an argument; `fields` are texts that others of its fields have to be."""
    with pytest.raises(kind) as refused:
        yield refused
    found = {name: getattr(refused.value, name) for name in ("argument", *fields)}
    assert found == {"argument": argument, **fields}, str(refused.value)


@contextlib.contextmanager
def blames(party, kind):
    """Expect a failure of a kind that names a party as its cause; None where it names none."""
    with pytest.raises(kind) as failure:
        yield failure
    assert failure.value.party == party, str(failure.value)


@contextlib.contextmanager
def exits(status):
    """Expect that a command ends with a status."""
    with pytest.raises(SystemExit) as ended:
        yield
    assert ended.value.code == status
