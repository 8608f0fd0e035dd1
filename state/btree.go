package state

import (
	"bytes"
	"slices"
)

// fanout is the greatest number of items in a leaf and of children in an inner node.
const fanout = 64

// tree is an ordered map from byte keys, a B+ tree. A clone costs nothing; afterwards each side copies the nodes it changes. Keys are kept, not copied.
//
// Nodes that got sparse by deletions are not merged, only empty ones are removed.
type tree[V any] struct {
	root    *node[V]
	owner   *byte  // the nodes marked with it are not shared
	version uint64 // counts changes, for cursors
	n       int
}

type node[V any] struct {
	owner *byte
	keys  [][]byte // of a leaf: the items'; of an inner node: a lower bound of each child's, the first unused
	vals  []V
	kids  []*node[V] // nil in a leaf
}

func newTree[V any]() *tree[V] {
	owner := new(byte)
	return &tree[V]{root: &node[V]{owner: owner}, owner: owner}
}

// clone returns an independent copy.
func (t *tree[V]) clone() *tree[V] {
	c := *t
	t.owner, c.owner = new(byte), new(byte)
	return &c
}

// own returns n, or a copy of it that t may change.
func (t *tree[V]) own(n *node[V]) *node[V] {
	if n.owner == t.owner {
		return n
	}
	c := &node[V]{owner: t.owner, keys: append(make([][]byte, 0, fanout+1), n.keys...)}
	if n.kids != nil {
		c.kids = append(make([]*node[V], 0, fanout+1), n.kids...)
	} else {
		c.vals = append(make([]V, 0, fanout+1), n.vals...)
	}
	return c
}

// child returns the index of the child that key belongs to.
func (n *node[V]) child(key []byte) int {
	lo, hi := 1, len(n.keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(n.keys[mid], key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// find returns the index of the first item that is not below key, and whether it is key.
func (n *node[V]) find(key []byte) (int, bool) {
	lo, hi := 0, len(n.keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch bytes.Compare(n.keys[mid], key) {
		case 0:
			return mid, true
		case -1:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return lo, false
}

func (t *tree[V]) get(key []byte) (v V, ok bool) {
	n := t.root
	for n.kids != nil {
		n = n.kids[n.child(key)]
	}
	if i, ok := n.find(key); ok {
		return n.vals[i], true
	}
	return v, false
}

// set adds an item or replaces the value of one, and reports whether it was new. Both are kept.
func (t *tree[V]) set(key []byte, v V) bool {
	t.version++
	t.root = t.own(t.root)
	added, right := t.insert(t.root, key, v)
	if right != nil {
		t.root = &node[V]{owner: t.owner, keys: [][]byte{nil, lowest(right)}, kids: []*node[V]{t.root, right}}
	}
	if added {
		t.n++
	}
	return added
}

// lowest returns the lower bound of n's keys.
func lowest[V any](n *node[V]) []byte { return n.keys[0] }

// insert adds to n, which t owns, and returns the right half if n was split.
func (t *tree[V]) insert(n *node[V], key []byte, v V) (added bool, right *node[V]) {
	if n.kids == nil {
		i, ok := n.find(key)
		if ok {
			n.vals[i] = v
			return false, nil
		}
		n.keys = slices.Insert(n.keys, i, key)
		n.vals = slices.Insert(n.vals, i, v)
		return true, t.split(n)
	}
	i := n.child(key)
	kid := t.own(n.kids[i])
	n.kids[i] = kid
	added, right = t.insert(kid, key, v)
	if right != nil {
		n.keys = slices.Insert(n.keys, i+1, lowest(right))
		n.kids = slices.Insert(n.kids, i+1, right)
	}
	return added, t.split(n)
}

// split cuts n in two if it is over-full. A node that grew at its end is cut there, so that ascending insertion leaves full nodes.
func (t *tree[V]) split(n *node[V]) *node[V] {
	if len(n.keys) <= fanout {
		return nil
	}
	at := len(n.keys) / 2
	right := &node[V]{owner: t.owner, keys: append(make([][]byte, 0, fanout+1), n.keys[at:]...)}
	clear(n.keys[at:])
	n.keys = n.keys[:at]
	if n.kids != nil {
		right.kids = append(make([]*node[V], 0, fanout+1), n.kids[at:]...)
		clear(n.kids[at:])
		n.kids = n.kids[:at]
	} else {
		right.vals = append(make([]V, 0, fanout+1), n.vals[at:]...)
		clear(n.vals[at:])
		n.vals = n.vals[:at]
	}
	return right
}

// delete removes an item and reports whether there was one.
func (t *tree[V]) delete(key []byte) bool {
	if _, ok := t.get(key); !ok {
		return false
	}
	t.version++
	t.n--
	t.root = t.own(t.root)
	t.remove(t.root, key)
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.root.kids != nil && len(t.root.kids) == 0 {
		t.root = &node[V]{owner: t.owner}
	}
	return true
}

func (t *tree[V]) remove(n *node[V], key []byte) {
	if n.kids == nil {
		i, _ := n.find(key)
		n.keys = slices.Delete(n.keys, i, i+1)
		n.vals = slices.Delete(n.vals, i, i+1)
		return
	}
	i := n.child(key)
	kid := t.own(n.kids[i])
	n.kids[i] = kid
	t.remove(kid, key)
	if len(kid.keys) == 0 {
		n.keys = slices.Delete(n.keys, i, i+1)
		n.kids = slices.Delete(n.kids, i, i+1)
	}
}

// clear removes all items.
func (t *tree[V]) clear() {
	t.version++
	t.n = 0
	t.owner = new(byte)
	t.root = &node[V]{owner: t.owner}
}

// treeCursor walks a tree. After a change of the tree it finds its place again by key.
type treeCursor[V any] struct {
	t       *tree[V]
	version uint64
	path    []treeStep[V]
	key     []byte // of the current item, nil if there is none
	val     V
}

type treeStep[V any] struct {
	n *node[V]
	i int
}

// seek moves to the first item that is not below key.
func (c *treeCursor[V]) seek(key []byte) bool {
	c.version = c.t.version
	c.path = c.path[:0]
	n := c.t.root
	for n.kids != nil {
		i := n.child(key)
		c.path = append(c.path, treeStep[V]{n, i})
		n = n.kids[i]
	}
	i, _ := n.find(key)
	c.path = append(c.path, treeStep[V]{n, i})
	if i == len(n.keys) {
		return c.step(+1)
	}
	return c.take()
}

// seekBefore moves to the last item below key; a nil key stands for the end.
func (c *treeCursor[V]) seekBefore(key []byte) bool {
	c.version = c.t.version
	c.path = c.path[:0]
	n := c.t.root
	for n.kids != nil {
		i := len(n.kids) - 1
		if key != nil {
			i = n.child(key)
		}
		c.path = append(c.path, treeStep[V]{n, i})
		n = n.kids[i]
	}
	i := len(n.keys)
	if key != nil {
		i, _ = n.find(key)
	}
	c.path = append(c.path, treeStep[V]{n, i})
	return c.step(-1)
}

func (c *treeCursor[V]) next() bool {
	if c.version != c.t.version {
		key := c.key
		return c.seek(key) && (!bytes.Equal(c.key, key) || c.step(+1))
	}
	return c.step(+1)
}

func (c *treeCursor[V]) prev() bool {
	if c.version != c.t.version {
		return c.seekBefore(c.key)
	}
	return c.step(-1)
}

// take makes the item under the path the current one.
func (c *treeCursor[V]) take() bool {
	leaf := c.path[len(c.path)-1]
	c.key, c.val = leaf.n.keys[leaf.i], leaf.n.vals[leaf.i]
	return true
}

// step moves to the next or previous item.
func (c *treeCursor[V]) step(d int) bool {
	top := len(c.path) - 1
	if top < 0 {
		return false
	}
	c.path[top].i += d
	if i := c.path[top].i; i >= 0 && i < len(c.path[top].n.keys) {
		return c.take()
	}
	for top--; top >= 0; top-- {
		c.path[top].i += d
		if i := c.path[top].i; i >= 0 && i < len(c.path[top].n.kids) {
			break
		}
	}
	if top < 0 {
		c.path = c.path[:0]
		c.key = nil
		return false
	}
	c.path = c.path[:top+1]
	n := c.path[top].n.kids[c.path[top].i]
	for {
		i := 0
		if d < 0 {
			i = len(n.keys) - 1
		}
		c.path = append(c.path, treeStep[V]{n, i})
		if n.kids == nil {
			return c.take()
		}
		n = n.kids[i]
	}
}
