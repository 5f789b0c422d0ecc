"""A copy of a view, made beside it of the same log, while the view goes on.

It stays behind the view: never reads a record that the view has not read. So when the view stands still the copy comes
to the very same positions, and what the view has put aside need not be told again: late and rejected rows are counted,
and not published. Of tables that it joins it reads what is there, as a view does: what it rejects of them behind the
view is kept, and told when it takes the view's place (`tables/told.py`).
"""

from __future__ import annotations

from runnel.pipeline.batch import Step
from runnel.pipeline.query import Query
from runnel.pipeline.steps.account import Account
from runnel.pipeline.steps.collect import collect
from runnel.pipeline.steps.keep import Keep, PassOver
from runnel.pipeline.steps.untold import KeepUntold
from runnel.pipeline.view_query import ViewQuery


class CopyQuery(ViewQuery):
    def check_fit(self) -> None:
        """By its checkpoint alone: its table may be another one than the view's."""
        Query.check_fit(self)

    def steps(self) -> tuple[Step, ...]:
        writer = self.place.store().copy_writer(self.kept_as, self.name)
        writer.claim()
        self._writer = writer
        return collect, PassOver(writer), Account(self.specs, self.cluster), KeepUntold(self.specs), Keep(writer)

    def _make_topics(self) -> None:
        """It writes to none."""
