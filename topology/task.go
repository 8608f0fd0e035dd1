package topology

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// TaskID names a task: a sub-topology and a partition. Its text, such as 0_1, is also the name of the task's state directory.
type TaskID struct {
	Subtopology int
	Partition   int32
}

// String returns the id as Kafka Streams writes it, such as 0_1.
func (t TaskID) String() string {
	return strconv.Itoa(t.Subtopology) + "_" + strconv.Itoa(int(t.Partition))
}

// Compare orders by sub-topology, then partition.
func (t TaskID) Compare(other TaskID) int {
	return cmp.Or(cmp.Compare(t.Subtopology, other.Subtopology), cmp.Compare(t.Partition, other.Partition))
}

// ParseTaskID reads what [TaskID.String] wrote.
func ParseTaskID(s string) (TaskID, error) {
	sub, part, ok := strings.Cut(s, "_")
	if !ok {
		return TaskID{}, fmt.Errorf("topology: %q is not a task id", s)
	}
	n, err1 := strconv.ParseUint(sub, 10, 31)
	p, err2 := strconv.ParseUint(part, 10, 31)
	id := TaskID{int(n), int32(p)}
	if err1 != nil || err2 != nil || id.String() != s {
		return TaskID{}, fmt.Errorf("topology: %q is not a task id", s)
	}
	return id, nil
}
