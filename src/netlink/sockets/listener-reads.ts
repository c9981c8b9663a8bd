import { oncePerTurn } from '../../base/async/once-per-turn.ts';
import type { ListeningSocket } from './listening-sockets.ts';

interface ListenerReadsOptions {
  readonly ofPort: (transport: 'tcp' | 'udp', port: number) => readonly ListeningSocket[];
  readonly ofAll: (transport: 'tcp' | 'udp') => ReadonlyMap<number, readonly ListeningSocket[]>;
}

/** Number of ports that are read one by one in a turn of the event loop; then all sockets are read at once. */
const ONE_BY_ONE = 8;

/**
 * Listening sockets of the node, for host ports. A pod may have thousands of host ports, and all are compared at each change of a Service:
 * with a request to the kernel for each of them the event loop would be blocked for seconds.
 */
export class ListenerReads {
  readonly #options: ListenerReadsOptions;
  readonly #all: Readonly<Record<'tcp' | 'udp', () => ReadonlyMap<number, readonly ListeningSocket[]>>>;
  readonly #turn = oncePerTurn(() => ({ reads: 0 }));

  constructor(options: ListenerReadsOptions) {
    this.#options = options;
    this.#all = { tcp: oncePerTurn(() => options.ofAll('tcp')), udp: oncePerTurn(() => options.ofAll('udp')) };
  }

  on(transport: 'tcp' | 'udp', port: number): readonly ListeningSocket[] {
    if (this.#turn().reads++ < ONE_BY_ONE) return this.#options.ofPort(transport, port);
    return this.#all[transport]().get(port) ?? [];
  }
}
