// Package node starts, enters and ends a one-node Kubernetes that lives in namespaces of its own.
//
// The first process of the namespaces (init.go) starts the components. Nothing it does can be seen outside: interfaces,
// addresses, rules and mounts belong to the namespaces, and all processes end with that first one.
package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Names of subcommands that this package starts in processes of their own.
const (
	InitCommand         = "node-init"
	ControlPlaneCommand = "control-plane"
)

// state is the directory of one cluster, as seen from outside.
type state struct{ directory string }

var errNotRunning = errors.New("no cluster runs here; start one with `kubenode up`")

// parseState parses the flags of a command together with the one that names the cluster's directory.
func parseState(flags *flag.FlagSet, args []string) (state, error) {
	directory := flags.String("dir", defaultDirectory(), "directory of the cluster; each directory is a cluster of its own")
	_ = flags.Parse(args) // ExitOnError: it does not return an error
	absolute, err := filepath.Abs(*directory)
	return state{absolute}, err
}

func defaultDirectory() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "myelin", "kubernetes")
}

func (s state) path(parts ...string) string {
	return filepath.Join(append([]string{s.directory}, parts...)...)
}

// cgroup is the name of the cluster's control group, in every hierarchy: another directory is another group.
func (s state) cgroup() string {
	digest := sha256.Sum256([]byte(s.directory))
	return "kubenode-" + hex.EncodeToString(digest[:4])
}

// lock takes the cluster's lock, which the first process holds for as long as it lives. It returns nil when the lock is
// held: a cluster runs.
func (s state) lock() (*os.File, error) {
	file, err := os.OpenFile(s.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// process is the id of the cluster's first process; zero when none runs.
func (s state) process() (int, error) {
	if _, err := os.Stat(s.path("lock")); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	lock, err := s.lock()
	if err != nil {
		return 0, err
	}
	if lock != nil {
		return 0, lock.Close()
	}
	content, err := os.ReadFile(s.path("pid"))
	if err != nil {
		return 0, fmt.Errorf("the cluster in %s is just starting: %w", s.directory, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}
