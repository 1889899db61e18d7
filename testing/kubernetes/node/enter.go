package node

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kubenode/pki"
)

// enter moves the calling thread into the namespaces of the process, so that what it starts runs there. The thread stays
// locked to its goroutine and cannot go back.
func enter(process int) error {
	runtime.LockOSThread()
	kinds := []struct {
		name string
		flag int
	}{
		{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID},
		{"mnt", unix.CLONE_NEWNS},
	}
	handles := make([]int, 0, len(kinds))
	// All are opened first: with the mounts, /proc changes too.
	for _, kind := range kinds {
		handle, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", process, kind.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("cannot open the namespaces of the cluster: %w", err)
		}
		defer unix.Close(handle)
		handles = append(handles, handle)
	}
	// A thread that shares its root directory with others may not change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for i, kind := range kinds {
		if err := unix.Setns(handles[i], kind.flag); err != nil {
			return fmt.Errorf("cannot enter the %s namespace: %w", kind.name, err)
		}
	}
	return nil
}

// insideCommand is a command that runs inside the cluster. Should this process be killed, it goes on until the cluster
// ends: across process namespaces, Go cannot tie a child's life to its parent's.
func (s state) insideCommand(name string, arguments ...string) (*exec.Cmd, error) {
	process, err := s.process()
	if err != nil {
		return nil, err
	}
	if process == 0 {
		return nil, errNotRunning
	}
	directory, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	environment := insideEnvironment(os.Environ())
	if err := enter(process); err != nil {
		return nil, err
	}
	if _, err := os.Stat(directory); err != nil {
		directory = "/"
	}
	// The path of the cluster's environment decides where the program is found, not that of this process.
	for _, variable := range environment {
		if path, found := strings.CutPrefix(variable, "PATH="); found {
			if err := os.Setenv("PATH", path); err != nil {
				return nil, err
			}
		}
	}
	command := exec.Command(name, arguments...)
	command.Dir, command.Env = directory, environment
	return command, nil
}

// insideEnvironment is the environment of the caller with the cluster's kubectl and kubeconfig, and without proxies, which
// nobody can reach from inside.
func insideEnvironment(outside []string) []string {
	var inside []string
	path := ""
	for _, variable := range outside {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "PATH":
			path = value
		case name == "KUBECONFIG" || strings.HasSuffix(strings.ToLower(name), "_proxy"):
		default:
			inside = append(inside, variable)
		}
	}
	own, _ := strings.CutPrefix(componentEnvironment()[0], "PATH=")
	return append(inside, "PATH="+own+":"+path, "KUBECONFIG="+kubeconfig(pki.Admin))
}

// Exec is `kubenode exec`; its exit status is that of the command.
func Exec(args []string) int {
	flags := flag.NewFlagSet("exec", flag.ExitOnError)
	s, err := parseState(flags, args)
	if err == nil && flags.NArg() == 0 {
		err = errors.New("usage: kubenode exec [-dir DIRECTORY] COMMAND [ARGUMENT]")
	}
	var command *exec.Cmd
	if err == nil {
		command, err = s.insideCommand(flags.Arg(0), flags.Args()[1:]...)
	}
	if err == nil {
		command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = runWithSignals(command)
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.Exited():
		return ended.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "kubenode:", err)
		return 1
	}
}

// runWithSignals passes signals on to the command, so that it decides how to end.
func runWithSignals(command *exec.Cmd) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := command.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s) // it may just have ended
		}
	}()
	return command.Wait()
}

// LoadImage is `kubenode load-image`.
func LoadImage(args []string) error {
	flags := flag.NewFlagSet("load-image", flag.ExitOnError)
	s, err := parseState(flags, args)
	if err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: kubenode load-image [-dir DIRECTORY] ARCHIVE...")
	}
	// Opened outside: not every directory of the machine is visible inside.
	var archives []*os.File
	for _, path := range flags.Args() {
		archive, err := os.Open(path)
		if err != nil {
			return err
		}
		defer archive.Close()
		archives = append(archives, archive)
	}
	for _, archive := range archives {
		if err := s.importImage(archive); err != nil {
			return fmt.Errorf("cannot import %s: %w", archive.Name(), err)
		}
	}
	return nil
}

// importImage starts its command from a thread of its own, which ends with it.
func (s state) importImage(archive *os.File) error {
	result := make(chan error)
	go func() {
		command, err := s.insideCommand("ctr", importArguments("-")...)
		if err == nil {
			command.Stdin, command.Stdout, command.Stderr = archive, os.Stdout, os.Stderr
			err = command.Run()
		}
		result <- err
	}()
	return <-result
}
