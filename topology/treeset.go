package topology

// treeSet is a set of nodes that is kept in order as java.util.TreeSet keeps it: a red-black tree. The order in which nodes compare changes while the
// description is filled and the tree is not rearranged then, so where a new node goes depends on the shape of the tree, and the shape must be Java's.
type treeSet struct {
	compare func(a, b *Node) int
	root    *treeNode
}

type treeNode struct {
	node                *Node
	parent, left, right *treeNode
	black               bool
}

// add puts n into the set, unless the way down meets it.
func (s *treeSet) add(n *Node) {
	var parent *treeNode
	at := &s.root
	for *at != nil {
		parent = *at
		switch c := s.compare(n, parent.node); {
		case c < 0:
			at = &parent.left
		case c > 0:
			at = &parent.right
		default:
			return
		}
	}
	x := &treeNode{node: n, parent: parent}
	*at = x
	s.balance(x)
}

// balance restores the tree after x, a red leaf, was added: no red node below a red one.
func (s *treeSet) balance(x *treeNode) {
	for x.parent != nil && !x.parent.black { // so there is a grandparent, as the root is black
		parent, grandparent := x.parent, x.parent.parent
		left := parent == grandparent.left
		uncle := grandparent.left
		if left {
			uncle = grandparent.right
		}
		if uncle != nil && !uncle.black {
			parent.black, uncle.black, grandparent.black = true, true, false
			x = grandparent
			continue
		}
		if inside := (x == parent.right) == left; inside {
			s.rotate(parent, left)
			parent = x
		}
		parent.black, grandparent.black = true, false
		s.rotate(grandparent, !left)
		break
	}
	s.root.black = true
}

// rotate moves x down, to the left or to the right, and a child of it up.
func (s *treeSet) rotate(x *treeNode, left bool) {
	var up, moved *treeNode
	if left {
		up, moved = x.right, x.right.left
		up.left, x.right = x, moved
	} else {
		up, moved = x.left, x.left.right
		up.right, x.left = x, moved
	}
	if moved != nil {
		moved.parent = x
	}
	up.parent = x.parent
	switch {
	case x.parent == nil:
		s.root = up
	case x.parent.left == x:
		x.parent.left = up
	default:
		x.parent.right = up
	}
	x.parent = up
}

// list returns the nodes in the order of the tree.
func (s *treeSet) list() []*Node {
	var nodes []*Node
	var walk func(x *treeNode)
	walk = func(x *treeNode) {
		if x != nil {
			walk(x.left)
			nodes = append(nodes, x.node)
			walk(x.right)
		}
	}
	walk(s.root)
	return nodes
}
