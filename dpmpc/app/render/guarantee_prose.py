"""The sentences of a report about its guarantee: what is guaranteed, and what does or does not cost more privacy."""

from __future__ import annotations

from dpmpc.app.render.drawing import figures
from dpmpc.collect.terms.series import Series
from dpmpc.privacy import Guarantee, bound_in_words
from dpmpc.privacy.statements import sources
from dpmpc.privacy.task import Task

PUBLISH = (
    "Every file that dpmpc fit and dpmpc owners write may be published, but for not_private.json, which only --compare "
    "writes: it compares the result with the data itself and has no privacy."
)
NOTHING_AFTER_A_SIMULATION = (
    "Nothing: a simulation protects no one. Publish it only where the data itself may be published."
)


def promise(
    guarantee: Guarantee,
    series: Series | None = None,
    own: str = "the row of any client",
    other: str = "any other row in its place",
) -> str:
    """Return what (epsilon, delta) means for one client; in a series, those of all its epochs."""
    if series is None:
        return bound_in_words(guarantee.epsilon, guarantee.delta, own, other)
    return bound_in_words(series.epsilon, series.delta, f"{own} in {series.together}", other)


def guarantee_items(
    guarantee: Guarantee, series: Series | None = None, counted: str = "clients"
) -> list[tuple[str, list[str]]]:
    """Return the guarantee, item by item; in a series, its total beside that of the epoch."""
    achieved = f"The noise gives ε = {figures(guarantee.achieved_epsilon, 6)} at δ = {figures(guarantee.delta)}."
    total, alone = [], ""
    if series is not None:
        total = [f"ε = {figures(series.epsilon)}, δ = {figures(series.delta)} in {series.together}."]
        alone = "In this one alone: "
    when = {"adaptive": "chosen when all that is public is known", "static": "fixed before the public matrix is drawn"}
    pooled = ["the analyst", f"{guarantee.corrupt_servers} of the {guarantee.servers} {guarantee.parties(counted)}"]
    if guarantee.corrupt_clients:
        others = f"{guarantee.corrupt_clients:,} {counted}"
        pooled.append(f"{others}, {when[guarantee.coalition]}" if counted == "clients" else f"whoever knows {others}")
    against = [
        "Everybody who reads the release or this report. Also all of these, if they pool what they see: "
        f"{'; '.join(pooled)}."
    ]
    if guarantee.dropouts:
        against.append(f"It holds even if anything from at most {guarantee.missing_text} is missing.")
    return [
        (
            "Who is protected",
            [f"Each of the {guarantee.clients:,} {counted}{' with its whole row' * (counted == 'clients')}."],
        ),
        ("Neighbouring relation", [f"{guarantee.neighbouring}: {guarantee.relation(counted)}."]),
        ("Budget", [*total, f"{alone}ε = {figures(guarantee.epsilon)}, δ = {figures(guarantee.delta)}. {achieved}"]),
        ("Against whom", against),
        ("Noise", [sentence(f"{guarantee.noise_text}; calibration: {guarantee.calibration}")]),
        ("Given", [sentence(guarantee.preconditions.statement(counted))]),
        ("Assumes", [sentence(assumption) for assumption in guarantee.assumption_texts]),
        ("Proven in", [sentence(source) for source in sources(guarantee.sources)]),
    ]


def without_further_cost(task: Task, *, compared: bool) -> list[str]:
    """Return what costs no further privacy; after a simulation there is no privacy to keep."""
    if task.simulation:
        return [NOTHING_AFTER_A_SIMULATION]
    said = ["Publish the release and this report, and compute anything from them: post-processing keeps the guarantee."]
    if task.statistic.any_target and len(task.schema) > 1:
        said.append("Predict another column, change the penalty or the rank: one release serves them all.")
    if compared:
        said.append(PUBLISH)
    return said


def spent_text(guarantee: Guarantee) -> str:
    """State that nobody keeps the account of what the same people have spent."""
    return (
        f"Nothing records what these {guarantee.clients:,} people have spent: dpmpc fit and describe keep no "
        f"ledger, and two releases like this of the same file spend epsilon = {2 * guarantee.epsilon:g}"
    )


def owners_spent_text(guarantee: Guarantee) -> str:
    """Return who keeps the account of what the rows of data owners have spent."""
    return (
        "What these rows have spent is recorded only where an owner names one ledger for all fits (--ledger): two fits "
        f"like this of the same rows spend epsilon = {2 * guarantee.epsilon:g}"
    )


def what_costs_more(task: Task) -> list[str]:
    """Return what would add to the budget."""
    said = [
        "Any further release of the same people, also of other columns or of some of them: budgets add up. dpmpc fit "
        "and describe keep no ledger of them: two releases of one file spend the sum of their ε, and nobody says so "
        "but you."
    ]
    if task.noising.by == "clients":
        said.append(
            "Opening the same reports twice: a client's noise is in its report, and two sums that differ by one client "
            "subtract to nearly that client's row. Reports must be made anew, with fresh noise."
        )
    said.append(
        "Bounds, columns or a sketch that were chosen by looking at the data: they are public, and not protected."
    )
    return said


def sentence(text: str) -> str:
    """Make a sentence: begin with a capital and end with a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def guarantee_text(guarantee: Guarantee) -> str:
    """Return the guarantee under a heading, for rich."""
    from rich.markup import escape  # reading needs no rich

    return f"[bold]What is promised[/bold]\n{escape(str(guarantee))}\n"
