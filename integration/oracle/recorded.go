package oracle

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Recorded is a program with what Java makes of it.
type Recorded struct {
	Program *Program `json:"program"`
	Java    *Result  `json:"java"`
}

// WriteRecording runs programs in Java and writes them with their results. [Against] compares with them where there is no JVM, or many times.
func WriteRecording(ctx context.Context, java *Java, programs []*Program, threads int, w io.Writer) error {
	all := make([]Recorded, len(programs))
	err := spread(ctx, len(programs), threads+1, func(i int) error {
		r, err := java.Run(programs[i])
		all[i] = Recorded{programs[i], r}
		return err
	})
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(w)
	enc := json.NewEncoder(zip)
	for _, r := range all {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return zip.Close()
}

// ReadRecording reads what [WriteRecording] wrote.
func ReadRecording(r io.Reader) (all []Recorded, err error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("oracle: recording: %w", err)
	}
	for dec := json.NewDecoder(zip); ; {
		var one Recorded
		if err := dec.Decode(&one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("oracle: recording: %w", err)
		}
		all = append(all, one)
	}
}

// Against runs recorded programs on Millrace, several at once, and tells found of each, one after the other in no order, until it returns false.
func Against(ctx context.Context, all []Recorded, threads int, found func(*Program, *Difference) bool) error {
	return compareAll(ctx, len(all), threads, found, func(i int) (*Program, *Difference, error) {
		return all[i].Program, Compare(all[i].Java, Run(all[i].Program)), nil
	})
}

// spread calls f with 0 to n-1, several at once, until one fails.
func spread(ctx context.Context, n, threads int, f func(i int) error) error {
	var mu sync.Mutex
	var failed error
	next := 0
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := failed != nil || i >= n
				mu.Unlock()
				if stop || ctx.Err() != nil {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failed, ctx.Err())
}
