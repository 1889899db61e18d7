package node

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A component that ends is started again this often; after that the whole node ends, because it would only limp.
const restartsMax = 5

const restartPause = time.Second

// supervisor starts the processes of the node. It is also the parent of every orphan of the process namespace, so it
// collects all children in one place; the standard library's own waiting would race with that.
type supervisor struct {
	executable string
	logs       string
	mutex      sync.Mutex
	waiting    map[int]chan syscall.WaitStatus
	failed     chan error
}

func newSupervisor(executable, logs string) *supervisor {
	s := &supervisor{
		executable: executable,
		logs:       logs,
		waiting:    map[int]chan syscall.WaitStatus{},
		failed:     make(chan error, 1),
	}
	go s.reap()
	return s
}

// reap collects children for as long as the process lives.
func (s *supervisor) reap() {
	const pauseWithoutChildren = 20 * time.Millisecond
	for {
		var status syscall.WaitStatus
		process, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.ECHILD {
			time.Sleep(pauseWithoutChildren)
			continue
		}
		if err != nil {
			continue // interrupted
		}
		s.mutex.Lock()
		if ended, ours := s.waiting[process]; ours {
			ended <- status
			delete(s.waiting, process)
		}
		s.mutex.Unlock()
	}
}

// start starts a program with its output in a log of the name.
func (s *supervisor) start(name, path string, arguments []string) (<-chan syscall.WaitStatus, error) {
	log, err := os.OpenFile(filepath.Join(s.logs, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	// Held across the start, so that a process that ends at once is known before it is collected.
	s.mutex.Lock()
	defer s.mutex.Unlock()
	process, err := syscall.ForkExec(path, append([]string{path}, arguments...), &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", path, err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	s.waiting[process] = ended
	return ended, nil
}

// run runs a program to its end.
func (s *supervisor) run(name, path string, arguments ...string) error {
	ended, err := s.start(name, path, arguments)
	if err != nil {
		return err
	}
	if status := <-ended; status.ExitStatus() != 0 {
		return fmt.Errorf("%s: %s", filepath.Base(path), describeEnd(status))
	}
	return nil
}

// keep runs a program and starts it again when it ends, up to the bound.
func (s *supervisor) keep(name, path string, arguments ...string) {
	go func() {
		for range restartsMax + 1 {
			ended, err := s.start(name, path, arguments)
			if err != nil {
				s.fail(err)
				return
			}
			fmt.Printf("%s %s\n", name, describeEnd(<-ended))
			time.Sleep(restartPause)
		}
		s.fail(fmt.Errorf("%s ended %d times; see its log in %s", name, restartsMax+1, s.logs))
	}()
}

// component keeps one of the subcommands of this binary running.
func (s *supervisor) component(name string, arguments ...string) {
	s.keep(name, s.executable, append([]string{name}, arguments...)...)
}

// fail ends the node with the first failure; later ones are its consequence.
func (s *supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

func describeEnd(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("was ended by signal %v", status.Signal())
	}
	return fmt.Sprintf("ended with status %d", status.ExitStatus())
}
