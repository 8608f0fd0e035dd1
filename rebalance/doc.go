// Package rebalance makes a worker a member of a Kafka streams group (KIP-1071): the shell around the pure core in rebalance/member. It sends the
// heartbeats, looks up the coordinator, translates to and from the wire, and hands the worker its commands.
//
// The life of a [Membership]: [New] checks the configuration; [Membership.Run] joins and blocks until the member has left (nil), the membership ended for
// good (a *[Error]), or the context ended, which abandons the group without a word. Meanwhile the worker, in a goroutine of its own, takes
// commands from [Membership.Commands] in order and answers each with Done:
//
//	for {
//		select {
//		case cmd, ok := <-m.Commands():
//			switch c := cmd.(type) {
//			case rebalance.Revoke: c.Done(commitAndSuspend(c.Tasks))
//			case rebalance.Assign: c.Done(take(c.Active, c.Standby, c.Warmup, c.Ready))
//			case rebalance.Lose:   closeDirty(); c.Done(nil)
//			...
//			}
//		default:
//		}
//		processSomeRecords()
//		m.Poll()
//	}
//
// Nothing the worker does holds up heartbeats. A worker that does not call [Membership.Poll] for [Config.PollInterval] has its member leave the group,
// so that others do its work; when it polls again it joins again. While busy, the worker may ask [Membership.Lost] or
// [Membership.Identity], which cost an atomic load: once the epoch is not positive, nothing may be committed any more.
//
// One goroutine, the one in Run, owns the state. All methods may be called from any goroutine, before, during and after Run, and none of them
// blocks.
package rebalance
