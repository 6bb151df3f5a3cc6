"""Budgets and sensitivities that the tests of privacy have in common."""

from dpmpc.encoding.fixed_point import FixedPoint


def box(columns, bits=16):
    return FixedPoint(bits).sensitivity(columns)
