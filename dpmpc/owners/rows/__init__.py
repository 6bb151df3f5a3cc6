"""Regressions and tables between data owners: organisations that hold many rows each, and answer every round.

Each owner adds up what its own rows contribute to a round, adds noise that suffices alone, and splits the result among
all owners, who add up and open the sum over every owner's rows, and nothing else. `plan` is what all agree on,
`own_rounds` what one round of one owner is, `record` what an owner keeps so that a round that is repeated after a crash
is the same round, `owner_parties` starts the owners, by the program `dpmpc.protocols.data_owners`.

Promised: all rounds together are (epsilon, delta)-differentially private for one row replaced, against every owner but
the owner of the row, as long as that owner follows the protocol, even if as many others collude as the plan states: all
of them, by default. The numbers of rows of the owners are public. What was opened is read, at no further cost, where an
owner leaves before the last round. Not promised: as much for a person with several rows, or with rows at several
owners; that an owner uses the rows that it has; the rounds that are left, where an owner leaves for good. Clients that
come back on their own devices are another setting, which this is not.
"""
