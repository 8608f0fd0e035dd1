// Command millrace is the command line of Millrace. "millrace dev" runs a development broker; "millrace help" lists the commands.
//
// Every command lives in a file of its own and adds itself in [newRoot].
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second interrupt ends the process at once, in case the first one cannot.
	context.AfterFunc(ctx, stop)

	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		os.Exit(1)
	}
}

// newRoot returns the root command with all others.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "Kafka Streams for Go: tools for development and operation",
		SilenceUsage:  true, // an error of a command that runs is not a question of usage
		SilenceErrors: true, // main prints it
	}
	root.AddCommand(newDev())
	return root
}
