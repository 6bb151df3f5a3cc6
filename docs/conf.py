"""The site: Markdown pages, notebooks and docstrings, built by `make docs` with every warning an error.

Nothing is fetched while the site is built.
"""

import re
import sys
from pathlib import Path

import dpmpc

sys.path.insert(0, str(Path(__file__).parent))  # for command_reference and toml_pages

project = "dpmpc"
author = "The dpmpc developers"
project_copyright = author
release = version = dpmpc.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton", "command_reference", "toml_pages"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

default_role = "literal"  # `name` in a docstring is code
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    # scikit-learn's, which refer to its own pages
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, set_inverse_transform_request, "
    "set_output",
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections say in words what a parameter is
numpydoc_show_class_members = False  # autodoc shows them

nitpicky = True
nitpick_ignore_regex = [
    # Bases and errors of other projects, whose inventories would have to be fetched.
    ("py:class", r"(abc|enum|sklearn|mpyc|msgspec|asyncio)\..*"),
    # Bases that have no page of their own: what they promise stands at the classes that users meet.
    (
        "py:class",
        r"dpmpc\.(privacy\.guarantee\.Promise|base\.storage\.(database\.Store|records\.(Described|Record))"
        r"|models\.(regression\.round_fits\.Fitted|survival\.survival\.OfTimes"
        r"|common\.(estimator\.(Estimator|Regressor)|commanded\.(Commanded|CommandedInRounds)))"
        r"|models\.papers\.baselines\.(linear\.PrivateRidge|low_rank\.PrivateComponents)"
        r"|models\.papers\.coinpress\.coinpress_estimators\.CoinPress"
        r"|models\.papers\.mutual_information\.projection_estimators\.NoisyRegression"
        r"|linear\.sketching\.sparse\.SparseMatrix"
        r"|linear\.contributions\.(contribution\._RowContribution|cells\.CellCodes))",
    ),
]

copybutton_selector = ":not(.output) > div.highlight > pre"  # not what a notebook printed

html_theme = "furo"
html_title = f"dpmpc {version}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

RESULT = re.compile(r"\[([^\]]*)\]\((?:\.\./)+bench/results/(\w+)\.md\)")


def setup(app):
    """Have links to results changed as pages are read, after the extensions have changed theirs."""
    app.connect("source-read", link_results)


def link_results(app, docname, source):
    """Have links to tables in `bench/results`, as they stand in the repository, lead to the site's pages of them.

    It names the page: MyST would follow the link that puts the folder among the site's pages, and lose it.
    """
    source[0] = RESULT.sub(r"{doc}`\1 </results/\2>`", source[0])
