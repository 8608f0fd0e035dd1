package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// devFlags are the flags of "millrace dev".
type devFlags struct {
	listen     string
	data       string
	topics     []string
	release    string
	kafkaTimes bool
	autoCreate bool
	verbose    bool
}

func newDev() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a development broker that speaks Kafka, with streams groups",
		Long: `Run an in-process broker that speaks Kafka's protocol, streams groups (KIP-1071) and transactions included, until it is interrupted.

It is for development: one node, no security, and timings that make groups react within a fraction of a second. --kafka-timings selects those of a
broker as it ships.`,
		Example: `  millrace dev
  millrace dev --topic clicks:4 --topic users:4
  millrace dev --listen 127.0.0.1:19092 --data ./data --release 4.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:9092", "address to listen on, and the one clients are told; port 0 lets the system choose")
	fl.StringVar(&f.data, "data", "", "directory to keep topics, records, offsets and groups in (default: in memory)")
	fl.StringArrayVar(&f.topics, "topic", nil, "topic to create if it does not exist, as name:partitions; may be given more than once")
	fl.StringVar(&f.release, "release", coordinator.Kafka44.String(), "Kafka release to play: 4.4, 4.3 or 4.2")
	fl.BoolVar(&f.kafkaTimes, "kafka-timings", false, "heartbeats, sessions and delays as a broker ships with, instead of quick ones")
	fl.BoolVar(&f.autoCreate, "auto-create-topics", false, "create topics that clients ask for")
	fl.BoolVar(&f.verbose, "verbose", false, "log what the broker does")
	return cmd
}

func runDev(cmd *cobra.Command, f devFlags) error {
	release, err := coordinator.ParseRelease(f.release)
	if err != nil {
		return fmt.Errorf("--release %s: want 4.4, 4.3 or 4.2", f.release)
	}
	topics, err := parseTopics(f.topics)
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelDebug
	}
	opts := []devbroker.Option{
		devbroker.Listen(f.listen),
		devbroker.PlayRelease(release),
		devbroker.Logger(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))),
	}
	if f.data != "" {
		opts = append(opts, devbroker.DataDir(f.data))
	}
	if f.kafkaTimes {
		opts = append(opts, devbroker.KafkaTimings())
	}
	if f.autoCreate {
		opts = append(opts, devbroker.AutoCreateTopics())
	}
	b, err := devbroker.Start(opts...)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken by another process; choose another address with --listen", f.listen)
	}
	if err != nil {
		return err
	}
	defer b.Close()
	// Topics are created here and not by the broker, which creates none when it finds data of an earlier run.
	for _, t := range topics {
		if err := b.EnsureTopic(t.name, t.partitions); err != nil {
			return err
		}
	}
	printWelcome(cmd.OutOrStdout(), b.Addrs()[0], release, f)
	<-cmd.Context().Done()
	fmt.Fprintln(cmd.OutOrStdout(), "stopped")
	return nil
}

func printWelcome(w io.Writer, addr string, release coordinator.Release, f devFlags) {
	data := "in memory, gone at the end"
	if f.data != "" {
		data = "in " + f.data
	}
	fmt.Fprintf(w, `development broker on %s
  plays  Kafka %s, streams groups included
  data   %s

Use it as the bootstrap server of any Kafka client, such as
  kgo.NewClient(kgo.SeedBrokers(%q))

Ctrl-C ends it.
`, addr, release, data, addr)
}

type topicFlag struct {
	name       string
	partitions int32
}

// parseTopics reads name:partitions; every wrong one is reported.
func parseTopics(flags []string) ([]topicFlag, error) {
	var out []topicFlag
	var errs []error
	for _, s := range flags {
		name, count, ok := strings.Cut(s, ":")
		n, err := strconv.ParseInt(count, 10, 32)
		if !ok || name == "" || err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("--topic %s: want name:partitions, such as clicks:4", s))
			continue
		}
		out = append(out, topicFlag{name, int32(n)})
	}
	return out, errors.Join(errs...)
}
