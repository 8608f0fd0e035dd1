package devbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kfake"
)

var errClosed = errors.New("devbroker: broker is closed")

// kfakeLogger hands what kfake logs to slog, one level lower: what is news to kfake is detail here.
type kfakeLogger struct{ l *slog.Logger }

func (k kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	if k.l.Enabled(context.Background(), to) {
		k.l.Log(context.Background(), to, "kfake", "message", fmt.Sprintf(format, args...))
	}
}
