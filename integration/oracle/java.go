package oracle

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"github.com/millrace/millrace/integration/kafka"
)

//go:embed java/pom.xml java/src
var sources embed.FS

// Java is a JVM with Kafka Streams that runs programs. It may be used by several goroutines.
type Java struct {
	cmd  *exec.Cmd
	dir  string
	said bytes.Buffer // on standard error; read when the JVM has ended

	mu      sync.Mutex
	in      io.WriteCloser
	next    int
	waiting map[int]chan *Result
	err     error // why no more answers come
	ended   chan struct{}
}

// StartJava compiles the Java side, if that was not done before, and starts a JVM that runs as many programs at once as there are threads.
func StartJava(ctx context.Context, threads int) (*Java, error) {
	src, err := fs.Sub(sources, "java")
	if err != nil {
		return nil, err
	}
	classpath, err := kafka.Java(ctx, src)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	j := &Java{dir: dir, waiting: map[int]chan *Result{}, ended: make(chan struct{})}
	j.cmd = exec.CommandContext(ctx, "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", classpath, "oracle.Main", strconv.Itoa(threads), dir)
	j.cmd.Stderr = &j.said
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("oracle: start java: %w", err)
	}
	go j.read(out)
	return j, nil
}

// read hands answers to those who wait for them.
func (j *Java) read(out io.Reader) {
	defer close(j.ended)
	lines := bufio.NewReaderSize(out, 1<<20)
	var err error
	for err == nil {
		var line []byte
		if line, err = lines.ReadBytes('\n'); err != nil {
			break
		}
		var answer struct {
			ID int `json:"id"`
			*Result
		}
		if err = json.Unmarshal(line, &answer); err != nil {
			break
		}
		j.mu.Lock()
		ch := j.waiting[answer.ID]
		delete(j.waiting, answer.ID)
		j.mu.Unlock()
		ch <- answer.Result
	}
	if wait := j.cmd.Wait(); wait != nil && errors.Is(err, io.EOF) {
		err = wait
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = fmt.Errorf("oracle: the JVM has ended: %w\n%s", err, j.said.Bytes())
	for _, ch := range j.waiting {
		close(ch)
	}
}

// Run builds a program through StreamsBuilder and runs it on TopologyTestDriver.
func (j *Java) Run(p *Program) (*Result, error) {
	ch := make(chan *Result, 1)
	j.mu.Lock()
	err := j.err
	if err == nil {
		j.next++
		j.waiting[j.next] = ch
		var line []byte
		line, err = json.Marshal(map[string]any{"id": j.next, "program": p})
		if err == nil {
			_, err = j.in.Write(append(line, '\n'))
		}
	}
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if r, ok := <-ch; ok {
		return r, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return nil, j.err
}

// Close ends the JVM.
func (j *Java) Close() error {
	err := j.in.Close()
	<-j.ended
	os.RemoveAll(j.dir)
	return err
}
