"""Before any data: from how many people on a Table 1 shows medians and percentages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpmpc.models.tables.quantiles import told_from
from dpmpc.privacy.task import Task
from dpmpc.release.planning.forecast import Forecast
from dpmpc.release.results import NumberTable


def forecast_table(
    task: Task,
    variables: Sequence[str],
    by: str | None,
    numbers: NumberTable | None,
    categories: NumberTable | None,
    everybody: Mapping[str, float],
) -> Forecast:
    """Return what the noise of a task does to a Table 1.

    Parameters
    ----------
    task : Task
        The release of cells.
    variables : sequence of str
        What is described.
    by : str or None
        The variable whose values are groups.
    numbers, categories : NumberTable or None
        `TableOne.outlook`.
    everybody : mapping
        Name of a number -> people of all groups from whom on its median is shown.
    """
    shown, stated = [people <= task.clients for people in everybody.values()], []
    if numbers is not None:
        least = dict(zip(numbers.names, numbers.columns["median"], strict=True))
        where = "" if by is None else f" in a group of {by}"
        of_all = {name: "" if by is None else f" ({people:,} of all)" for name, people in everybody.items()}
        listed = ", ".join(f"{name} from {people:,.0f}{of_all[name]}" for name, people in least.items())
        stated.append(f"Medians are shown of so many people{where} or more: {listed}.")
    if categories is not None:
        errors = categories.columns["largest s.e."]
        shown += [told_from(error**2) <= task.clients for error in errors]
        stated.append(f"A count of people has a standard error of up to {max(errors):,.3g} by noise.")
    return Forecast(
        tasks=(task,),
        guarantee=task.guarantee,
        features=len(variables),
        useful=any(shown),
        why=" ".join(stated),
        assumed="nothing of people: the noise is that of the release, whatever is counted.",
        tables=[one for one in (numbers, categories) if one is not None],
        data={
            "by": by,
            "numbers": None if numbers is None else numbers.to_dict(),
            "categories": None if categories is None else categories.to_dict(),
        },
    )
