import type { Ip } from '../../../base/net/ip.ts';
import { nodePortAddress } from '../../../dataplane/pipeline/well-known.ts';
import type { Replica } from '../../../kubernetes/client/replica/replica.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';

/** Names of Services by their addresses and ports. Built when it is first needed after a change: most changes need none. */
export class ServiceAddresses {
  readonly #services: Pick<Replica<Service>, 'entries'>;
  #byAddress: ReadonlyMap<string, string> | undefined;

  constructor(services: Pick<Replica<Service>, 'entries'>) {
    this.#services = services;
  }

  /** Marks the addresses as changed. */
  changed(): void {
    this.#byAddress = undefined;
  }

  /** Returns `namespace/name`; undefined if no Service has the address and port. @param protocol name in capitals */
  at(address: Ip, port: number | undefined, protocol: string): string | undefined {
    this.#byAddress ??= new Map(keysOf(this.#services));
    return this.#byAddress.get(keyOf(address.text, port ?? 0, protocol));
  }
}

function* keysOf(services: Pick<Replica<Service>, 'entries'>): Generator<readonly [string, string]> {
  for (const [name, { clusterIps, externalIps, loadBalancerIngress, ports }] of services.entries()) {
    const addresses = [...clusterIps, ...externalIps, ...loadBalancerIngress.map(({ ip }) => ip)];
    for (const { port, protocol, nodePort } of ports) {
      for (const address of addresses) yield [keyOf(address, port, protocol), name];
      if (nodePort !== undefined) for (const { text } of Object.values(nodePortAddress)) yield [keyOf(text, nodePort, protocol), name];
    }
  }
}

function keyOf(address: string, port: number, protocol: string): string {
  return `${address} ${port} ${protocol}`;
}
