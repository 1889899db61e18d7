package components

import (
	"flag"
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"        // listen on the node's address only
	_ "github.com/coredns/coredns/plugin/errors"      // log failed queries
	_ "github.com/coredns/coredns/plugin/kubernetes"  // names of services and pods
	_ "github.com/coredns/coredns/plugin/loadbalance" // shuffle the addresses of an answer
	_ "github.com/coredns/coredns/plugin/template"    // refuse names outside the cluster
)

// The cluster has no way out of the machine, so a name outside it does not exist: an immediate answer saves every
// resolver inside the pods its timeout.
const corefile = `
cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
    bind %[1]s
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %[2]s
        pods insecure
        ttl 5
    }
    loadbalance
}
.:53 {
    bind %[1]s
    template ANY ANY {
        rcode NXDOMAIN
    }
}
`

func runDNS(args []string) int {
	flags := flag.NewFlagSet("dns", flag.ExitOnError)
	bind := flags.String("bind", "127.0.0.1", "address to serve on, port 53")
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	_ = flags.Parse(args) // ExitOnError: it does not return an error

	caddy.Quiet, dnsserver.Quiet = true, true
	instance, err := caddy.Start(caddy.CaddyfileInput{
		Filepath:       "Corefile",
		Contents:       fmt.Appendf(nil, corefile, *bind, *kubeconfig),
		ServerTypeName: "dns",
	})
	if err != nil {
		return fail("dns", err)
	}
	instance.Wait()
	return 0
}
