"""Consumer groups of KIP-848: the broker assigns, and each member goes to its assignment at its own pace.

A heartbeat's way: `running` takes it and makes a decision of it; `heartbeat` takes over what the member tells and
raises the group epoch if the assignment depends on it; `target` lets one of the `assignors` make a new target;
`reconciling` takes the member one step towards it. What was decided is in the entries of a `draft`, Kafka's own
`records`, and only their replay (`group`) changes a group. `sessions` holds the time-outs, and is all that is lost in a
restart.

Beside it: `leaving`, `expressions` (subscriptions by RE2), `commits` (who may commit), `classic` and `embedded`
(members that speak the classic protocol), `migration` (from one protocol to the other).
"""
