import type { Group } from '../../src/dataplane/pipeline/flow.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { describePacket } from '../../src/dataplane/switch-model/packet.ts';
import { type Output, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { type Arrival, answerTo, type Conversation, errorAbout, nextOf, reopened } from './conversation.ts';
import { describeOutcome, type PacketOutcome, Reference } from './reference.ts';
import { compileScene, type Scene } from './scene.ts';

/** Accepts packets and returns their outputs: the model, or a real switch. */
export type Bridge = (arrival: Arrival) => readonly Output[] | Promise<readonly Output[]>;

/** The reference evaluator as an oracle: it checks the outcome of every packet of a bridge. */
export class Oracle {
  readonly #reference: Reference;
  readonly #bridge: Bridge;
  readonly #scene: Scene;

  constructor(scene: Scene, bridge: Bridge, datapath: 'userspace' | 'kernel' = 'userspace') {
    this.#scene = scene;
    this.#reference = new Reference(scene, datapath);
    this.#bridge = bridge;
  }

  /** @returns the outcome of the bridge. @throws Error naming packet, allowed fates and outcome, if that is not among them */
  async receive(arrival: Arrival): Promise<readonly Output[]> {
    const fates = this.#reference.fates(arrival.inPort, arrival.packet);
    const outputs = await this.#bridge(arrival);
    const fate = fates.find((each) => this.#agrees(each, arrival.inPort, outputs));
    if (!fate) {
      const allowed = fates.map(describeOutcome).join('\n     or ');
      const what = `in by ${arrival.inPort}: ${describePacket(arrival.packet)}`;
      throw new Error(`${what}\n allowed ${allowed}\nhappened ${describeOutcome({ outputs })}`);
    }
    this.#reference.settle(fate);
    return outputs;
  }

  /** A switch that floods omits ports that it knows the receiver is not at. */
  #agrees(fate: PacketOutcome, inPort: number, outputs: readonly Output[]): boolean {
    const [only] = fate.outputs;
    if (only?.to !== 'flood' || outputs.some(({ to }) => to === 'flood')) return describeOutcome(fate) === describeOutcome({ outputs });
    const { node, pods } = this.#scene;
    const others = [node.gateway.ofPort, ...pods.map(({ ofPort }) => ofPort)].filter((port) => port !== inPort);
    return outputs.every(({ to, packet }) => others.some((port) => port === to) && describePacket(packet) === describePacket(only.packet));
  }

  /** Executes a whole conversation; the receiver of the last packet answers, if there is one. */
  async follow(conversation: Conversation): Promise<void> {
    const [arrived] = await this.#converse(conversation);
    const error = arrived && errorAbout(this.#scene, arrived, conversation.reportedBy);
    if (error) await this.receive(error);
    for (const arrival of reopened(conversation)) await this.receive(arrival);
  }

  /** @returns the outputs of the last packet */
  async #converse(conversation: Conversation): Promise<readonly Output[]> {
    let last: readonly Output[] = [];
    let arrived: readonly Output[] = [];
    let answered = false;
    const { opening, order, beginsTwice } = conversation;
    if (beginsTwice) await this.receive(opening);
    for (const [index, fromOpener] of order.entries()) {
      if (index === 0 && beginsTwice) {
        last = arrived = await this.receive({ ...opening, inSameBatch: true });
        continue;
      }
      if (fromOpener) {
        last = arrived = await this.receive(nextOf(conversation, answered));
        continue;
      }
      const [received] = last;
      const answer = received && answerTo(received);
      if (!answer) return arrived;
      answered = true;
      arrived = await this.receive(answer);
      // Packets returned to the opening side are not answered again.
      last = [];
    }
    return arrived;
  }
}

export interface ModelOptions {
  /** Data path of conntrack. */
  readonly datapath: 'userspace' | 'kernel';
  readonly choices?: readonly number[];
  /** Other flows than the scene's, to test that they are detected. */
  readonly compiled?: ReturnType<typeof compileScene>;
}

/**
 * The model of this scene's switch with the oracle, with an empty conntrack.
 *
 * @param choices buckets that groups choose, one after another
 */
export function modelOracle(scene: Scene, { datapath, choices = [0], compiled = compileScene(scene) }: ModelOptions): Oracle {
  let turn = 0;
  const choose = ({ buckets }: Group) => (choices[turn++ % choices.length] ?? 0) % buckets.length;
  const tracker = new ConnectionTracker(datapath);
  const model = new SwitchModel({ ...compiled, tracker, choose, tunnelPort: scene.node.tunnel.ofPort });
  const bridge: Bridge = ({ inPort, packet, inSameBatch }) => {
    tracker.startPacket(inSameBatch ? 'same' : 'new');
    return model.receive(inPort, packet).outputs;
  };
  return new Oracle(scene, bridge, datapath);
}
