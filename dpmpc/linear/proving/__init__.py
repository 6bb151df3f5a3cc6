"""Proofs that what a client shares is well formed, which servers check on their shares (theorem proof-soundness).

    with_proofs    a contribution in the integers that are proved, which a task may name  (contributions)
    Proved         what is proved of a contribution: encoding, circuit, sensitivity     (statements)
    Circuit        the statement in integers, and its layout                             (circuit)
    Prover         a client: share, hash, prove, share the proof                         (prove, joint)
    ProofServer    a server: check its own part at the door, answer at the one point     (query)
    decide         from all messages to verdicts, and their error                        (decide)
    ProvedNoise    noise that servers deal in shares, within its range                   (noise)

Promised: if all servers follow the protocol (additive shares), or all but t of at least 2t + 1 present (Shamir's), an
accepted report is a point of the proved set, but for `soundness_error`; the checks reveal nothing about an honest row,
if each server answers at one point only. Not promised: that the row is true, that one person sends one report, or
anything about noise that clients add.
"""

from dpmpc.linear.proving.decide import decide
from dpmpc.linear.proving.joint import joint_randomness
from dpmpc.linear.proving.prove import Prover
from dpmpc.linear.proving.query import ProofServer, QueryPoint
from dpmpc.linear.proving.statements import proved

__all__ = ["ProofServer", "Prover", "QueryPoint", "decide", "joint_randomness", "proved"]
