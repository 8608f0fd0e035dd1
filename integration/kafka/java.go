package kafka

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Java compiles a Maven project, whose pom.xml is at the root of src, and returns the class path that its programs run with. The project must copy its
// dependencies to target/lib. A project that was compiled before, by any process of the user, is not compiled again.
func Java(ctx context.Context, src fs.FS) (classpath string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(src, name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(data), data)
		return err
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "millrace", "java", fmt.Sprintf("%x", sum.Sum(nil)[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	classpath = strings.Join([]string{filepath.Join(dir, "target", "classes"), filepath.Join(dir, "target", "lib", "*")}, string(os.PathListSeparator))
	done := filepath.Join(dir, ".done")
	if _, err := os.Stat(done); err == nil {
		return classpath, nil
	}
	err = fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		data, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), data, 0o644)
	})
	if err != nil {
		return "", err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
	mvn.Dir = dir
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("kafka: Maven could not compile the project in %s: %w\n%s", dir, err, out)
	}
	return classpath, os.WriteFile(done, nil, 0o644)
}

// lock keeps other processes of the user out of a folder.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("kafka: lock %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
