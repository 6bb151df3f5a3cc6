"""Split secrets among M servers: additive shares, as arrays or as keys, and Shamir shares.

Both schemes are linear: a server that adds, or scales by a public number, applies it to its share alone.

Promised: fewer shares than a scheme needs are independent of the secret, if AES is a pseudorandom permutation and the
stream is secret; the shares depend on the secret and the stream only, not on blocks or threads; Shamir shares that are
wrong are noticed, and corrected up to a number of them (`ShamirSharing.correct`). Not promised: that an additive share
was not tampered with, or that a wrong share is its holder's fault. A simulation stream is accepted and hides nothing;
code that protects real people refuses it (`dpmpc.base.randomness.require_secret`).
"""

from dpmpc.linear.sharing.additive import AdditiveSharing
from dpmpc.linear.sharing.shamir import ShamirSharing

__all__ = ["AdditiveSharing", "ShamirSharing"]
