"""Run a real collection: clients upload for weeks, servers keep their shares, and make one release of them.

Before the first upload:

`task_file`   what everybody agrees on; its digest is bound into what follows (`server_entries` are the servers in it)
`collection_design` how such a file is made, and what denied reports can do
`series`      several collections of the same people under one total budget
`roster`      who may contribute, each once, where that is known beforehand

How a report travels:

`reports`     what a report holds for one server (`report_ids`)
`sealing`     how one report holds what is for each server, closed to all others (`sealing_suites`)
`seal_folder` a server's private keys for that; `added_keys` are those that it publishes after the beginning
`endpoints`   the paths of HTTP, and which answers are final
`submission`  how a client makes, keeps (`pending`) and sends them (`uploader`)
`sealed_uploads` what a server does with a report: it opens its own part, and `doors` hands on the rest
`withdrawals` how a server takes a report back until the release; `withdrawing` asks servers for that, and
`withdrawal_verdict` says what their answers amount to
``web/``      the client in JavaScript, and the form that a door hands out

The server process:

`serving`     sockets, TLS and signals; `workers` are several processes of one server
`connections` the sockets at its places
`service`     what is answered to which request of HTTP: `admission` (who may send how much), `replies`, `front_page`
`state`       how far the collection has come here, the one answer of all (`status` is what others are told of it)
`metrics`     what is counted, and `logs` what is logged

What a server keeps (`server_folder` says where):

`report_store` what every store of a server's shares does, which `group_commit` writes to
`sqlite_store` the default (`segments`, `spool_index`); `postgres_store` is the same in PostgreSQL, for several workers
`ledger`      what a server has ever opened, so that it opens nothing of a report twice (`ledger_tables`)
`tombstones`  what was withdrawn, and whether reports are announced: in the ledger, too
`query_points` the one point where this server answers for proofs, in the store and in the ledger

The release:

`release_process` one server's process: folder, links, limits on waiting
`release_protocol` what the servers say to one another, up to the file that all sign
`releasing`   what one server does by itself; `openings` is what it keeps for repetitions
`agreement`   how the servers agree on the batch
`dealing_checks` how they check that the shares of a report belong together, and `proof_checks` that it is well formed
`noise_dealing` how they make noise for sums in Shamir shares; `shamir_claims` is what the file says of that
`certificate` what all of them signed, in the release file
`verifying`   its check by anybody, offline

`run_proofs` checks the proofs of a run that is no collection.

Promised: what a server has acknowledged is in its store, once; nothing is opened of a batch that is too small, that the
servers do not agree on, or that holds a report of an earlier release. Not promised: that reports are true, that a
server lets a client through, or that a release comes about when servers refuse (docs/security.md).
"""
