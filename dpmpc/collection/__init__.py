"""Run a real collection: clients upload for weeks, servers keep their shares, and make one release of them.

In the order in which a report travels:

`task_file`   what everybody agrees on before the first upload; its digest is bound into what follows (`server_entries`)
`collection_design` how such a file is made, and what denied reports can do
`reports`     the bytes of an upload, one record for each report
`sealing`     how one report holds what is for each server, closed to all others; whose keys these are
`submission`  how a client makes, keeps (`pending`) and sends them
`serving`     the server process: `connections`, `service` (HTTP), `admission`, `roster`, `group_commit`
`proxy_protocol` who calls through a proxy that names its callers
`doors`       how a server that took a report for all hands it on to the others
`report_store` what every store of a server's shares does; `sqlite_store` is the default (`segments`, `spool_index`)
`postgres_store` the same in PostgreSQL, for several workers
`ledger`      what a server has ever opened, so that it opens nothing of a report twice (`ledger_tables`)
`database`    SQLite as spool and ledger use it; `server_folder` has both
`agreement`   how the servers agree on the batch
`dealing_checks` how they check that the shares of a report belong together
`releasing`   one server of a release, by itself
`release_protocol` what the servers of a release say to one another, up to the file that all sign
`release_process` one server's process in a release: folder, links, limits on waiting
`certificate` what all of them signed, in the release file, and its check by anybody

Promised: what a server has acknowledged is in its spool, once; nothing is opened of a batch that is too small, that the
servers do not agree on, or that holds a report of an earlier release. Not promised: that reports are true, that a
server lets a client through, or that a release comes about when servers refuse (docs/security.md).
"""
