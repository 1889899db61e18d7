package node

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs that a node needs besides this binary, and the Debian packages that have them.
var programs = []struct{ name, debianPackage string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
}

const networkPluginsPackage = "containernetworking-plugins"

// systemPath is where the components look for programs; a person's own PATH may lack the directories of the system's.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// requireHost checks what a node needs from the machine, and installs missing packages where that is possible.
func requireHost(directory string) error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root for its namespaces, mounts and control groups; run this with sudo")
	}
	for _, hidden := range hiddenDirectories {
		if directory == hidden || strings.HasPrefix(directory, hidden+"/") {
			return fmt.Errorf("the directory of a cluster cannot be below %s", hidden)
		}
	}
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	install := "apt-get install --yes --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks programs that Debian has in these packages; please install them: %s", strings.Join(missing, " "))
	}
	fmt.Println("installing", strings.Join(missing, " "))
	for _, line := range []string{"apt-get update --quiet --quiet", install} {
		command := exec.Command("/bin/sh", "-c", line)
		// Nobody asks to start the system's own containerd; the run level keeps the package from doing so.
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, output)
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("still missing after `%s`: %v", install, missing)
	}
	return nil
}

func missingPackages() []string {
	var missing []string
	for _, program := range programs {
		if lookSystem(program.name) == "" && !slices.Contains(missing, program.debianPackage) {
			missing = append(missing, program.debianPackage)
		}
	}
	if networkPlugins() == "" {
		missing = append(missing, networkPluginsPackage)
	}
	return missing
}

// lookSystem is the path of a program in the system's directories, or nothing.
func lookSystem(name string) string {
	for _, directory := range strings.Split(systemPath, ":") {
		path := filepath.Join(directory, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// networkPlugins is the directory of the container network plugins; Debian and the project itself differ about it.
func networkPlugins() string {
	for _, directory := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(directory, "bridge")); err == nil {
			return directory
		}
	}
	return ""
}

// cgroupRoots are the mount points of all control group hierarchies: one of version 2, or several of version 1.
func cgroupRoots() []string {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer mounts.Close()
	return parseCgroupRoots(bufio.NewScanner(mounts))
}

func parseCgroupRoots(mounts *bufio.Scanner) []string {
	var roots []string
	for mounts.Scan() {
		// id parent device root mountpoint options [optional fields] - type source options
		mount, kind, found := strings.Cut(mounts.Text(), " - ")
		fields := strings.Fields(mount)
		if found && len(fields) > 4 && strings.HasPrefix(kind, "cgroup") && !slices.Contains(roots, fields[4]) {
			roots = append(roots, fields[4])
		}
	}
	return roots
}

// componentEnvironment is all that the components see of the environment: no proxy of the machine stands between them.
func componentEnvironment() []string {
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	return []string{"PATH=" + filepath.Dir(executable) + ":" + systemPath, "HOME=/root", "LANG=C.UTF-8"}
}
