// Package components holds the programs that a Kubernetes node and its control plane consist of, each as a function.
package components

import (
	"context"
	"fmt"
	"os"
	"sort"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics of every client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build_info metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var table = map[string]func(args []string) int{
	"kube-apiserver": func(args []string) int { return runCobra(apiserver.NewAPIServerCommand(), args) },
	"kube-controller-manager": func(args []string) int {
		return runCobra(controllermanager.NewControllerManagerCommand(), args)
	},
	"kube-scheduler": func(args []string) int { return runCobra(scheduler.NewSchedulerCommand(), args) },
	"kube-proxy":     func(args []string) int { return runCobra(proxy.NewProxyCommand(), args) },
	"kubelet": func(args []string) int {
		return runCobra(kubelet.NewKubeletCommand(context.Background()), args)
	},
	"kubectl": runKubectl,
	"dns":     runDNS,
	"volumes": runVolumes,
}

// Has says whether a component of that name exists.
func Has(name string) bool { return table[name] != nil }

// Names lists the components in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Run runs the component until it ends and returns its exit status.
func Run(name string, args []string) int {
	// The components read the arguments of the process in places, not only those of their command.
	os.Args = append([]string{name}, args...)
	return table[name](args)
}

func runCobra(command *cobra.Command, args []string) int {
	command.SetArgs(args)
	return cli.Run(command)
}

func runKubectl([]string) int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

// fail reports the error of a component and returns the exit status for it.
func fail(component string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", component, err)
	return 1
}
