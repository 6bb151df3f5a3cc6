"""Every party says whom it is linked to."""


async def main(party):
    return {"peers": party.runtime.peers}
