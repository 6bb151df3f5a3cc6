"""What a person reads of a plan, of a run, and of releases in files: the reports that `dpmpc.release.results` writes.

`reading` states what a file or the folder of a fit holds, `released` what was released, `servers` what a run has cost,
`mixed` the same of parties with different columns; plans have their own modules. `release_page` is the page of a
collection for everybody, made of what was verified and of nothing else.

Promised: a report is a function of the release, of the answer computed from it, and of public facts and times. So it
may be published wherever the release may. What the data itself would give is not in it.

Not promised: seconds and bytes are as measured, and are not part of the guarantee.
"""
