import { familiesOf, type NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { nothing } from '../../../dataplane/desired/host-entries.ts';
import type { Owner } from '../../../dataplane/pipeline/cookie.ts';
import { ofPorts } from '../../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import { compileEnded, compileSeen } from './compile-ended.ts';
import { compileOpened, openedOwner } from './compile-opened.ts';
import type { Sampling } from './sampled-connections.ts';

/** Time for which packets of connections are copied that were open before the log was turned on (ms). */
const SEEN_FOR_MS = 60_000;

interface FlowLogPortsOptions {
  /** Returns the current environment. */
  readonly environment: () => NodeEnvironment;
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  /** Packets that are copied besides those that open connections: of connections that were open before, and of those that end. */
  readonly copies: { readonly seen: boolean; readonly ends: boolean };
}

/** Ports whose opened connections OVS copies to the agent: those of all attachments, the tunnel and the gateway; none while it is off. */
export class FlowLogPorts {
  readonly #options: FlowLogPortsOptions;
  readonly #attached = new Map<Owner, number>();
  /** Families and addresses of the gateway for which the flows of a port were compiled. */
  readonly #wanted = new Map<number, string>();
  #isOn = false;
  #sampling: Sampling = 1;
  /** Set while packets of connections that were open before are copied. */
  #ending: NodeJS.Timeout | undefined;

  constructor(options: FlowLogPortsOptions) {
    this.#options = options;
  }

  /** @param owner owner of the attachment's flows in the entry tables */
  add(owner: Owner, ofPort: number): void {
    this.#attached.set(owner, ofPort);
    this.update();
  }

  remove(owner: Owner): void {
    if (this.#attached.delete(owner)) this.update();
  }

  /** Copies one of so many connections from now on. */
  sample(sampling: Sampling): void {
    if (sampling === this.#sampling) return;
    this.#sampling = sampling;
    this.update();
  }

  turn(state: 'on' | 'off'): void {
    this.#isOn = state === 'on';
    clearTimeout(this.#ending);
    this.#ending = undefined;
    if (this.#isOn && this.#options.copies.seen)
      this.#ending = setTimeout(() => {
        this.#ending = undefined;
        this.update();
      }, SEEN_FOR_MS).unref();
    this.update();
  }

  /** Sets the flows of all ports after a change. */
  update(): void {
    const { environment, nodeState, copies } = this.#options;
    const now = environment();
    const compiledFor = [
      ...familiesOf(now),
      ...now.gateway.addresses.map(({ text }) => text),
      this.#ending ? 'seen' : '',
      this.#sampling,
    ].join();
    const ports = new Set(this.#isOn ? [ofPorts.tunnel, ofPorts.gateway, ...this.#attached.values()] : []);
    for (const port of this.#wanted.keys()) {
      if (ports.has(port)) continue;
      this.#wanted.delete(port);
      nodeState.forget(openedOwner(port));
    }
    for (const port of ports) {
      if (this.#wanted.get(port) === compiledFor) continue;
      this.#wanted.set(port, compiledFor);
      const opened = compileOpened(port, now, this.#sampling);
      const ended = copies.ends ? compileEnded(port, now, this.#sampling) : nothing;
      const seen = this.#ending ? compileSeen(port, now, this.#sampling) : nothing;
      const flows = [opened, ended, seen].flatMap((each) => each.flows);
      nodeState.want(openedOwner(port), { ...nothing, flows, meters: [opened, ended, seen].flatMap((each) => each.meters) });
    }
  }
}
