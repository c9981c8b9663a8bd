// A client of the newest libcni, for the verbs that Debian's has not (CNI 1.1.0):
//
//	newest-libcni add|del|status|gc CONFLIST PLUGIN-FOLDERS CACHE-FOLDER [CONTAINER-ID NETNS IFNAME]
//
// Of `gc` the container is the one that there still is; without one there is none. PLUGIN-FOLDERS are joined by colons. Prints the result of add;
// errors go to standard error, with CNI's code where they have one, and the exit code is 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func main() {
	if len(os.Args) != 5 && len(os.Args) != 8 {
		fail(fmt.Errorf("four or seven arguments are wanted, not %d", len(os.Args)-1))
	}
	list, err := libcni.ConfListFromFile(os.Args[2])
	if err != nil {
		fail(err)
	}
	runtime := &libcni.RuntimeConf{}
	if len(os.Args) == 8 {
		runtime = &libcni.RuntimeConf{ContainerID: os.Args[5], NetNS: os.Args[6], IfName: os.Args[7]}
	}
	fail(run(os.Args[1], libcni.NewCNIConfigWithCacheDir(strings.Split(os.Args[3], ":"), os.Args[4], nil), list, runtime))
}

func run(verb string, cni *libcni.CNIConfig, list *libcni.NetworkConfigList, runtime *libcni.RuntimeConf) error {
	ctx := context.Background()
	switch verb {
	case "add":
		result, err := cni.AddNetworkList(ctx, list, runtime)
		if err != nil {
			return err
		}
		return result.Print()
	case "del":
		return cni.DelNetworkList(ctx, list, runtime)
	case "status":
		return cni.GetStatusNetworkList(ctx, list)
	case "gc":
		valid := &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}}
		if runtime.ContainerID != "" {
			valid.ValidAttachments = append(valid.ValidAttachments, types.GCAttachment{ContainerID: runtime.ContainerID, IfName: runtime.IfName})
		}
		return cni.GCNetworkList(ctx, list, valid)
	}
	return fmt.Errorf("there is no verb %q", verb)
}

func fail(err error) {
	var refusal *types.Error
	if errors.As(err, &refusal) {
		fmt.Fprintf(os.Stderr, "code %d: %s; %s\n", refusal.Code, refusal.Msg, refusal.Details)
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
