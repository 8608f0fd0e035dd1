// Package arch keeps the packages in their order: its test holds the table of which package may import which, and fails with the edge that is not in it.
package arch
