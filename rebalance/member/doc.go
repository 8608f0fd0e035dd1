// Package member is the pure core of a member of a Kafka streams group (KIP-1071, StreamsGroupHeartbeat).
//
// A [Member] does no I/O, starts no goroutine, reads no clock and writes no log. The caller feeds it an [Event] and the time with
// [Member.Step], carries out the [Action]s that come back, in order, and calls Step with a [Tick] no later than [Member.Deadline]. The
// same state and the same event give the same actions; what is random comes in through [Config]. Package rebalance is the shell around it.
//
// The core decides which field of a heartbeat is null, when it is sent, how each class of error is answered and when an assignment counts
// as taken. The work on tasks is the worker's: the core asks for it with [Revoke], [Assign] and [Lose], each with an id, and hears of its
// end with [Revoked], [Assigned] and [LostDone]. Heartbeats go on meanwhile.
//
// # States
//
//	               ┌──────────────────────────── lost done ── Fenced ◀─ fenced ─┐
//	               ▼                                                            │
//	Unsubscribed ─▶ Joining ─ lists ─▶ Reconciling ─ assigned ─▶ Acknowledging ─┤
//	               ▲                    ▲   ▲                     │ heartbeat   │
//	               │                    │   └─ newer target ──────┤             │
//	               │                    └──── new target ───── Stable ◀─────────┘
//	               │
//	               ├── closed ── Rejoining ◀─ answer lost and describe impossible ─ Reconciling, Acknowledging, Stable
//	               └── polled ── Stale ◀─ poll limit, commit fenced ─ Leaving ◀─ PrepareLeaving ◀─ leave ─ any of them
//	                                                                   └─ answered ─▶ Unsubscribed
//
// Any state may end in Fatal. Acknowledging and Joining send at once, the others by the interval; Fenced, Stale, Unsubscribed and Fatal
// send nothing. Rejoining is ours: it is the controlled rejoin of member spec §6.7. [State] holds the whole table.
//
// References such as §6.7 and M-33 are to the project's member specification and its checklist.
package member
