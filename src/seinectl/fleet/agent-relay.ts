import { Agent, type ClientRequest } from 'node:http';
import type { Duplex } from 'node:stream';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { AgentClient } from '../agent-client.ts';
import type { AgentPod } from './agents.ts';

const CONTAINER = 'agent';
const ANSWER_CHARACTERS_MAX = 16 * 1024 * 1024;
/** Requests of one agent at a time; each connection is an exec. */
const CONNECTIONS_MAX = 2;
/** Less than the agent's and the relay's time for an idle connection (ms). */
const KEPT_MS = 80_000;
/** Beginning of what the relay writes when it has connected to the agent. */
const GREETING = 'HTTP/1.1 102 ';
/**
 * Time for it (ms): an exec on a busy node takes seconds. The plugin of an image before 0.27 prints nothing as long as its input is open; if
 * the tag names such a release, a short time is enough.
 */
const GREETING_MS = 10_000;
const GREETING_OLD_MS = 1_500;
const RELAY_SINCE = 27;

/** HTTP client of the agent of another node. */
interface AgentRelay {
  readonly client: AgentClient;
  /** Ends the execs. */
  readonly close: () => void;
}

/**
 * Reaches an agent over execs of the plugin's program, which copies its standard streams to the agent's socket. An exec starts with the first
 * request and stays open for later ones.
 *
 * Failures are a SeineError: `REFUSED` if the API server refuses the exec, `UNAVAILABLE` if no agent answers; {@link isWithoutRelay}
 * recognizes an image that is older than the relay.
 */
export function relayTo(exec: Pick<PodExec, 'open'>, pod: AgentPod): AgentRelay {
  const connections = new RelayConnections(exec, pod);
  const connection = { agent: connections, host: 'agent' };
  return {
    client: new AgentClient({
      connection,
      answerMax: ANSWER_CHARACTERS_MAX,
      failureOf: (thrown) => failureOf(isHangUp(thrown) ? (connections.failure ?? thrown) : thrown),
    }),
    close: () => connections.destroy(),
  };
}

/** Relays to agents that are asked again and again: each stays open until its agent, or the pool, ends. */
export class RelayPool {
  readonly #exec: Pick<PodExec, 'open'>;
  readonly #relays = new Map<string, AgentRelay>();

  constructor(exec: Pick<PodExec, 'open'>) {
    this.#exec = exec;
  }

  of(pod: AgentPod): AgentRelay {
    const known = this.#relays.get(pod.pod);
    if (known) return known;
    const relay = relayTo(this.#exec, pod);
    this.#relays.set(pod.pod, relay);
    return relay;
  }

  /** Ends the relays of pods that are no longer among these. */
  keepOnly(pods: readonly AgentPod[]): void {
    const kept = new Set(pods.map(({ pod }) => pod));
    for (const [name, relay] of this.#relays)
      if (!kept.has(name)) {
        this.#relays.delete(name);
        relay.close();
      }
  }

  close(): void {
    this.keepOnly([]);
  }
}

/** Reports whether the image of the agent has no relay. */
export function isWithoutRelay(error: SeineError): boolean {
  return error.context['relay'] === 'none';
}

/** Connections of Node's HTTP client over execs. */
class RelayConnections extends Agent {
  readonly #exec: Pick<PodExec, 'open'>;
  readonly #pod: AgentPod;
  readonly #closed = new AbortController();
  /** Failure of the last exec: a request on an exec that has ended reports only that its connection is closed. */
  failure: Error | undefined;
  readonly #idle = new WeakMap<Duplex, NodeJS.Timeout>();

  constructor(exec: Pick<PodExec, 'open'>, pod: AgentPod) {
    super({ keepAlive: true, maxSockets: CONNECTIONS_MAX });
    this.#exec = exec;
    this.#pod = pod;
  }

  override createConnection(_options: unknown, opened?: (error: Error | null, stream: Duplex) => void): undefined {
    const { namespace, pod, relay, image } = this.#pod;
    const command = [relay.program, '--join', relay.socket];
    this.failure = undefined;
    const stream = this.#exec
      .open({ namespace, pod, container: CONTAINER, command }, this.#closed.signal)
      .then((open) => greeted(open, greetingMs(image)));
    stream.then(
      (open) => {
        open.on('error', () => undefined); // the request reports it
        open.once('close', () => clearTimeout(this.#idle.get(open))); // or the timer would keep the buffers of an exec that has ended
        opened?.(null, open);
      },
      (error: Error) => opened?.(error, undefined as unknown as Duplex), // with an error there is no stream
    );
  }

  override keepSocketAlive(stream: Duplex): boolean {
    this.#idle.set(stream, setTimeout(() => stream.destroy(), KEPT_MS).unref());
    return true;
  }

  override reuseSocket(stream: Duplex, request: ClientRequest): void {
    super.reuseSocket(stream, request);
    clearTimeout(this.#idle.get(stream));
  }

  override destroy(): void {
    this.#closed.abort();
    super.destroy();
  }
}

function greetingMs(image: string): number {
  const [, minor] = /:v?0\.(\d+)\.\d+/.exec(image) ?? [];
  return minor !== undefined && Number(minor) < RELAY_SINCE ? GREETING_OLD_MS : GREETING_MS;
}

/**
 * Waits until the relay has connected to the agent. An older image is then known, and no request is on its way.
 *
 * @throws SeineError of the exec, or that of an image without relay
 */
function greeted(stream: Duplex, limitMs: number): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => end(withoutRelay(undefined)), limitMs);
    const end = (error: Error): void => {
      clearTimeout(timer);
      stream.off('readable', read);
      reject(error);
      stream.destroy();
    };
    const read = (): void => {
      const bytes = stream.read() as Buffer | null;
      if (bytes === null) return; // the end, which `close` reports
      text += bytes.toString('latin1');
      if (GREETING.startsWith(text)) return; // only its beginning has arrived
      if (!text.startsWith(GREETING)) {
        end(withoutRelay(undefined));
        return;
      }
      clearTimeout(timer);
      stream.off('readable', read).off('error', end).off('close', closed);
      stream.unshift(Buffer.from(text, 'latin1'));
      resolve(stream);
    };
    const closed = (): void => end(new SeineError('UNAVAILABLE', 'the exec ended without an answer'));
    stream.on('readable', read).once('error', end).once('close', closed);
  });
}

/** Reports whether an error of Node only reports that the connection has ended. */
function isHangUp(thrown: unknown): boolean {
  return !(thrown instanceof SeineError) && !codeOf(thrown).startsWith('HPE_');
}

function codeOf(thrown: unknown): string {
  return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : '';
}

function failureOf(thrown: unknown): SeineError {
  // The plugin of an older image answers with an error of CNI.
  if (codeOf(thrown).startsWith('HPE_')) return withoutRelay(thrown);
  if (!(thrown instanceof SeineError)) return new SeineError('UNAVAILABLE', 'the answer breaks off', { cause: thrown });
  // The API server accepted the exec, and the runtime did not run the program: the image does not have it.
  if (thrown.code === 'REFUSED' && thrown.context['status'] === undefined) return withoutRelay(thrown);
  const [, ofRelay] = /^seine: the agent at (.*)$/s.exec(thrown.rawMessage) ?? [];
  return ofRelay === undefined ? thrown : new SeineError('UNAVAILABLE', `no agent answers on ${ofRelay}`, { cause: thrown });
}

function withoutRelay(cause: unknown): SeineError {
  const reason = cause instanceof SeineError ? cause.rawMessage : 'its plugin has no option --join';
  return new SeineError('UNAVAILABLE', `the image of the agent has no relay: ${reason}`, { context: { relay: 'none' }, cause });
}
