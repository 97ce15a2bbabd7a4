//go:build modules

// Package modules names the program that go.mod pins, so that `go mod tidy` keeps it.
package modules

import _ "github.com/prometheus/prometheus/cmd/prometheus"
