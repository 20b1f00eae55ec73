"""Every claim that `holdall.stores.base.Store` makes, as a test class for any backend.

```python
from holdall.testing import StoreConformance

class TestMyStore(StoreConformance):
    async def make_store(self):
        return MyStore("myscheme://localhost")
```

Run it with pytest and pytest-asyncio in auto mode (or any plugin that runs `async def` tests). The stores may share one
backend and keep its contents: every claim uses keys of its own.
"""

from __future__ import annotations

from holdall.testing.claims.concurrency import ConcurrencyClaims
from holdall.testing.claims.expiry import ExpiryClaims
from holdall.testing.claims.fences import FenceClaims
from holdall.testing.claims.find import FindClaims
from holdall.testing.claims.keys import KeyClaims
from holdall.testing.claims.lifecycle import LifecycleClaims
from holdall.testing.claims.log import LogClaims
from holdall.testing.claims.ops import OpClaims
from holdall.testing.claims.values import ValueClaims
from holdall.testing.claims.versions import VersionClaims


class StoreConformance(
    VersionClaims,
    LogClaims,
    ValueClaims,
    OpClaims,
    FenceClaims,
    ExpiryClaims,
    FindClaims,
    KeyClaims,
    ConcurrencyClaims,
    LifecycleClaims,
):
    """Subclass it, and say in `make_store` how a store is opened; `advance` may move an injected clock."""
