// Command cmd starts a real Apache Kafka for a developer, prints its address, and stops it at Ctrl-C. It is what `make kafka` runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/integration/kafka"
)

// startTimeout is long because the first start of a version fetches its jars.
const startTimeout = 10 * time.Minute

func main() {
	var o kafka.Options
	flag.StringVar(&o.Version, "version", kafka.DefaultVersion, "release of Apache Kafka")
	flag.IntVar(&o.Port, "port", 9092, "port of the first node; 0 takes a free one")
	flag.IntVar(&o.Nodes, "nodes", 1, "number of nodes")
	flag.StringVar(&o.Dir, "dir", "", "folder for data that outlives a run; empty is a temporary one")
	check := flag.Bool("check", false, "only say whether this machine can run Apache Kafka")
	flag.Parse()
	if err := run(o, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o kafka.Options, check bool) error {
	if err := kafka.Available(); err != nil || check {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := kafka.Start(starting, o)
	if err != nil {
		return err
	}
	fmt.Printf("Apache Kafka %s on %s; Ctrl-C stops it\n", c.Version, strings.Join(c.Addresses(), ","))
	<-ctx.Done()
	stop() // a second Ctrl-C ends at once
	return c.Close()
}
