"""A table as hospitals export it: text, dates, wards, semicolons, decimal commas, five words for "not known".

``python examples/messy_hospital.py > hospital.csv`` writes generated patients. Who died depends on age, smoking, the
ward and the logarithm of the blood marker crp, by a logistic law, so that a model of it can be compared with the truth.
"""

import csv
import datetime
import sys

import numpy as np

WARDS = ("surgery", "medicine", "intensive care")
RISK = {"surgery": 0.0, "medicine": 0.4, "intensive care": 1.5}
UNKNOWN = ("", "NA", "unknown", "-9", "n/a")
HEADER = ("patient", "admitted", "ward", "age", "smoker", "crp", "bmi", "died", "note")


def patients(count, seed=0):
    """Yield rows of text."""
    rng = np.random.default_rng(seed)

    def known(text, share=0.96):
        return text if rng.random() < share else str(rng.choice(UNKNOWN))

    for number in range(count):
        ward = str(rng.choice(WARDS, p=[0.5, 0.4, 0.1]))
        age, smoker = int(np.clip(rng.normal(62, 15), 18, 100)), bool(rng.random() < 0.25)
        crp, bmi = float(np.clip(rng.lognormal(2.5, 1.2), 0.2, 480)), float(np.clip(rng.normal(27, 5), 14, 55))
        logit = -5.0 + 0.04 * (age - 50) + 0.6 * smoker + RISK[ward] + 0.5 * np.log(crp)
        died = rng.random() < 1 / (1 + np.exp(-logit))
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=int(rng.integers(731)))
        yield [
            f"P{number:06}",
            f"{day:%d.%m.%Y}",
            known(ward, 0.98),
            known(str(age)),
            known(str(rng.choice(["yes", "Yes", "Y"] if smoker else ["no", "No", "N"])), 0.9),
            known(f"{crp:.1f}".replace(".", ","), 0.93),
            known(f"{bmi:.1f}".replace(".", ","), 0.95),
            "1" if died else "0",
            str(rng.choice(["", "sent by GP; see letter", 'called "again"'])),
        ]


def main(count=20_000):
    """Write the table to standard output."""
    writer = csv.writer(sys.stdout, delimiter=";")
    writer.writerow(HEADER)
    writer.writerows(patients(count))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
