package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// root is where the first process mounts the cluster's data directory: short, because the path of a socket is limited,
// and the same for every cluster, so that all settings are constants.
const root = "/run/kubenode"

// hiddenDirectories get an empty file system of their own inside: the programs of a node share them with the machine
// otherwise, sockets and name spaces of pods among it.
var hiddenDirectories = []string{"/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log"}

// nodeSysctls are settings of the whole machine that the kubelet wants otherwise. It finds these values, in files that
// only this mount namespace has, and leaves the real ones alone.
var nodeSysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// The network of the node: an address on one end of a virtual cable whose other end is in the same namespace.
var nodeAddress = net.IPv4(172, 30, 0, 1)

const (
	nodeInterface = "node0"
	peerInterface = "node1"
	dnsAddress    = "10.96.0.10"
	podRange      = "10.244.0.0/24"
)

// isolateMounts builds the mount namespace and makes the cluster's data directory appear as root.
func isolateMounts(data string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	// Opened before /run is hidden, in case the link leads there.
	resolver, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		resolver = "/etc/resolv.conf"
	}
	for _, directory := range hiddenDirectories {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", directory, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("cannot hide %s: %w", directory, err)
		}
	}
	for _, directory := range []string{root, "/run/lock", "/run/sysctl"} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(data, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", data, root, err)
	}
	for name, value := range nodeSysctls {
		if err := cover(filepath.Join("/proc/sys", name), "/run/sysctl/"+strings.ReplaceAll(name, "/", "."), value); err != nil {
			return err
		}
	}
	// Commands inside find the names of the cluster; the kubelet gives pods the same server by its own settings.
	text := "nameserver " + dnsAddress + "\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
	return cover(resolver, "/run/resolv.conf", text)
}

// cover mounts a new file with the content over the file at the path.
func cover(path, source, content string) error {
	if err := os.WriteFile(source, []byte(content), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
	}
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot cover %s: %w", path, err)
	}
	return nil
}

// isolateNetwork gives the node its address and a default route, which leads nowhere but lets programs find the address.
func isolateNetwork() error {
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nodeInterface}, PeerName: peerInterface}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("cannot make a pair of virtual interfaces: %w", err)
	}
	for _, name := range []string{"lo", peerInterface, nodeInterface} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if name == nodeInterface {
			address := &netlink.Addr{IPNet: &net.IPNet{IP: nodeAddress, Mask: net.CIDRMask(24, 32)}}
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("cannot start interface %s: %w", name, err)
		}
		if name == nodeInterface {
			everywhere := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
			route := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: everywhere}
			if err := netlink.RouteAdd(route); err != nil {
				return fmt.Errorf("cannot add the default route: %w", err)
			}
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	// Without this setting a pod does not reach itself or a neighbour through a service; some kernels have it built in
	// and on, and then there is no file.
	err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// makeCgroups makes the cluster's control group in every hierarchy.
func makeCgroups(name string) error {
	roots := cgroupRoots()
	if len(roots) == 0 {
		return errors.New("no control group hierarchy is mounted")
	}
	for _, hierarchy := range roots {
		group := filepath.Join(hierarchy, name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		// A new cpuset is empty, and nothing can run in it, until it is told its processors and memory.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(hierarchy, file))
			if err != nil {
				continue // another hierarchy than cpuset
			}
			if err := os.WriteFile(filepath.Join(group, file), all, 0o644); err != nil {
				return err
			}
		}
		if err := delegate(hierarchy, group); err != nil {
			return err
		}
	}
	return nil
}

// delegate passes the controllers on to the group's children, which version 2 does not do by itself.
func delegate(hierarchy, group string) error {
	controllers, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
	if err != nil {
		return nil // version 1
	}
	for _, controller := range strings.Fields(string(controllers)) {
		for _, level := range []string{hierarchy, group} {
			path := filepath.Join(level, "cgroup.subtree_control")
			if err := os.WriteFile(path, []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("cannot pass on controller %s: %w", controller, err)
			}
		}
	}
	return nil
}

// overlaySupported says whether the data directory can hold the upper layer of an overlay file system.
func overlaySupported() bool {
	base := filepath.Join(root, "overlay-check")
	defer os.RemoveAll(base)
	for _, part := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join(base, part), 0o755); err != nil {
			return false
		}
	}
	merged := filepath.Join(base, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", base)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return false
	}
	return unix.Unmount(merged, 0) == nil
}
