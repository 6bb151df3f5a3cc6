"""A real collection: clients upload for weeks, servers keep their shares, and one release comes of it.

In the order in which a report travels:

`collection`  the file that everybody agrees on before the first upload; its digest is bound into all that follows
`reports`     the bytes of an upload, one record for each report
`submission`  how a client makes, keeps (`pending`) and sends them
`serving`     the server process: `service` (HTTP), `admission`, `roster`, `group_commit`, `metrics`
`spool`       where a server keeps its shares until the release: words in `segments`, an index in SQLite (`database`)
`ledger`      what a server has ever opened, so that it opens nothing of a report twice
`agreement`   how the servers come to one mind, about the batch for one
`releasing`   one server of a release, by itself
`conversation` what the servers of a release say to one another, up to the file that all sign; `run_release` starts one
`certificate` what all of them signed, in the release file, and its check by anybody

Promised: what a server has acknowledged is in its spool, once; nothing is opened of a batch that is too small, that the
servers do not agree on, or that holds a report of an earlier release. Not promised: that reports are true, that a
server lets a client through, or that a release comes about when servers refuse (docs/security.md).
"""
