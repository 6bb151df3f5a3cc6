"""Budgets and sensitivities that the tests of privacy have in common."""

from dpmpc.linear.encoding.fixed_point import FixedPoint


def box(columns, bits=16):
    return FixedPoint(bits).sensitivity(columns)
