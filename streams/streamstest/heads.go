package streamstest

import "github.com/millrace/millrace/tasks"

// head is the next record of a partition that a task reads.
type head struct {
	reader *running
	at     tasks.TopicPartition
	time   int64
}

// heads is a binary heap by time. Where times are equal, nothing is promised, but the order is that of java.util.PriorityQueue, in which
// TopologyTestDriver keeps its partitions: so both give the same records in the same order.
type heads []*head

func (q *heads) add(h *head) {
	*q = append(*q, h)
	list := *q
	i := len(list) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h.time >= list[parent].time {
			break
		}
		list[i] = list[parent]
		i = parent
	}
	list[i] = h
}

// take removes the head with the lowest time, and returns nil if there is none.
func (q *heads) take() *head {
	list := *q
	if len(list) == 0 {
		return nil
	}
	first, last := list[0], list[len(list)-1]
	list[len(list)-1] = nil
	list = list[:len(list)-1]
	*q = list
	if len(list) == 0 {
		return first
	}
	i := 0
	for i < len(list)/2 {
		child := 2*i + 1
		if right := child + 1; right < len(list) && list[child].time > list[right].time {
			child = right
		}
		if last.time <= list[child].time {
			break
		}
		list[i] = list[child]
		i = child
	}
	list[i] = last
	return first
}
