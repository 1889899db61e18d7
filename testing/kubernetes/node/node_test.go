package node

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryCgroupHierarchyIsFoundOnce(t *testing.T) {
	const mounts = `25 21 0:22 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
28 21 0:23 / /sys/fs/cgroup/cpu rw,relatime shared:3 master:2 - cgroup cgroup rw,cpu
29 21 8:1 / /data/cgroup rw - ext4 /dev/sda1 rw
`
	roots := parseCgroupRoots(bufio.NewScanner(strings.NewReader(mounts)))
	if want := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"}; !slices.Equal(roots, want) {
		t.Errorf("found %v, want %v", roots, want)
	}
}

func TestInsideEnvironmentHasTheClustersKubeconfigAndNoProxy(t *testing.T) {
	inside := insideEnvironment([]string{
		"PATH=/own/bin", "KUBECONFIG=/elsewhere", "HTTPS_PROXY=http://proxy", "no_proxy=localhost", "TERM=dumb",
	})
	for _, wanted := range []string{"TERM=dumb", "KUBECONFIG=/run/kubenode/admin.kubeconfig"} {
		if !slices.Contains(inside, wanted) {
			t.Errorf("%s is missing in %v", wanted, inside)
		}
	}
	for _, variable := range inside {
		if strings.Contains(strings.ToLower(variable), "_proxy") || variable == "KUBECONFIG=/elsewhere" {
			t.Errorf("%s came through", variable)
		}
		if path, found := strings.CutPrefix(variable, "PATH="); found && !strings.HasSuffix(path, ":/own/bin") {
			t.Errorf("the caller's programs are not at the end of %s", path)
		}
	}
}

func TestClustersInDifferentDirectoriesHaveDifferentCgroups(t *testing.T) {
	one, other := state{"/a/one"}, state{"/a/other"}
	if one.cgroup() == other.cgroup() || one.cgroup() != (state{"/a/one"}).cgroup() {
		t.Errorf("cgroups %s and %s", one.cgroup(), other.cgroup())
	}
}

func TestLockTellsWhetherAClusterRuns(t *testing.T) {
	s := state{t.TempDir()}
	if process, err := s.process(); process != 0 || err != nil {
		t.Fatalf("without a lock: process %d, %v", process, err)
	}
	lock, err := s.lock()
	if err != nil || lock == nil {
		t.Fatalf("lock %v, %v", lock, err)
	}
	if second, err := s.lock(); second != nil || err != nil {
		t.Errorf("second lock %v, %v", second, err)
	}
	if err := os.WriteFile(s.path("pid"), []byte("42\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if process, err := s.process(); process != 42 || err != nil {
		t.Errorf("with a lock: process %d, %v", process, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if process, err := s.process(); process != 0 || err != nil {
		t.Errorf("after the end: process %d, %v", process, err)
	}
}

func TestRemoveTreeRemovesNestedGroupsAndToleratesNone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "group")
	if err := os.MkdirAll(filepath.Join(root, "pod", "container"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := removeTree(root); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", root, err)
	}
}

func TestRemoveTreeReportsWhatItCannotRemove(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(root); err == nil {
		t.Error("a directory with a file was reported as removed")
	}
}

// Each side sends, closes its half, and still receives what the other sends.
func TestForwardedConnectionKeepsHalfClosedDirections(t *testing.T) {
	target := listen(t)
	go func() {
		connection, err := target.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		request, _ := io.ReadAll(connection)
		_, _ = connection.Write(append([]byte("answer to "), request...))
	}()
	front := listen(t)
	go serve(front, func() (net.Conn, error) { return net.Dial("tcp", target.Addr().String()) })

	client, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	closeWrite(client)
	answer, err := io.ReadAll(client)
	if err != nil || string(answer) != "answer to question" {
		t.Errorf("got %q, %v", answer, err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}
