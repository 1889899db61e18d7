package components

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v11/controller"
)

// provisionerName is what the StorageClass of the cluster names (node/manifests.yaml).
const provisionerName = "kubenode/hostdir"

const provisionedBy = "pv.kubernetes.io/provisioned-by"

// hostDirectories provides each claim with a directory of the node.
type hostDirectories struct{ base string }

func (h *hostDirectories) Provision(_ context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	directory := filepath.Join(h.base, o.PVName)
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	// Any user of a pod may write, whatever this process's umask.
	if err := os.Chmod(directory, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	onNode := v1.NodeSelectorRequirement{
		Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{o.SelectedNode.Name},
	}
	mode := v1.PersistentVolumeFilesystem
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: directory}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{onNode}}},
			}},
		},
	}, controller.ProvisioningFinished, nil
}

func (h *hostDirectories) Delete(_ context.Context, volume *v1.PersistentVolume) error {
	if volume.Spec.Local == nil || filepath.Dir(volume.Spec.Local.Path) != filepath.Clean(h.base) {
		return fmt.Errorf("volume %s is not below %s", volume.Name, h.base)
	}
	return os.RemoveAll(volume.Spec.Local.Path)
}

// grow records a claim's larger request on its volume and in its status: a directory has no size of its own.
func grow(ctx context.Context, client kubernetes.Interface, claim *v1.PersistentVolumeClaim) error {
	want, have := claim.Spec.Resources.Requests[v1.ResourceStorage], claim.Status.Capacity[v1.ResourceStorage]
	if claim.Status.Phase != v1.ClaimBound || want.Cmp(have) <= 0 {
		return nil
	}
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || volume.Annotations[provisionedBy] != provisionerName {
		return err
	}
	volume.Spec.Capacity[v1.ResourceStorage] = want
	if _, err = client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity[v1.ResourceStorage] = want
	claim.Status.Conditions = nil
	_, err = client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

func runVolumes(args []string) int {
	flags := flag.NewFlagSet("volumes", flag.ExitOnError)
	base := flags.String("base", "", "directory below which each claim gets its own")
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	_ = flags.Parse(args) // ExitOnError: it does not return an error

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fail("volumes", err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail("volumes", err)
	}
	ctx := context.Background()
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, updated any) {
			claim, ok := updated.(*v1.PersistentVolumeClaim)
			if !ok {
				return
			}
			if err := grow(ctx, client, claim); err != nil {
				klog.ErrorS(err, "cannot grow", "claim", klog.KObj(claim))
			}
		},
	})
	if err != nil {
		return fail("volumes", err)
	}
	factory.Start(ctx.Done())
	provisioner := &hostDirectories{base: *base}
	controller.NewProvisionController(ctx, client, provisionerName, provisioner, controller.LeaderElection(false)).Run(ctx)
	return 0
}
