package streams

import "slices"

// effect is what an operator does to its records, as far as it decides whether a repartition topic may move above it.
type effect uint8

const (
	changesKey effect = iota + 1
	changesValue
	merges
)

// sharing is a change of the key, or a merge of streams with changed keys, and the repartition topics below that one topic behind it can stand for.
type sharing struct {
	key    *step
	topics []*step
}

// mergeRepartitions puts one repartition topic behind each change of the key in place of those below it, as Kafka Streams does (F-053). The steps wrote the
// names of their parents down when they were made, so a step that hangs elsewhere afterwards is told which name stands for which (see place).
func (b *Builder) mergeRepartitions() {
	for _, sh := range b.sharings() {
		first := sh.topics[0]
		one := first.again(sh.key)
		b.steps = b.steps[:len(b.steps)-1] // where again has put it
		at := slices.Index(b.steps, sh.key) + 1
		b.steps = slices.Insert(b.steps, at, one)
		b.shift(at, 1)
		for _, r := range sh.topics {
			if !below(r, one) {
				b.rehang(childAbove(r, sh.key), sh.key, one, sh.key.name)
			}
			parent := r.parents[0]
			for _, s := range b.steps {
				if slices.Contains(s.parents, r) {
					b.rehang(s, r, parent, r.name)
				}
			}
			at := slices.Index(b.steps, r)
			b.steps = slices.Delete(b.steps, at, at+1)
			b.shift(at, -1)
			b.merged[r.name] = one.name
		}
	}
}

// shift keeps the places of bumped steps right where one was put in or taken out.
func (b *Builder) shift(at, by int) {
	for _, s := range b.steps {
		if s.bumped > at {
			s.bumped += by
		}
	}
}

// rehang moves a step from one parent, which it knows by name, to another.
func (b *Builder) rehang(s, from, to *step, name string) {
	if s.moved == nil {
		s.moved = map[string]string{}
	}
	s.moved[name] = to.name
	parents := slices.DeleteFunc(slices.Clone(s.parents), func(p *step) bool { return p == from || p == to })
	s.parents = append(parents, to)
}

// place is the name of the node that took the place of a parent of the step that is written.
func (b *Builder) place(name string) string {
	if b.writing != nil {
		if to, ok := b.writing.moved[name]; ok {
			return to
		}
	}
	return name
}

// sharings finds what can be merged, in the order of the program, merges last.
func (b *Builder) sharings() []sharing {
	var list []sharing
	at := func(key *step) *sharing {
		for i := range list {
			if list[i].key == key {
				return &list[i]
			}
		}
		list = append(list, sharing{key: key})
		return &list[len(list)-1]
	}
	for _, s := range b.steps {
		if s.changes == changesKey {
			at(s)
		} else if s.again != nil {
			key := nearest(s, func(s *step) bool { return s.changes == changesKey })
			if key != nil && key == nearest(s, func(s *step) bool { return s.changes == changesKey || s.changes == changesValue }) {
				sh := at(key)
				sh.topics = append(sh.topics, s)
			}
		}
	}
	// A merge takes over from the changes above it whose topics are all below it; the last one in the program first, for it may be below others.
	for _, m := range slices.Backward(b.steps) {
		if m.changes != merges {
			continue
		}
		taken := sharing{key: m}
		list = slices.DeleteFunc(list, func(sh sharing) bool {
			all := sh.key.changes == changesKey && below(m, sh.key) && !slices.ContainsFunc(sh.topics, func(r *step) bool { return !below(r, m) })
			if all {
				taken.topics = append(taken.topics, sh.topics...)
			}
			return all
		})
		list = append(list, taken)
	}
	return slices.DeleteFunc(list, func(sh sharing) bool { return len(sh.topics) == 0 })
}

// nearest looks for a step at or above s. Where a step has several parents, one that is right above it counts, and otherwise what is found above the last.
func nearest(s *step, want func(*step) bool) (found *step) {
	if want(s) {
		return s
	}
	for _, p := range s.parents {
		if want(p) {
			return p
		}
		found = nearest(p, want)
	}
	return found
}

// below reports whether s is somewhere below top.
func below(s, top *step) bool { return childAbove(s, top) != nil }

// childAbove is the child of top that is s or above it; nil if s is not below top.
func childAbove(s, top *step) *step {
	if slices.Contains(s.parents, top) {
		return s
	}
	for _, p := range s.parents {
		if c := childAbove(p, top); c != nil {
			return c
		}
	}
	return nil
}
