import { familiesOf, type NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import type { Owner } from '../../../dataplane/pipeline/cookie.ts';
import { ofPorts } from '../../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import { compileOpened, openedOwner } from './compile-opened.ts';

interface FlowLogPortsOptions {
  /** Returns the current environment. */
  readonly environment: () => NodeEnvironment;
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
}

/** Ports whose opened connections OVS copies to the agent: those of all attachments, the tunnel and the gateway; none while it is off. */
export class FlowLogPorts {
  readonly #options: FlowLogPortsOptions;
  readonly #attached = new Map<Owner, number>();
  /** Families and addresses of the gateway for which the flows of a port were compiled. */
  readonly #wanted = new Map<number, string>();
  #isOn = false;

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

  turn(state: 'on' | 'off'): void {
    this.#isOn = state === 'on';
    this.update();
  }

  /** Sets the flows of all ports after a change. */
  update(): void {
    const { environment, nodeState } = this.#options;
    const now = environment();
    const compiledFor = [...familiesOf(now), ...now.gateway.addresses.map(({ text }) => text)].join();
    const ports = new Set(this.#isOn ? [ofPorts.tunnel, ofPorts.gateway, ...this.#attached.values()] : []);
    for (const port of this.#wanted.keys()) {
      if (ports.has(port)) continue;
      this.#wanted.delete(port);
      nodeState.forget(openedOwner(port));
    }
    for (const port of ports) {
      if (this.#wanted.get(port) === compiledFor) continue;
      this.#wanted.set(port, compiledFor);
      nodeState.want(openedOwner(port), compileOpened(port, now));
    }
  }
}
