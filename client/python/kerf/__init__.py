"""kerf: deduplicating uploads to kerfd.

    client = kerf.open(["localhost:7461"], "home", store)
    recipe = client.upload(reader, key)      # its chunks are durable in the store
    client.snapshot("monday", [recipe])      # ... and stay
    client.collect(store.roots)              # what no snapshot needs goes

README.md has a whole program; docs/spec/ what is behind it. kerf.aio is the same for asyncio.
"""

from kerf.channel import Tls
from kerf.client import Client, open  # noqa: A004
from kerf.collect import Collected
from kerf.errors import (ChunksLost, Cancelled, Disagreement, EpochBehind, Error, Refused, Retryable, StoreError)
from kerf.folder_store import FolderStore
from kerf.patience import Cancellation
from kerf.recipe import Chunk, Recipe, Seen, decode, encode
from kerf.store import CollectedStore, SizedStore, Store, Stored
from kerf.version import VERSION as __version__

__all__ = ["Cancellation", "Cancelled", "Chunk", "ChunksLost", "Client", "Collected", "CollectedStore", "Disagreement",
           "EpochBehind", "Error", "FolderStore", "Recipe", "Refused", "Retryable", "Seen", "SizedStore", "Store", "StoreError", "Stored",
           "Tls", "__version__", "decode", "encode", "open"]
