package node

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"kubenode/image"
	"kubenode/pki"
)

// pollPause is the time between two looks at something that becomes ready within seconds.
const pollPause = 50 * time.Millisecond

// first is the first process of the namespaces, the parent of all components.
type first struct {
	outside    state
	cgroup     string
	server     string // address of the API server as seen from the machine's loopback
	progress   *os.File
	authority  *pki.Authority
	client     *http.Client
	supervisor *supervisor
}

// Init is the first process of a cluster's namespaces. It ends only when the cluster has failed, or is killed.
func Init(args []string) int {
	f := first{progress: os.NewFile(progressDescriptor, "progress")}
	flags := flag.NewFlagSet(InitCommand, flag.ExitOnError)
	flags.StringVar(&f.outside.directory, "dir", "", "directory of the cluster")
	flags.StringVar(&f.cgroup, "cgroup", "", "control group of the cluster")
	flags.StringVar(&f.server, "server", "", "address of the API server on the machine's loopback")
	_ = flags.Parse(args) // ExitOnError: it does not return an error
	for _, descriptor := range []int{listenerDescriptor, progressDescriptor, lockDescriptor} {
		unix.CloseOnExec(descriptor)
	}
	if err := f.run(); err != nil {
		fmt.Println("the node ends:", err)
		return 1
	}
	return 0
}

// run reads as the story of a start.
func (f *first) run() error {
	if err := f.prepare(); err != nil {
		return err
	}
	f.say("namespaces, certificates and settings made")
	f.supervisor.component(ControlPlaneCommand, controlPlaneArguments()...)
	f.supervisor.keep("containerd", lookSystem("containerd"), "--config", in("containerd.toml"))
	go f.forwardAPI()

	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := f.importPause(ctx); err != nil {
		return err
	}
	if err := f.await(ctx, "the API server", func() bool { return f.get("/readyz", nil) }); err != nil {
		return err
	}
	f.say("API server ready")
	f.startComponents()
	if err := f.applyManifests(); err != nil {
		return err
	}
	if err := f.await(ctx, "the node", f.nodeReady); err != nil {
		return err
	}
	f.say("node ready")
	if err := f.await(ctx, "the name server", nameServerReady); err != nil {
		return err
	}
	// Pods are refused until the controllers have made the account that they run as.
	account := "/api/v1/namespaces/default/serviceaccounts/default"
	if err := f.await(ctx, "the default service account", func() bool { return f.get(account, nil) }); err != nil {
		return err
	}
	f.say("names and volumes ready")
	// Written here, not by the command that started the cluster: that one may have been interrupted.
	if err := os.WriteFile(f.outside.path("ready"), nil, 0o644); err != nil {
		return err
	}
	f.say(readyLine)
	f.progress.Close()
	return <-f.supervisor.failed
}

func (f *first) say(line string) {
	fmt.Println(line)
	// Nobody listens any more when the command that started the cluster was interrupted; the cluster goes on.
	_, _ = fmt.Fprintln(f.progress, line)
}

// prepare makes everything that has to exist before the first component starts.
func (f *first) prepare() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	data := f.outside.path("data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	if err := isolateMounts(data); err != nil {
		return err
	}
	if err := isolateNetwork(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(pki.NodeName)); err != nil {
		return err
	}
	if err := makeCgroups(f.cgroup); err != nil {
		return err
	}
	if f.authority, err = pki.NewCluster(in("pki"), nodeAddress); err != nil {
		return err
	}
	for _, identity := range []string{pki.Admin, pki.Kubelet} {
		if err := f.authority.WriteKubeconfig(kubeconfig(identity), "https://"+apiAddress, identity); err != nil {
			return err
		}
	}
	if err := f.authority.WriteKubeconfig(f.outside.path("kubeconfig"), f.server, pki.Admin); err != nil {
		return err
	}
	settings, err := f.authority.ClientConfig(pki.Admin)
	if err != nil {
		return err
	}
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: settings}, Timeout: 5 * time.Second}
	f.supervisor = newSupervisor(executable, f.outside.path("log"))
	return writeSettings(f.cgroup)
}

func (f *first) startComponents() {
	admin := "-kubeconfig=" + kubeconfig(pki.Admin)
	f.supervisor.component("kubelet", kubeletArguments()...)
	f.supervisor.component("kube-controller-manager", controllerManagerArguments()...)
	f.supervisor.component("kube-scheduler", "--kubeconfig="+kubeconfig(pki.Admin), "--leader-elect=false")
	f.supervisor.component("kube-proxy", "--config="+in("kube-proxy.yaml"))
	f.supervisor.component("dns", admin, "-bind="+nodeAddress.String())
	f.supervisor.component("volumes", admin, "-base="+in("volumes"))
}

func (f *first) applyManifests() error {
	return f.supervisor.run("manifests", f.supervisor.executable,
		"kubectl", "--kubeconfig="+kubeconfig(pki.Admin), "create", "--validate=false", "-f", in("manifests.yaml"))
}

// importPause makes the image of every pod's sandbox from the program beside this binary and imports it.
func (f *first) importPause(ctx context.Context) error {
	pause := image.Image{
		Name: pauseImage, Entrypoint: []string{"/pause"}, User: "65535:65535",
		Files: []image.File{{Source: filepath.Join(filepath.Dir(f.supervisor.executable), "pause"), Path: "/pause"}},
	}
	archive := in("pause.tar")
	if err := pause.WriteFile(archive); err != nil {
		return err
	}
	listening := func() bool {
		connection, err := net.Dial("unix", containerdSocket)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	}
	if err := f.await(ctx, "containerd", listening); err != nil {
		return err
	}
	return f.supervisor.run("import", lookSystem("ctr"), importArguments(archive)...)
}

// importArguments make ctr import an archive, or its standard input, where the kubelet looks for images.
func importArguments(archive string) []string {
	return []string{"--address", containerdSocket, "--namespace", "k8s.io", "images", "import", archive}
}

// await waits until the condition holds, or the node has failed, or the time is over.
func (f *first) await(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case err := <-f.supervisor.failed:
			return fmt.Errorf("while waiting for %s: %w", what, err)
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready after %v", what, startTimeout)
		case <-time.After(pollPause):
		}
	}
	return nil
}

// get reads an object of the API into the target, and says whether that worked.
func (f *first) get(path string, target any) bool {
	response, err := f.client.Get("https://" + apiAddress + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false
	}
	return target == nil || json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(target) == nil
}

func (f *first) nodeReady() bool {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if !f.get("/api/v1/nodes/"+pki.NodeName, &node) {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return true
		}
	}
	return false
}

// nameServerReady asks through the service's address, which shows that kube-proxy works as well.
func nameServerReady() bool {
	resolver := net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(dnsAddress, "53"))
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	return err == nil && len(addresses) == 1 && addresses[0] == pki.ServiceAddress.String()
}

// forwardAPI carries connections to the machine's loopback over to the API server.
func (f *first) forwardAPI() {
	file := os.NewFile(listenerDescriptor, "listener")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		f.supervisor.fail(err)
		return
	}
	f.supervisor.fail(serve(listener, func() (net.Conn, error) { return net.Dial("tcp", apiAddress) }))
}
