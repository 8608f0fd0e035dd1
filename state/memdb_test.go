package state_test

import (
	"testing"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/state/statetest"
)

func TestMemoryDB(t *testing.T) {
	statetest.Run(t, func(testing.TB) statetest.Factory { return statetest.Factory{Engine: state.MemoryEngine{}} })
}
