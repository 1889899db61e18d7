package pki

import "net"

// ServiceAddress is the cluster address of the API server: the first of the service range.
var ServiceAddress = net.IPv4(10, 96, 0, 1)

// The identities of a cluster, by the name of their files.
const (
	APIServer       = "apiserver"
	Admin           = "admin"
	Kubelet         = "kubelet"
	FrontProxy      = "front-proxy"
	ServiceAccounts = "service-accounts"
)

// NodeName is the name of the only node.
const NodeName = "node"

// NewCluster makes an authority and all identities of a cluster whose API server listens on the address and on loopback.
func NewCluster(directory string, address net.IP) (*Authority, error) {
	authority, err := New(directory)
	if err != nil {
		return nil, err
	}
	identities := map[string]Identity{
		APIServer: {
			Name: "kube-apiserver",
			DNSNames: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			},
			Addresses: []net.IP{net.IPv4(127, 0, 0, 1), ServiceAddress, address},
		},
		Admin: {Name: "admin", Organization: "system:masters"},
		Kubelet: {
			Name: "system:node:" + NodeName, Organization: "system:nodes",
			DNSNames: []string{NodeName}, Addresses: []net.IP{address},
		},
		FrontProxy:      {Name: "front-proxy"},
		ServiceAccounts: {Name: "service-accounts"},
	}
	for file, identity := range identities {
		if err := authority.Issue(file, identity); err != nil {
			return nil, err
		}
	}
	return authority, nil
}
