// What runs pods: the controller manager, the scheduler and the kubelet. The first argument chooses
// the program; the rest is its own command line. They are apart from the control plane because the
// test command does without them.
package main

import (
	"context"
	"fmt"
	"os"
	_ "time/tzdata" // CronJob's timeZone

	"k8s.io/component-base/cli"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr,
			"usage: kubebox-node kube-controller-manager|kube-scheduler|kubelet ARGUMENTS...")
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "kube-controller-manager":
		os.Exit(cli.Run(manager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	default:
		fmt.Fprintf(os.Stderr, "kubebox-node: no program %q in here\n", os.Args[0])
		os.Exit(2)
	}
}
