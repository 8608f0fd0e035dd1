// Package chaos kills processes of an application, and the broker, on a real Apache Kafka, and counts what came out. Its tests are behind the build tag
// kafka.
package chaos
