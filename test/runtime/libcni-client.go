// A client of libcni, the library with which container runtimes execute plugins. It does what cnitool does, which Debian
// does not package:
//
//	libcni-client validate|add|check|del CONFLIST PLUGIN-FOLDERS CACHE-FOLDER CONTAINER-ID NETNS IFNAME [CAPABILITIES]
//
// PLUGIN-FOLDERS are joined by colons, CAPABILITIES is a JSON object. Prints the result of add; errors go to standard error with CNI's code, and the exit code is 1.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func main() {
	if len(os.Args) < 8 {
		fail(fmt.Errorf("seven arguments are wanted, not %d", len(os.Args)-1))
	}
	list, err := libcni.ConfListFromFile(os.Args[2])
	if err != nil {
		fail(err)
	}
	runtime := &libcni.RuntimeConf{ContainerID: os.Args[5], NetNS: os.Args[6], IfName: os.Args[7]}
	if len(os.Args) > 8 {
		if err := json.Unmarshal([]byte(os.Args[8]), &runtime.CapabilityArgs); err != nil {
			fail(err)
		}
	}
	fail(run(os.Args[1], libcni.NewCNIConfigWithCacheDir(strings.Split(os.Args[3], ":"), os.Args[4], nil), list, runtime))
}

func run(verb string, cni *libcni.CNIConfig, list *libcni.NetworkConfigList, runtime *libcni.RuntimeConf) error {
	ctx := context.Background()
	switch verb {
	case "validate":
		capabilities, err := cni.ValidateNetworkList(ctx, list)
		sort.Strings(capabilities)
		fmt.Println(capabilities)
		return err
	case "add":
		result, err := cni.AddNetworkList(ctx, list, runtime)
		if err != nil {
			return err
		}
		return result.Print()
	case "check":
		return cni.CheckNetworkList(ctx, list, runtime)
	case "del":
		return cni.DelNetworkList(ctx, list, runtime)
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
