"""Each party says what its launcher has handed over."""


async def main(party):
    settings = party.runtime.settings
    return {"launched": settings.launched is not None, "simulation": dict(settings.simulation)}
