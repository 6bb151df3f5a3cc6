"""What a server keeps: reports, the ledger of what it has opened, its one point for proofs."""
