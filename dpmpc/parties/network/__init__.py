"""MPyC as a runtime whose parties need not trust each other.

MPyC gives the coroutine model, the links and the program counters. What it takes on trust is taken out: a party
number is bound to a certificate, no pickle is ever read, no wait lasts for ever, and every failure is a typed error
that names a party. In the order in which a run uses them:

`settings`  what one party is given, and what it leaves behind: party.json and outcome.json
`programs`  the ways to start: all parties here, prepared for elsewhere, or one of a run that a party prepared
`processes` one operating-system process for each party on this machine, and the cause when a run fails
`identity`  TLS 1.3 with certificates on both sides, of a throw-away authority or pinned; signatures
`party`     the process of one party: ``python -m dpmpc.parties.network.party FOLDER``
`runtime`   MPyC's Runtime (`backend`) with its own start (`connecting`), shutdown and frame exchange
`links`     one authenticated link, over `sockets` that count
`frames`    the only messages that our protocols send
`announcing` what a party sends to all others at once, signed, so that two stories are found out
`conversation` what programs are made of: exchange, compare, go on together, reveal, toss
`meter`     seconds, bytes and memory of one party

Not promised: privacy against the operating system of a party, and correctness of what a malicious party computes. A run
in which a party refuses to take part fails; all the others may agree on another one without it.
"""
