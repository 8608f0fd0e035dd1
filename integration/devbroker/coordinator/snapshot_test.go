package coordinator

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is restored is what was there, and members go on (C-49).
func TestSnapshot(t *testing.T) {
	b := newBench(t, nil)
	b.cluster.create("in", 4)
	one := "1"
	if err := b.c.AlterGroupConfigs("app", map[string]*string{"streams.num.standby.replicas": &one}, false); err != nil {
		t.Fatal(err)
	}
	tp := topo(sub("0", []string{"in"}, "log"))
	a, z := b.member("a", "pa", tp), b.member("z", "pz", tp)
	rack, instance := "r1", "i1"
	req := a.joinRequest()
	req.RackID = &rack
	e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
	e.Host, e.Port = "localhost", 80
	req.UserEndpoint = &e
	ct := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
	ct.Key, ct.Value = "zone", "a"
	req.ClientTags = append(req.ClientTags, ct)
	a.take(b.send(req))
	a.report()
	req = z.joinRequest()
	req.InstanceID = &instance
	z.take(b.send(req))
	a.beat() // has something to revoke

	first, err := b.c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := b.c.DescribeGroup("app")
	b.advance(5 * time.Second)
	restored := New(b.c.cfg, b.cluster)
	if err := restored.Restore(b.now, first); err != nil {
		t.Fatal(err)
	}
	second, err := restored.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("snapshot\n%s\nbecame\n%s", first, second)
	}
	b.c = restored
	if d := b.c.Deadline(); !d.Equal(b.now.Add(6 * time.Second)) {
		t.Errorf("deadline in %v, want a fresh session", d.Sub(b.now))
	}
	after, _ := b.c.DescribeGroup("app")
	if after.Epoch != before.Epoch || after.State != before.State || len(after.Members) != 2 || after.Members[0].MemberEpoch != before.Members[0].MemberEpoch {
		t.Errorf("described as %+v, was %+v", after, before)
	}
	epoch := a.epoch
	if resp := a.report(); resp.ErrorCode != 0 || a.epoch <= epoch {
		t.Errorf("answered %+v", resp)
	}
	req = z.request(z.epoch)
	req.InstanceID = &instance
	if resp := z.take(b.send(req)); resp.ErrorCode != 0 || len(z.active) != 2 {
		t.Errorf("answered %+v", resp)
	}
}

func TestRestoreRefusesWhatItCannotRead(t *testing.T) {
	b := newBench(t, nil)
	for _, s := range []string{"", "{", `{"version":2}`, `{"version":1,"groups":[{"id":"g","members":[{"id":"m","state":9}]}]}`} {
		if err := b.c.Restore(t0, []byte(s)); err == nil {
			t.Errorf("restored %q", s)
		}
	}
	if err := b.c.Restore(t0, []byte(`{"version":1}`)); err != nil {
		t.Error(err)
	}
}
