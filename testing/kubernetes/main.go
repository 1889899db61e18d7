// Kubenode is a whole Kubernetes in one binary, for demonstrations and tests on one machine.
//
// It holds the upstream components (API server, controller manager, scheduler, kubelet, kube-proxy, kubectl), etcd,
// CoreDNS and a volume provisioner, and the few commands that start and stop them as a cluster.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"kubenode/components"
	"kubenode/controlplane"
	"kubenode/image"
	"kubenode/node"
)

// command is one subcommand; its arguments arrive without the command's name, and it returns the exit status.
type command struct {
	help string
	run  func(args []string) int
}

var commands = map[string]command{
	"up":         {"start a one-node cluster in private namespaces; does nothing when it runs already", fallible(node.Up)},
	"down":       {"end a cluster and remove everything it made", fallible(node.Down)},
	"status":     {"say whether a cluster runs and how to reach it", fallible(node.Status)},
	"exec":       {"run a command inside the namespaces of a cluster", node.Exec},
	"load-image": {"import image archives into a cluster", fallible(node.LoadImage)},
	"forward":    {"forward loopback ports of this machine into a cluster", fallible(node.Forward)},
	"image":      {"write an image archive from static binaries", fallible(image.Command)},
	"apiserver":  {"run etcd and an API server on loopback ports, without a node", fallible(controlplane.Command)},
}

// Commands that only the cluster itself starts; the help does not list them.
var internalCommands = map[string]command{
	node.InitCommand:         {"", node.Init},
	node.ControlPlaneCommand: {"", fallible(controlplane.Serve)},
}

func main() {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(components.Run("kubectl", os.Args[1:]))
	}
	if len(os.Args) < 2 {
		usage()
		os.Exit(2)
	}
	name, args := os.Args[1], os.Args[2:]
	if c, ok := commands[name]; ok {
		os.Exit(c.run(args))
	}
	if c, ok := internalCommands[name]; ok {
		os.Exit(c.run(args))
	}
	if components.Has(name) {
		os.Exit(components.Run(name, args))
	}
	usage()
	os.Exit(2)
}

// fallible turns a function that returns an error into one that reports it and returns an exit status.
func fallible(run func(args []string) error) func(args []string) int {
	return func(args []string) int {
		if err := run(args); err != nil {
			fmt.Fprintln(os.Stderr, "kubenode:", err)
			return 1
		}
		return 0
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kubenode COMMAND [FLAGS]; -h after a command lists its flags")
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(os.Stderr, "  %-12s %s\n", name, commands[name].help)
	}
	fmt.Fprintf(os.Stderr, "components, with their own flags: %v\n", components.Names())
}
