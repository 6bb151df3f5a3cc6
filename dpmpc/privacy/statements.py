"""What codes stand for, in sentences. Records and files hold codes and numbers, and guarantees print these sentences.

A code stands for one assumption or source. Sentences take their numbers from the fields of the guarantee, so that a
sentence cannot contradict a field, and rewording one changes no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpmpc.linear.sharing import ShamirSharing
from dpmpc.privacy.specification import MATRICES

REPEATABLE = "the randomness can be repeated from a seed, so no one is protected by it."

#: Code of an assumption -> its sentence, with fields of the guarantee in braces.
ASSUMPTIONS: dict[str, str] = {
    # the conduct of the servers, by the sharing
    "semi-honest": "the servers follow the protocol (semi-honest)",
    "additive": (
        "the servers follow the protocol (semi-honest): an altered share goes unnoticed, and all {servers} are needed"
    ),
    "shamir": "at most {corrupt_servers} of the {servers} servers depart from the protocol: {wrong_shares}",
    "checked-products": (
        "all {servers} servers are present, and at most {corrupt_servers} of them depart from the protocol: products "
        "are checked before they are opened, so a wrong share is noticed, in a product too (but for a probability of "
        "2^-59), and ends the run; it is not corrected"
    ),
    "passive-products": (
        "all {servers} servers are present and follow the protocol (semi-honest): MPyC multiplies with passive "
        "security, so an altered share goes unnoticed; at most {corrupt_servers} of them pool what they see"
    ),
    "honest-servers": "at least {honest}",
    # whose noise is counted on
    "noise-of-clients": (
        "every released sum keeps the noise of at least {least_variance:,.0f} honest contributions{lost}"
    ),
    "noise-of-servers": (
        "at least {least_variance:.0f} of the servers add their noise, as agreed, before they open anything"
    ),
    "noise-of-dealers": (
        "at least {least_variance:.0f} of the servers that deal noise draw it as agreed and keep it to themselves; "
        "that the noise of a server lies in its range is proved, and nothing of how it was drawn"
    ),
    "noise-of-one-copy": (
        "at least one honest server adds its noise, as agreed, before it opens anything, and the honest clients noise "
        "their one copy: no client has a leverage above {leverage:.4g} in the public matrix{lost}"
    ),
    "strangers": (
        "at most {corrupt_clients:,} of exactly these {clients:,} clients give away their noise or add none, "
        "whoever chose them: a server can deny reports (selective dropping), and then those that "
        "remain may be mostly strangers"
    ),
    "one-release": (
        "each report enters one release only: its noise was drawn once, and two openings of the same reports do not "
        "compose"
    ),
    "fresh-rounds": "every round draws fresh noise; n, and who takes part, are the same in all rounds",
    "absent": ("every round draws fresh noise; who takes part in a round is public, and does not depend on any row"),
    "corrupt-over-rounds": "corrupt clients are counted over all rounds together",
    "curator": "the curator, who sees every row, is trusted with them",
    # cryptography
    "pseudorandomness": (
        "computational security: AES-128 in counter mode is a pseudorandom generator, HKDF-SHA256 a pseudorandom "
        "function"
    ),
    "secret-links": (
        "what carries the shares keeps them secret: TLS 1.3, or X25519 (with ML-KEM-768, either of the two) where "
        "reports are sealed"
    ),
    "trusted-network": "every party trusts the machines of all and the network between them, which MPyC's links are",
    "public-draw": (
        "the public matrix is as good as random, which takes that Philox4x32-7 is a pseudorandom function; at most "
        f"{MATRICES} of them were drawn, all of them paid for in delta, and no run was broken off to draw others"
    ),
    "laplace-tails": (
        "nobody notices the tails that the sampler cuts off: total variation distance below 2^-183 for each released "
        "number and each m = shares contributions to it"
    ),
    # parties with different columns
    "independent-signs": "the signs do not depend on the columns that are protected; they may be known",
    "protected-parties": (
        "the parties whose columns are protected follow the protocol and keep columns, noise and folder to themselves; "
        "the other parties may break it"
    ),
    "fresh-mixing": (
        "each agreement on the same columns makes a release with its own noise, and the budgets of all add up; a "
        "repetition in the same folder sends the same bytes and spends nothing"
    ),
    "compared-ids": (
        "ids are not protected by the noise: a comparison reveals whether all parties have the same, one bit each time"
    ),
    # mutual information
    "known-target": "y is not a secret: it is released without its own noise, and counts as known",
    "secret-projection": "S stays secret and is used once",
    "uninformative-sigma": "sigma reveals nothing, though it depends on the data (unproven)",
    "public-floor": "the data are known to hide every entry behind a variance of {floor:g} when mixed",
    "independent-columns": "columns of the release are conditionally independent (false: they share S)",
}

#: Code of a source -> the citation.
SOURCES: dict[str, str] = {
    "secure-sketching": (
        "Burkhardt et al. 2025, Definition 4.1, Lemma 4.3 and Algorithm 1 (linear-transformation model)"
    ),
    "gaussian-curve": "Balle and Wang 2018, Theorem 8 (tight Gaussian curve)",
    "discrete-gaussian-sums": (
        "Kairouz, Liu and Steinke 2021 (sums of discrete Gaussians); smoothing bounds of dpmpc.privacy.exposure"
    ),
    "skellam": "Agarwal, Kairouz and Liu 2021, Theorem 3.5 (Renyi divergence of the Skellam mechanism)",
    "renyi-conversion": "Canonne, Kamath and Steinke 2020, Proposition 12 (conversion to epsilon)",
    "laplace-shares": (
        "Burkhardt et al. 2025, Theorem 4.8 and Corollary 4.10 (Laplace noise in shares), with s rows of each client "
        "instead of all k; delta = 0, whatever was asked for"
    ),
    "adaptive-gaussians": "Dong, Roth and Su 2022, Corollary 3.3 (adaptive composition of Gaussian mechanisms)",
    "zcdp-composition": "Bun and Steinke 2016, Lemma 2.3; Dong, Roth and Su 2022, Corollary 3.3 (adaptive composition)",
    "coinpress": "Biswas, Dong, Kamath and Ullman 2020 (CoinPress: clipping to a ball that earlier rounds have found)",
    "zcdp-of-noise": "Canonne, Kamath and Steinke 2020, Theorem 4 (zCDP of the discrete Gaussian)",
    "rounding": "rounding bound of dpmpc.privacy.exposure",
    "data-release": ("Wu et al. 2022, sections 4.1 and 4.2 (the releases); dpmpc, theorem columns-party (whole rows)"),
    "additive-bits": "Showkatbakhsh, Karakus and Diggavi 2018, Lemma 1",
    "printed-bits": (
        "Showkatbakhsh, Karakus and Diggavi 2018, Lemma 2, which is false: dpmpc, theorem printed-projection"
    ),
    "projected-bits": "dpmpc, theorem projected-bits",
    "fixed-sigma-bits": "dpmpc, theorem projected-bits, for a sigma fixed beforehand",
}

NEIGHBOURING: dict[str, str] = {
    "replace-one": "one client's whole row is replaced by any other row within the public bounds",
    "zero-out": "one client's whole contribution is replaced by zeros, or zeros by one within the public bounds",
}
CHECKERS: dict[str, str] = {
    "clients": "each honest client",
    "servers": "each honest server",
    "readers": "each reader who checks it",
}


def assumptions(codes: Sequence[str], numbers: Mapping[str, object]) -> list[str]:
    """Return the sentences of assumptions; `numbers` are what they name. One without a code is a plug-in's own."""
    return [ASSUMPTIONS[code].format_map(numbers) if code in ASSUMPTIONS else code for code in codes]


def sources(codes: Sequence[str]) -> list[str]:
    """Return the citations of sources; one without a code is a plug-in's own."""
    return [SOURCES.get(code, code) for code in codes]


def honest_servers(servers: int) -> str:
    """Return what so many servers do."""
    if servers == 1:
        return "one of the servers keeps its shares to itself"
    return f"{servers} of the servers keep their shares to themselves"


def wrong_shares(servers: int, threshold: int) -> str:
    """Return what becomes of wrong and missing shares, of Shamir's, when all servers are present."""
    spare, corrected = servers - threshold - 1, ShamirSharing(servers, threshold).corrected(servers)
    if spare == 0:
        return "an altered share goes unnoticed, and all are needed"
    return (
        f"wrong shares are noticed (up to {spare}), "
        + (
            f"or corrected and named (up to {corrected}), unless a server finds its own among them"
            if corrected
            else "but not corrected, and no server is named"
        )
        + f"; servers may be missing (up to {spare}), each for one wrong share less that is noticed"
    )


def drawn(noise: str, sd: float) -> str:
    """Return the family of a noise and its standard deviation in the integers that are shared."""
    return f"{noise} of standard deviation {sd:.6g}, counted in the integers that are shared"


def with_ground(
    lines: Sequence[str], assumed: Sequence[str], codes: Sequence[str], *, simulation: bool, warning: str = REPEATABLE
) -> str:
    """Return lines with what they rest on below them and, in a simulation, the warning above them."""
    warnings = [f"SIMULATION: {warning}"] if simulation else []
    grounds = [*(f"  assumes: {one}" for one in assumed), *(f"  source: {one}" for one in sources(codes))]
    return "\n".join([*warnings, *lines, *grounds])
