import { TokenBucket } from '../../base/async/token-bucket.ts';
import { bytesOf } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { askedDestination } from '../../dataplane/packet-io/asked-destination.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { refusal } from '../../dataplane/packet-io/refusal-frame.ts';
import { numberOf } from '../../dataplane/packet-io/repeated.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { load, resubmit } from '../../dataplane/pipeline/flow.ts';
import { toActions } from '../../dataplane/targets/bridge/encoding/to-openflow.ts';
import { type PacketIn, writePacketOut } from '../../openflow/packet.ts';
import { ofPort } from '../../openflow/protocol.ts';
import type { PolicyController } from '../controller/policy-controller.ts';
import { type DeniedPacket, readPacketOf } from '../denied-log/denied-packet.ts';
import { interpret } from '../matrix/interpret.ts';

/** Maximum rate and burst of packets that are read, in case the meters of OVS pass more (`compileRefusals`). */
const rate = { perSecond: 1_000, burst: 2_000 } as const;

/**
 * Results for denied packets that OVS sent to the agent: answered; beyond the rate of the agent; an end of the connection is not known as a
 * pod, or not for long; the current policies do not deny it; it does not open a connection.
 */
type RefusalResult = 'answered' | 'limited' | 'too_new' | 'not_denied' | 'not_opening';

/** @param pod `namespace/name` of the pod whose policies denied */
type AnsweredListener = (pod: string, packet: DeniedPacket) => void;

interface PolicyRefusalsOptions {
  readonly packets: PacketExchange;
  readonly policy: Pick<PolicyController, 'matrix' | 'podAt' | 'holderOf' | 'isInPodNetwork' | 'isRecent'>;
  readonly log: Log;
}

/**
 * Answers packets that policy denies, where a node, a namespace or a policy asks for it: `reject`. The sender is a pod, here or on another
 * node. OVS forwards the answer as it forwards an admitted reply, without evaluation; on the sender's node, connection tracking knows the
 * connection and translates the answer.
 *
 * The flows have decided that the packet is dropped. This only decides whether its sender learns of it.
 */
export class PolicyRefusals {
  readonly #options: PolicyRefusalsOptions;
  readonly #tokens = new TokenBucket(rate);
  readonly #listeners = new Set<AnsweredListener>();
  readonly #counters: Record<RefusalResult, number> = { answered: 0, limited: 0, too_new: 0, not_denied: 0, not_opening: 0 };

  constructor(options: PolicyRefusalsOptions) {
    this.#options = options;
    options.packets.on('refused', (packet) => {
      this.#counters[this.#tokens.take() ? this.#answer(packet) : 'limited']++;
    });
  }

  get counters(): Readonly<Record<RefusalResult, number>> {
    return this.#counters;
  }

  /** Calls back for each packet that is answered, until the returned function is called. */
  subscribe(listener: AnsweredListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #answer(packetIn: PacketIn): RefusalResult {
    const { packets, log } = this.#options;
    // The output port is not chosen yet when the sender's policies decide.
    const denied = readPacketOf(numberOf(packetIn.fields.reg1) === 0 ? 'egress' : 'ingress', packetIn);
    const answer = denied && refusal(packetIn.data, askedDestination(packetIn.fields));
    if (!denied || !answer) return 'not_opening';
    if (!this.#areEndsKnown(denied)) return 'too_new';
    if (!this.#isDenied(denied)) return 'not_denied';
    packets
      .send([packetOut(answer)])
      .catch((thrown: unknown) => log.debug('a denied packet was not answered', { cause: SeineError.from(thrown, 'packet-out').message }));
    const pod = this.#options.policy.podAt(denied.ofPort);
    if (pod !== undefined) for (const listener of this.#listeners) listener(pod, denied);
    return 'answered';
  }

  /**
   * Reports whether both ends are known well enough. A pod that this node does not know yet may be allowed in a moment; its client sends
   * again after a second, which a reset would prevent.
   */
  #areEndsKnown({ direction, own, peer }: DeniedPacket): boolean {
    const { policy } = this.#options;
    if (policy.isRecent(own.text) || policy.isRecent(peer.text)) return false;
    const holder = policy.holderOf(peer);
    // A sender with an address of a node is an external client, or the node itself.
    if (direction === 'ingress') return holder !== undefined && !holder.startsWith('node ');
    return holder !== undefined || !policy.isInPodNetwork(peer);
  }

  /** Reports whether the current policies deny the packet: the flows may be those before a change. */
  #isDenied({ direction, ofPort: port, peer, protocol, ports }: DeniedPacket): boolean {
    const { policy } = this.#options;
    const pod = policy.podAt(port);
    if (pod === undefined) return false;
    const verdict = interpret(policy.matrix, {
      direction,
      pod,
      address: peer.text,
      protocol,
      ...(ports && { port: ports.destination }),
    });
    return verdict.verdict === 'deny' && verdict.why === 'decision';
  }
}

/**
 * Returns a packet-out that routes an answer to the pod that it is for. It is not tracked and not evaluated: `standing` passes the tables
 * of policy.
 */
function packetOut(data: Uint8Array): Uint8Array {
  const marks = [reg.source('pod'), reg.routed('yes'), reg.verdict('standing')];
  const actions = toActions([...marks.map(load), resubmit('route')]);
  return bytesOf((w) => writePacketOut(w, { fields: { in_port: ofPort.controller }, actions, data }));
}
