package demo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	in     = streams.NewTopic("in", serde.String, serde.String)
	counts = streams.NewTopic("counts", serde.String, serde.Int64)
)

func counting() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(in).GroupBy(func(_, v string) string { return v }).Count("first").
		ToStream().GroupBy(func(string, int64) string { return "all" }).Count("second").
		ToStream().To(counts)
	return b.Build()
}

// An example ends when its sample is through all steps, and has shown all results by then.
func TestRunEndsWhenAllIsShown(t *testing.T) {
	var shown []int64
	summed := false
	p := demo.Program{
		Name: "counting", Topology: counting, Inputs: []string{in.Name()},
		Config: func(cfg *streams.Config) { cfg.CacheBytes = -1 }, // every update is sent on
		Outputs: []demo.Output{demo.Print(counts, func(r streams.Record[string, int64]) string {
			shown = append(shown, r.Value)
			return ""
		})},
		Sample: func() ([]*kgo.Record, error) {
			var list []streams.Record[string, string]
			for i := range 50 {
				list = append(list, demo.At(time.UnixMilli(int64(i)), fmt.Sprint(i), fmt.Sprint(i%5)))
			}
			return demo.Records(in, list...)
		},
		Summary: func() { summed = true },
	}
	if err := demo.Run(t.Context(), p, demo.Options{AppID: "counting", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	if len(shown) != 50 || !slices.IsSorted(shown) || shown[49] != 50 || !summed {
		t.Errorf("shown %v, summary %t", shown, summed)
	}
}

// What a program shows must decode, and a program that fails says why.
func TestRunFails(t *testing.T) {
	wrong := streams.NewTopic("counts", serde.String, serde.Int32)
	p := demo.Program{
		Name: "counting", Topology: counting, Inputs: []string{in.Name()},
		Outputs: []demo.Output{demo.Print(wrong, func(streams.Record[string, int32]) string { return "" })},
		Sample:  func() ([]*kgo.Record, error) { return demo.Records(in, demo.At(time.UnixMilli(1), "k", "v")) },
	}
	if err := demo.Run(t.Context(), p, demo.Options{AppID: "counting", Partitions: 1}); err == nil || !strings.Contains(err.Error(), "counts partition 0 offset 0") {
		t.Errorf("a topic of another type: %v", err)
	}
	p.Topology = func() (*streams.Topology, error) {
		b := streams.NewBuilder()
		b.Stream(in).TryForEach(func(string, string) error { return errors.New("no such luck") })
		return b.Build()
	}
	if err := demo.Run(t.Context(), p, demo.Options{AppID: "counting", Partitions: 1}); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("a function that fails: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := demo.Run(ctx, p, demo.Options{AppID: "counting", Partitions: 1, Brokers: "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "no broker answers") {
		t.Errorf("no broker: %v", err)
	}
}
