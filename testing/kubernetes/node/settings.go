package node

import (
	_ "embed"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kubenode/pki"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	apiPort          = 6443
	pauseImage       = "docker.io/kubenode/pause:1"
)

// apiAddress is how the components reach the API server.
var apiAddress = net.JoinHostPort(nodeAddress.String(), strconv.Itoa(apiPort))

// manifests are the objects that every cluster starts with.
//
//go:embed manifests.yaml
var manifests []byte

// in names a file below the root of the cluster's data.
func in(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }

func kubeconfig(identity string) string { return in(identity + ".kubeconfig") }

// writeSettings writes the configuration files of all components.
func writeSettings(cgroup string) error {
	snapshotter := "overlayfs"
	if !overlaySupported() {
		snapshotter = "native"
	}
	values := strings.NewReplacer(
		"@ROOT@", root, "@CGROUP@", cgroup, "@NODE@", pki.NodeName, "@PODS@", podRange, "@DNS@", dnsAddress,
		"@PLUGINS@", networkPlugins(), "@SNAPSHOTTER@", snapshotter, "@SOCKET@", containerdSocket, "@PAUSE@", pauseImage,
	)
	for name, text := range map[string]string{
		"containerd.toml":          containerdSettings,
		"cni/10-bridge.conflist":   networkSettings,
		"kubelet.yaml":             kubeletSettings,
		"kube-proxy.yaml":          proxySettings,
		"resolv.conf":              "nameserver 127.0.0.1\n",
		"manifests.yaml":           string(manifests),
		"volumes/.keep":            "",
		"kubelet/.keep":            "",
		"containerd/opt/bin/.keep": "",
	} {
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(in(name), []byte(values.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const containerdSettings = `version = 2
root = "@ROOT@/containerd/root"
state = "/run/containerd/state"
[grpc]
  address = "@SOCKET@"
[plugins."io.containerd.internal.v1.opt"]
  path = "@ROOT@/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "@PAUSE@"
  # Machines without CAP_SYS_RESOURCE refuse the adjustments that the kubelet asks for, and then no pod starts.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "@PLUGINS@"
    conf_dir = "@ROOT@/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "@SNAPSHOTTER@"
`

const networkSettings = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "hairpinMode": true,
      "ipMasq": true,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "@PODS@"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/ipam"
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// Pods learn of a changed Secret with the next sync, so a short period keeps tests of a reload quick. Images come from
// nowhere but the machine itself, so they are never collected. The bounds of eviction are sizes, not shares: one per cent of a
// large disk is more than all tests take, and a node that calls its disk full starts no pod.
const kubeletSettings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: @ROOT@/pki/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /@CGROUP@
cgroupsPerQOS: true
clusterDNS: ["@DNS@"]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://@SOCKET@
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: 100Mi, nodefs.available: 100Mi, imagefs.available: 100Mi, nodefs.inodesFree: "1000", imagefs.inodesFree: "1000"}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
podLogsDir: @ROOT@/pod-logs
resolvConf: @ROOT@/resolv.conf
serializeImagePulls: false
syncFrequency: 5s
tlsCertFile: @ROOT@/pki/kubelet.crt
tlsPrivateKeyFile: @ROOT@/pki/kubelet.key
volumePluginDir: @ROOT@/volume-plugins
`

const proxySettings = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: @PODS@
clientConnection: {kubeconfig: @ROOT@/admin.kubeconfig}
hostnameOverride: @NODE@
conntrack: {maxPerCore: 0}
`

func controllerManagerArguments() []string {
	return []string{
		"--kubeconfig=" + kubeconfig(pki.Admin),
		"--leader-elect=false",
		"--allocate-node-cidrs=false",
		// One identity for all controllers, and no brake on their requests: a start is two seconds quicker.
		"--use-service-account-credentials=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--service-account-private-key-file=" + in("pki", pki.ServiceAccounts+".key"),
		"--root-ca-file=" + in("pki", "ca.crt"),
		"--cluster-signing-cert-file=" + in("pki", "ca.crt"),
		"--cluster-signing-key-file=" + in("pki", "ca.key"),
		"--terminated-pod-gc-threshold=50",
	}
}

func kubeletArguments() []string {
	return []string{
		"--config=" + in("kubelet.yaml"),
		"--kubeconfig=" + kubeconfig(pki.Kubelet),
		"--hostname-override=" + pki.NodeName,
		"--node-ip=" + nodeAddress.String(),
		"--root-dir=" + in("kubelet"),
		"--cert-dir=" + in("pki"),
	}
}

func controlPlaneArguments() []string {
	return []string{
		"-data=" + in("etcd"), "-pki=" + in("pki"), "-address=" + nodeAddress.String(), "-port=" + strconv.Itoa(apiPort),
	}
}
