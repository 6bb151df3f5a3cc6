"""Our `Sum` release beside the methods of a trusted curator, all at the same replace-one (epsilon, delta)."""
