// Package kafka starts and stops a real Apache Kafka, from its published jars, for tests and local development.
//
// [Start] runs one node or several (KRaft, brokers and controllers in one), on free ports of 127.0.0.1 with data in a folder of its own. A [Node] can be
// stopped, killed, frozen, and started again on its data. [Test] does the same for a test: the cluster ends with it, and its log is shown when it fails.
//
// The jars come through Maven and are kept in the user's cache folder. With MILLRACE_BROKERS set, [Test] uses those brokers instead.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options say what to start. The zero value is one node of the default version.
type Options struct {
	Version string            // default 4.4.0
	Nodes   int               // default 1
	Dir     string            // data and logs; default: a temporary folder that Close removes
	Port    int               // of the first node; default: a free one
	Config  map[string]string // overrides of server.properties on every node
	Heap    string            // of each node; default 512m
}

// DefaultVersion is the version of Apache Kafka that Millrace is built for.
const DefaultVersion = "4.4.0"

// Cluster is a running Apache Kafka.
type Cluster struct {
	Version string
	Nodes   []*Node

	dir  string
	temp bool
}

// Node is one process of a cluster.
type Node struct {
	ID      int
	Address string // host:port for clients

	dir   string
	lib   string
	heap  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// Start starts a cluster and waits until every node answers. If ctx ends before that, everything is stopped.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	o.Nodes = max(o.Nodes, 1)
	if o.Heap == "" {
		o.Heap = "512m"
	}
	lib, err := jars(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Version: o.Version, dir: o.Dir}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "millrace-kafka-"); err != nil {
			return nil, err
		}
		c.temp = true
	}
	ports, err := freePorts(2 * o.Nodes)
	if err != nil {
		return nil, err
	}
	if o.Port > 0 {
		ports[0] = o.Port
	}
	var voters []string
	for i := range o.Nodes {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[2*i+1]))
	}
	for i := range o.Nodes {
		n := &Node{
			ID: i + 1, Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[2*i])), heap: o.Heap,
			dir: filepath.Join(c.dir, fmt.Sprintf("node-%d", i+1)), lib: filepath.Join(lib, "lib", "*"),
		}
		c.Nodes = append(c.Nodes, n)
		if err := n.format(ctx, ports[2*i+1], voters, o.Config); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, n := range c.Nodes {
		if err := n.launch(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, n := range c.Nodes {
		if err := n.await(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all stay open until all are chosen, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Addresses are the host:port of all nodes.
func (c *Cluster) Addresses() []string {
	var list []string
	for _, n := range c.Nodes {
		list = append(list, n.Address)
	}
	return list
}

// Close stops every node and removes a temporary folder.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Stop())
	}
	if c.temp {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// properties are settings that make groups fast and small clusters work; they are below those of Options.Config.
func (n *Node) properties(controller int, voters []string, config map[string]string) string {
	replicas := strconv.Itoa(min(3, len(voters)))
	settings := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          strconv.Itoa(n.ID),
		"controller.quorum.voters":                         strings.Join(voters, ","),
		"listeners":                                        fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d", n.Address, controller),
		"advertised.listeners":                             "PLAINTEXT://" + n.Address,
		"controller.listener.names":                        "CONTROLLER",
		"log.dirs":                                         filepath.Join(n.dir, "data"),
		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            "1",
		"auto.create.topics.enable":                        "false",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.streams.initial.rebalance.delay.ms":         "0",
		"group.streams.min.session.timeout.ms":             "1000",
		"group.streams.session.timeout.ms":                 "6000",
		"group.streams.min.heartbeat.interval.ms":          "100",
		"group.streams.heartbeat.interval.ms":              "500",
		"log.segment.delete.delay.ms":                      "1000",
		"log.cleaner.dedupe.buffer.size":                   "16777216", // the default of 128 MiB leaves no room in a small heap
	}
	for k, v := range config {
		settings[k] = v
	}
	var lines []string
	for k, v := range settings {
		lines = append(lines, k+"="+v)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// format prepares the node's folder.
func (n *Node) format(ctx context.Context, controller int, voters []string, config map[string]string) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(n.dir, "server.properties")
	if err := os.WriteFile(file, []byte(n.properties(controller, voters, config)), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "java", "-cp", n.lib, "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kafka: format node %d: %w\n%s", n.ID, err, out)
	}
	return nil
}

func (n *Node) logFile() string { return filepath.Join(n.dir, "server.log") }

// launch starts the process.
func (n *Node) launch() error {
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("java", "-Xms128m", "-Xmx"+n.heap, "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", n.lib, "kafka.Kafka", filepath.Join(n.dir, "server.properties"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // it never outlives whoever started it
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("kafka: start node %d: %w", n.ID, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	n.cmd, n.ended = cmd, ended
	return nil
}

// await waits until the node answers a client.
func (n *Node) await(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Address), kgo.RetryTimeout(time.Second), kgo.DialTimeout(time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		ping, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := cl.Ping(ping)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-n.ended:
			return fmt.Errorf("kafka: node %d ended while starting:\n%s", n.ID, n.Log(40))
		case <-ctx.Done():
			return fmt.Errorf("kafka: node %d does not answer: %w\n%s", n.ID, errors.Join(ctx.Err(), err), n.Log(40))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Running reports whether the node's process lives.
func (n *Node) Running() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// Stop ends the node in an orderly way, and by force after 20 s.
func (n *Node) Stop() error {
	if !n.Running() {
		return nil
	}
	_ = n.cmd.Process.Signal(syscall.SIGCONT)
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-n.ended:
		return nil
	case <-time.After(20 * time.Second):
		return n.Kill()
	}
}

// Kill ends the node at once.
func (n *Node) Kill() error {
	if !n.Running() {
		return nil
	}
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-n.ended
	return nil
}

// Freeze stops the node's process from running, as a machine that hangs; Thaw lets it go on.
func (n *Node) Freeze() error { return n.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (n *Node) Thaw() error { return n.cmd.Process.Signal(syscall.SIGCONT) }

// Restart starts a node that has ended, on its data and its port, and waits until it answers.
func (n *Node) Restart(ctx context.Context) error {
	if n.Running() {
		return fmt.Errorf("kafka: node %d still runs", n.ID)
	}
	if err := n.launch(); err != nil {
		return err
	}
	return n.await(ctx)
}

// Log returns the last lines of the node's log.
func (n *Node) Log(lines int) string {
	data, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Test starts a cluster for a test, and stops it at its end. With MILLRACE_BROKERS set it gives those brokers instead, whose nodes cannot be stopped.
func Test(t testing.TB, o Options) *Cluster {
	t.Helper()
	if brokers := os.Getenv("MILLRACE_BROKERS"); brokers != "" {
		c := &Cluster{Version: o.Version}
		for i, a := range strings.Split(brokers, ",") {
			c.Nodes = append(c.Nodes, &Node{ID: i + 1, Address: a})
		}
		return c
	}
	if err := Available(); err != nil {
		t.Fatalf("%v; the tests with a real Kafka were asked for", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range c.Nodes {
				t.Logf("log of Kafka node %d:\n%s", n.ID, n.Log(60))
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("stop Kafka: %v", err)
		}
	})
	return c
}
