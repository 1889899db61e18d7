package node

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startTimeout bounds the whole start; on two idle cores it takes about ten seconds.
const startTimeout = 5 * time.Minute

// readyLine is what the first process writes to its progress pipe when all is ready.
const readyLine = "ready"

// Files that the first process inherits, by descriptor.
const (
	listenerDescriptor = 3 + iota
	progressDescriptor
	lockDescriptor
)

const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// Up is `kubenode up`.
func Up(args []string) error {
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	s, err := parseState(flags, args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.directory, 0o755); err != nil {
		return err
	}
	lock, err := s.lock()
	if err != nil {
		return err
	}
	if lock == nil {
		if err := s.awaitOther(); err != nil {
			return err
		}
		fmt.Println("the cluster runs already")
		return s.describe()
	}
	defer lock.Close()
	if err := requireHost(s.directory); err != nil {
		return err
	}
	if err := s.start(lock); err != nil {
		return err
	}
	return s.describe()
}

// start empties the directory, starts the first process and waits until it says that the cluster is ready.
func (s state) start(lock *os.File) error {
	for _, part := range []string{"data", "log", "pid", "ready", "kubeconfig"} {
		if err := os.RemoveAll(s.path(part)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.path("log"), 0o755); err != nil {
		return err
	}
	// The socket belongs to this machine's loopback, and is handed to a process that has another network: a connection
	// to it crosses over without any interface between the two.
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	progress, progressEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer progress.Close()
	log, err := os.Create(s.path("log", "node.log"))
	if err != nil {
		return err
	}
	defer log.Close()

	command := exec.Command("/proc/self/exe", InitCommand,
		"-dir", s.directory, "-cgroup", s.cgroup(), "-server", "https://"+listener.Addr().String())
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{socket, progressEnd, lock}
	command.Env = componentEnvironment()
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
	started := time.Now()
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot make the namespaces: %w", err)
	}
	progressEnd.Close()
	if err := os.WriteFile(s.path("pid"), []byte(strconv.Itoa(command.Process.Pid)+"\n"), 0o644); err != nil {
		return err
	}
	if err := s.follow(progress, started); err != nil {
		_ = command.Process.Kill() // it may have ended by itself, which is the error reported
		_ = command.Wait()         // its status says nothing more
		return errors.Join(err, s.removeCgroups())
	}
	return nil
}

// follow prints the progress lines until the one that says ready.
func (s state) follow(progress *os.File, started time.Time) error {
	if err := progress.SetReadDeadline(started.Add(startTimeout)); err != nil {
		return err
	}
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		if lines.Text() == readyLine {
			return nil
		}
		fmt.Printf("%5.1f s  %s\n", time.Since(started).Seconds(), lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the cluster was not ready after %v (logs in %s): %w", startTimeout, s.path("log"), err)
	}
	return fmt.Errorf("the cluster ended while it started; logs in %s%s", s.path("log"), lastLines(s.path("log", "node.log")))
}

// awaitOther waits until a cluster that somebody else starts is ready.
func (s state) awaitOther() error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(s.path("ready")); err == nil {
			return nil
		}
		if process, err := s.process(); err == nil && process == 0 {
			return errors.New("the cluster ended while it started")
		}
	}
	return fmt.Errorf("the cluster in %s was not ready after %v", s.directory, startTimeout)
}

// Status is `kubenode status`.
func Status(args []string) error {
	s, err := parseState(flag.NewFlagSet("status", flag.ExitOnError), args)
	if err != nil {
		return err
	}
	process, err := s.process()
	if err != nil {
		return err
	}
	if process == 0 {
		return errNotRunning
	}
	return s.describe()
}

func (s state) describe() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	suffix := ""
	if s.directory != defaultDirectory() {
		suffix = " -dir " + s.directory
	}
	fmt.Printf("kubeconfig:  %s\n", s.path("kubeconfig"))
	fmt.Printf("inside:      %s exec%s COMMAND\n", executable, suffix)
	fmt.Printf("end it:      %s down%s\n", executable, suffix)
	return nil
}

// lastLines shows the end of a log in an error, where it helps most.
func lastLines(path string) string {
	const shown = 5
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "\n  " + strings.Join(lines[max(0, len(lines)-shown):], "\n  ")
}
