package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// Result is what became of a program: all that is compared.
type Result struct {
	Error    string  `json:"error,omitempty"` // why it was not built or stopped
	Describe string  `json:"describe"`
	Steps    []Step  `json:"steps"`  // one for each event of the input
	Stores   []Store `json:"stores"` // by name
}

// Step is what an event led to.
type Step struct {
	Topics []TopicRecords `json:"topics,omitempty"` // by name; internal ones too
	Calls  []string       `json:"calls,omitempty"`  // of peek and forEach
}

// TopicRecords are those that were written to a topic, in order.
type TopicRecords struct {
	Name    string   `json:"name"`
	Records []Record `json:"records"`

	// The changelog of a suppression has the rows of a commit in any order, and the time is that of the clock.
	buffer bool
}

// Record is a record as bytes; nil is null.
type Record struct {
	Key     []byte         `json:"key"`
	Value   []byte         `json:"value"`
	Time    int64          `json:"time"`
	Headers []RecordHeader `json:"headers,omitempty"`
}

// RecordHeader is a header of a [Record].
type RecordHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Store is the final content of a store, in its own order.
type Store struct {
	Name string `json:"name"`
	Rows []Row  `json:"rows"`

	// Java may still show rows that ours has dropped by its retention: below a cache, its stores do not see all of the stream time, as a deletion of a window
	// that never was does not reach them; and those of windows that are given when they close keep rows for a millisecond more.
	loose bool
}

// Row is a row of a store. Time is 0 where the store does not tell it.
type Row struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Time  int64  `json:"time"`
}

func (r Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s=%s@%d", bytesText(r.Key), bytesText(r.Value), r.Time)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " [%s=%s]", h.Key, bytesText(h.Value))
	}
	return b.String()
}

func bytesText(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func (r Row) String() string { return fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Time) }

// Difference is the first thing in which Java and Millrace differ.
type Difference struct {
	What       string // "error", "describe", "calls", "store", "changelog", "repartition" or "output"
	Where      string
	Java, Ours string
}

func (d *Difference) String() string {
	return fmt.Sprintf("%s: %s\n--- Java\n%s\n--- Millrace\n%s", d.What, d.Where, d.Java, d.Ours)
}

// weaknesses are errors of Java where a program is right.
var weaknesses = []string{
	"is not added yet",             // nodes of a grouping that is used twice are added too late for others that need its stores
	"segment interval has changed", // a cache of sessions with a long gap
	"\"next.value\" is null",       // a sliding window whose row an aggregation has deleted, with a cache
}

// Compare returns the first difference of two results, nil if there is none. That both failed is no difference.
func Compare(java, ours *Result) *Difference {
	for _, weakness := range weaknesses {
		if strings.Contains(java.Error, weakness) {
			return nil
		}
	}
	if java.Error != "" || ours.Error != "" {
		if java.Error != "" && ours.Error != "" {
			return nil
		}
		return &Difference{"error", "", java.Error, ours.Error}
	}
	if java.Describe != ours.Describe {
		return &Difference{"describe", firstLine(java.Describe, ours.Describe), java.Describe, ours.Describe}
	}
	for i := range max(len(java.Steps), len(ours.Steps)) {
		var j, o Step
		if i < len(java.Steps) {
			j = java.Steps[i]
		}
		if i < len(ours.Steps) {
			o = ours.Steps[i]
		}
		if d := compareSteps(j, o); d != nil {
			d.Where = fmt.Sprintf("after event %d: %s", i, d.Where)
			return d
		}
	}
	return compareStores(java.Stores, ours.Stores)
}

func compareSteps(java, ours Step) *Difference {
	if !slices.Equal(java.Calls, ours.Calls) {
		return &Difference{"calls", "", strings.Join(java.Calls, "\n"), strings.Join(ours.Calls, "\n")}
	}
	names := map[string]bool{}
	for _, t := range slices.Concat(java.Topics, ours.Topics) {
		names[t.Name] = true
	}
	var first *Difference
	for name := range names {
		buffer := slices.ContainsFunc(ours.Topics, func(t TopicRecords) bool { return t.Name == name && t.buffer })
		j, o := recordLines(java, name, buffer), recordLines(ours, name, buffer)
		if j == o {
			continue
		}
		what := "output"
		switch {
		case strings.HasSuffix(name, "-changelog"):
			what = "changelog"
		case strings.HasSuffix(name, "-repartition") || strings.HasSuffix(name, "-topic"):
			what = "repartition"
		}
		if first == nil || name < first.Where {
			first = &Difference{what, name, j, o}
		}
	}
	return first
}

func recordLines(s Step, topic string, buffer bool) string {
	var lines []string
	for _, t := range s.Topics {
		if t.Name == topic {
			for _, r := range t.Records {
				if buffer {
					r.Time = -1
				}
				lines = append(lines, r.String())
			}
		}
	}
	if buffer {
		slices.Sort(lines)
	}
	return strings.Join(lines, "\n")
}

// compareStores looks at the stores that ours has: Java also shows some that have no handle, such as those of joins.
func compareStores(java, ours []Store) *Difference {
	for _, o := range ours {
		i := slices.IndexFunc(java, func(j Store) bool { return j.Name == o.Name })
		if i < 0 {
			return &Difference{"store", o.Name, "there is none", rowLines(o)}
		}
		j := java[i]
		if o.loose {
			j.Rows = slices.DeleteFunc(slices.Clone(j.Rows), func(r Row) bool { return !slices.Contains(o.Rows, r) })
		}
		if a, b := rowLines(j), rowLines(o); a != b {
			return &Difference{"store", o.Name, a, b}
		}
	}
	return nil
}

func rowLines(s Store) string {
	var lines []string
	for _, r := range s.Rows {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}

func firstLine(a, b string) string {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(la), len(lb)) {
		if la[i] != lb[i] {
			return fmt.Sprintf("line %d: Java %q, Millrace %q", i+1, la[i], lb[i])
		}
	}
	return fmt.Sprintf("Java has %d lines, Millrace %d", len(la), len(lb))
}

// Short is the difference in a few lines.
func (d *Difference) Short() string {
	if d.What == "describe" {
		return "describe: " + d.Where
	}
	cut := func(s string) string {
		lines := strings.Split(s, "\n")
		return strings.Join(lines[:min(8, len(lines))], "\n")
	}
	return (&Difference{d.What, d.Where, cut(d.Java), cut(d.Ours)}).String()
}
