package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Differ runs a program on both sides. It returns what Java gave, and the first difference.
func Differ(java *Java, p *Program) (*Result, *Difference, error) {
	theirs, err := java.Run(p)
	if err != nil {
		return nil, nil, err
	}
	return theirs, Compare(theirs, Run(p)), nil
}

// Check runs the programs of n seeds, several at once, and tells found of each, one after the other in no order, until it returns false.
func Check(ctx context.Context, java *Java, seed uint64, n, threads int, found func(*Program, *Difference) bool) error {
	err := compareAll(ctx, n, threads+1, found, func(i int) (*Program, *Difference, error) { // one more, for Go and Java work in turn
		p := Generate(seed + uint64(i))
		_, d, err := Differ(java, p)
		return p, d, err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// compareAll compares n programs, several at once, and tells found of each, one after the other in no order, until it returns false.
func compareAll(ctx context.Context, n, threads int, found func(*Program, *Difference) bool, compare func(i int) (*Program, *Difference, error)) error {
	var mu sync.Mutex
	done := false
	err := spread(ctx, n, threads, func(i int) error {
		p, d, err := compare(i)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if done = done || !found(p, d); done {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("enough")

// Coverage counts operators, and which stands directly below which.
type Coverage struct {
	Programs int
	ops      map[string]int
	pairs    map[[2]string]int
}

// Add counts a program.
func (c *Coverage) Add(p *Program) {
	if c.ops == nil {
		c.ops, c.pairs = map[string]int{}, map[[2]string]int{}
	}
	c.Programs++
	for _, o := range p.Ops {
		c.ops[o.Op]++
		for _, in := range o.In {
			c.pairs[[2]string{p.Ops[in].Op, o.Op}]++
		}
	}
}

// Least is how often the rarest operator came.
func (c *Coverage) Least() (op string, n int) {
	for _, name := range slices.Sorted(maps.Keys(operators)) {
		if op == "" || c.ops[name] < n {
			op, n = name, c.ops[name]
		}
	}
	return op, n
}

// Print writes the counts: of operators, and of the pairs that can be.
func (c *Coverage) Print(w io.Writer) {
	possible, met := 0, 0
	for above, a := range operators {
		for below, b := range operators {
			if a.out != None && slices.Contains(b.in, a.out) {
				possible++
				if c.pairs[[2]string{above, below}] > 0 {
					met++
				}
			}
		}
	}
	var line strings.Builder
	for _, name := range slices.Sorted(maps.Keys(operators)) {
		item := fmt.Sprintf("%s %d  ", name, c.ops[name])
		if line.Len()+len(item) > 150 {
			fmt.Fprintln(w, line.String())
			line.Reset()
		}
		line.WriteString(item)
	}
	fmt.Fprintln(w, line.String())
	op, n := c.Least()
	fmt.Fprintf(w, "%d operators, the rarest is %s with %d; %d of %d pairs\n", len(operators), op, n, met, possible)
}
