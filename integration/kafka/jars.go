package kafka

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

//go:embed pom.xml
var pom []byte

// jars returns the folder with the jars of a version. What is not there yet is fetched by Maven, once for all processes of the user.
func jars(ctx context.Context, version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "millrace", "kafka", version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	done := filepath.Join(dir, ".done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return "", err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, "-Dkafka.version="+version,
		"dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "lib"))
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("kafka: Maven could not fetch Apache Kafka %s: %w\n%s", version, err, out)
	}
	return dir, os.WriteFile(done, nil, 0o644)
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// Available reports whether this machine can run Apache Kafka: Java 17 or later and Maven.
func Available() error {
	out, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("kafka: no java: %w", err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("kafka: cannot read the version of java from %q", out)
	}
	if v, _ := strconv.Atoi(string(m[1])); v < 17 {
		return fmt.Errorf("kafka: java is version %d, and Apache Kafka needs 17", v)
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("kafka: no mvn: %w", err)
	}
	return nil
}
