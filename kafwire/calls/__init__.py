"""Arguments of public calls, checked once for the blocking and the asyncio clients."""
