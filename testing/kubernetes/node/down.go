package node

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// endTimeout bounds the wait for the kernel to end all processes of the namespaces.
const endTimeout = 30 * time.Second

// Down is `kubenode down`.
func Down(args []string) error {
	s, err := parseState(flag.NewFlagSet("down", flag.ExitOnError), args)
	if err != nil {
		return err
	}
	process, err := s.process()
	if err != nil {
		return err
	}
	if process != 0 {
		if err := end(process); err != nil {
			return err
		}
	}
	if err := s.removeCgroups(); err != nil {
		return err
	}
	for _, part := range []string{"data", "log", "pid", "ready", "kubeconfig", "lock"} {
		if err := os.RemoveAll(s.path(part)); err != nil {
			return err
		}
	}
	// The directory stays when somebody keeps files of their own in it.
	_ = os.Remove(s.directory)
	fmt.Println("the cluster is gone")
	return nil
}

// end kills the first process, with which the kernel ends all others of its process namespace, and waits for that.
func end(process int) error {
	handle, err := unix.PidfdOpen(process, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	events := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	for deadline := time.Now().Add(endTimeout); time.Now().Before(deadline); {
		ready, err := unix.Poll(events, int(time.Until(deadline).Milliseconds()))
		if ready > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("process %d did not end within %v", process, endTimeout)
}

// removeCgroups removes the cluster's control groups in all hierarchies. They empty a moment after their processes end.
func (s state) removeCgroups() error {
	const attempts = 50
	var left error
	for range attempts {
		left = nil
		for _, root := range cgroupRoots() {
			left = errors.Join(left, removeTree(filepath.Join(root, s.cgroup())))
		}
		if left == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return left
}

// removeTree removes directories only, from the leaves up: the files of a control group go with it.
func removeTree(root string) error {
	var directories []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			directories = append(directories, path)
		}
		return nil // a group that vanished meanwhile is what we want
	})
	for i := len(directories) - 1; i >= 0; i-- {
		if removeErr := unix.Rmdir(directories[i]); removeErr != nil && !errors.Is(removeErr, unix.ENOENT) {
			err = errors.Join(err, fmt.Errorf("%s: %w", directories[i], removeErr))
		}
	}
	return err
}
