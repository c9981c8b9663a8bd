import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import type { ReadyState } from '../../src/nodes/local/readiness.ts';
import type { PodNetwork } from '../../src/pods/cni-server/pod-network.ts';
import type { AttachedPod, AttachmentKey, PodAttachment } from '../../src/pods/ipam/attachment.ts';
import { SimulatedCrash } from '../../src/pods/ipam/testing/memory-journal-store.ts';
import type { InjectedFault } from './address-faults.ts';

/** Kernel and OVS, as far as an attachment uses them. */
interface ModelNode {
  /** Interfaces of the kernel, and their addresses. */
  readonly links: Map<string, readonly string[]>;
  /** Interfaces whose removal was requested and is not done yet. */
  readonly going: Set<string>;
  /** True if OVS rejects the pod's port. */
  readonly refuses: boolean;
  /** Reports whether the agent of that epoch is dead, or dies here. */
  dies(at: InjectedFault, epoch: number): boolean;
}

/** Flows, port and interface of a pod, in the order of the real implementation. */
export class ModelPodNetwork implements PodNetwork {
  readonly #node: ModelNode;
  readonly #epoch: number;

  constructor(node: ModelNode, epoch: number) {
    this.#node = node;
    this.#epoch = epoch;
  }

  async attach({ containerId, addresses }: PodAttachment): Promise<AttachedPod> {
    this.#step('diesBeforeLink');
    // An ADD of the same interface waits until the kernel has removed the old one.
    if (this.#node.going.delete(containerId)) this.#node.links.delete(containerId);
    if (this.#node.refuses) throw new SeineError('REFUSED', 'no port');
    this.#node.links.set(
      containerId,
      addresses.map(({ ip }) => ip.text),
    );
    this.#step('diesAfterLink');
    return await Promise.resolve({ hostIfName: `v-${containerId}`, hostMac: parseMac('02:00:00:00:00:01'), mtu: 1450 });
  }

  async detach({ containerId }: AttachmentKey): Promise<void> {
    this.#step('diesBeforeLink');
    if (this.#node.links.has(containerId)) this.#node.going.add(containerId);
    this.#step('diesAfterLink');
    await Promise.resolve();
  }

  async check(): Promise<readonly string[]> {
    return await Promise.resolve([]);
  }

  ready(): ReadyState {
    return { state: 'ready' };
  }

  async whenReady(): Promise<void> {}

  /** Steps of a dead agent do nothing. */
  #step(point: InjectedFault): void {
    if (this.#node.dies(point, this.#epoch)) throw new SimulatedCrash('the agent is dead');
  }
}
