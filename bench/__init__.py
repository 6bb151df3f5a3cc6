"""Tables and figures of the papers, a folder for each paper, and one for measurements of the system.

Each module has `main(arguments)` and runs from a checkout as ``python -m bench FOLDER.MODULE``, or by its last name
where only one module bears it: ``python -m bench kernels``. Nothing of this folder is part of the wheel.
"""
