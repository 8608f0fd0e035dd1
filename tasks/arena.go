package tasks

// Arena hands out memory for keys and values of outgoing records, many from one block, so that a record costs no allocation of its own. A block is
// garbage when the last record in it is acknowledged. It belongs to one goroutine.
type Arena struct{ block []byte }

const (
	arenaBlock = 64 << 10 // bytes
	arenaSpare = 512      // a block with less room than this is left for a new one
)

// Begin returns an empty slice to append to. The next call must be End.
func (a *Arena) Begin() []byte {
	if cap(a.block)-len(a.block) < arenaSpare {
		a.block = make([]byte, 0, arenaBlock)
	}
	return a.block[len(a.block):]
}

// End takes what was appended to Begin's slice and returns it for keeps. What outgrew the block has become an allocation of its own.
func (a *Arena) End(b []byte) []byte {
	if cap(b) == cap(a.block)-len(a.block) { // still in the block
		a.block = a.block[:len(a.block)+len(b)]
	}
	return b[:len(b):len(b)]
}

// Copy returns a copy of b that is for keeps; nil stays nil.
func (a *Arena) Copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	return a.End(append(a.Begin(), b...))
}
