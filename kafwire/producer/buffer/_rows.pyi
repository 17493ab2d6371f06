from typing import final

@final
class RowPlan:
    @property
    def finished(self) -> bool: ...
