import { createWireGuardDevice } from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import { NetworkNamespace } from '../../src/netlink/namespace.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { KernelWireGuard } from '../../src/netlink/wireguard/kernel-wireguard.ts';
import { targetContract } from '../contract/target.ts';
import { type WireGuardPair, wireGuardContract } from '../contract/wireguard.ts';
import { joinedNamespaces, removeNamespaces, type UnderlayNamespace } from '../contract/wireguard-namespaces.ts';
import { openWireGuardTarget } from '../contract/wireguard-target.ts';

/** Devices of the kernel's module, one in each namespace. */
async function openKernelDevices(): Promise<WireGuardPair> {
  const pair = joinedNamespaces();
  const open = (end: UnderlayNamespace) => {
    const namespace = NetworkNamespace.open(`/run/netns/${end.namespace}`);
    try {
      createDevice(namespace, end.device);
      return { ...end, wireGuard: KernelWireGuard.open(namespace) };
    } finally {
      namespace.close();
    }
  };
  const [first, second] = [open(pair[0]), open(pair[1])];
  return {
    ends: [first, second],
    close: async () => {
      for (const { wireGuard } of [first, second]) wireGuard.close();
      removeNamespaces(pair);
    },
  };
}

function createDevice(namespace: NetworkNamespace, name: string): void {
  const socket = NetlinkSocket.open({ namespace });
  try {
    const batch = new Batch();
    createWireGuardDevice(batch, { name });
    socket.transact(batch);
  } finally {
    socket.close();
  }
}

wireGuardContract('the kernel', openKernelDevices);

targetContract(
  'WireGuardTarget with the kernel',
  () =>
    openWireGuardTarget({
      create: async (namespace, device) => {
        const place = NetworkNamespace.open(`/run/netns/${namespace}`);
        createDevice(place, device);
        place.close();
      },
      prepare: async () => {}, // the target creates it
      close: async () => {},
    }),
  { refusal: 'all' },
);
