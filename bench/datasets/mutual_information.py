"""The data set of Showkatbakhsh, Karakus and Diggavi (ISIT 2018): the fours and nines of MNIST's digits."""

from __future__ import annotations

import numpy as np

from bench.datasets.dataset_files import FOLDER_VARIABLE, data_folder
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError


def load_mnist_4_9() -> tuple[Reals, Reals]:
    """Load MNIST's handwritten fours and nines; Figure 3 of Showkatbakhsh, Karakus and Diggavi (ISIT 2018).

    LeCun, Cortes and Burges, licence CC BY-SA 3.0. The folder holds ``mnist_4_9.npz`` with ``x_train`` (bytes, a row of
    784 pixels for each image) and ``y_train`` (4 or 9), the training part in its order.

    Returns
    -------
    images : ndarray of float64, shape (11791, 784)
        Pixels in [0, 1].
    labels : ndarray of float64, shape (11791,)
        1 for a four, -1 for a nine.

    Raises
    ------
    InputError
        If there is no such folder or file, or it is not as expected.
    """
    how = "Cut the digits 4 and 9 out of MNIST's training part and save them with numpy.savez."
    path = data_folder(how) / "mnist_4_9.npz"
    if not path.is_file():
        raise InputError(FOLDER_VARIABLE, f"{path.parent} does not hold {path.name}. {how}")
    with np.load(path, allow_pickle=False) as arrays:
        if not {"x_train", "y_train"} <= set(arrays):
            raise InputError(path, f"arrays {sorted(arrays)} found, x_train and y_train expected. {how}")
        images, digits = arrays["x_train"], arrays["y_train"]
    if images.shape != (len(digits), 784) or not np.isin(digits, (4, 9)).all():
        raise InputError(path, f"x_train of {images.shape} found, 784 pixels of each four or nine expected. {how}")
    return images / 255.0, np.where(digits == 4, 1.0, -1.0)
