package state

// home is a database with the cursors over its last commit.
type home struct {
	db   DB
	path string
	meta meta // as committed
	idle []Cursor
}

// cursor returns a cursor over the last commit, to be given back by putCursor.
func (h *home) cursor() (Cursor, error) {
	if n := len(h.idle); n > 0 {
		c := h.idle[n-1]
		h.idle = h.idle[:n-1]
		return c, nil
	}
	return h.db.NewCursor()
}

func (h *home) putCursor(c Cursor) {
	if c.Err() != nil {
		_ = c.Close()
		return
	}
	h.idle = append(h.idle, c)
}

// releaseCursors closes the idle cursors, which show an older commit once something is written.
func (h *home) releaseCursors() error {
	var first error
	for _, c := range h.idle {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	clear(h.idle)
	h.idle = h.idle[:0]
	return first
}

func (h *home) corrupt(what string, err error) error {
	return &CorruptError{Path: h.path, What: what, Err: err}
}
