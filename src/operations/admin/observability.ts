import type { Socket } from 'node:net';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log, LogControl } from '../../base/log/log.ts';
import type { NodeStateEvents } from '../../dataplane/targets/target-options.ts';
import { descriptorOf, peerCredentials } from '../../netlink/sockets/unix-peer.ts';
import type { ApiRoutes } from './answer.ts';
import { ApiServer } from './http-server.ts';
import { Exporter } from './metrics/exporter.ts';
import { LoopLag } from './metrics/loop-lag.ts';
import { AgentRecord, type CniCallRecord, type Observe } from './metrics/record.ts';
import { MetricsByTls, type MetricsTlsConfig } from './metrics-by-tls.ts';
import { PolicyPackets } from './policy-packets.ts';
import { NodeHealth } from './problems/node-health.ts';
import { type AgentPorts, operatorActions, operatorRoutes, publicRoutes } from './routes.ts';

/** Interval between attempts to listen on an address that is in use (ms): an agent that is being replaced still has it. */
const LISTEN_RETRY_MS = 5_000;

/** Events that the agent reports. */
export interface AgentEvents {
  readonly events: NodeStateEvents;
  readonly onCall: (call: CniCallRecord) => void;
  readonly observe: Observe;
  /** Called with the stages of an ADD, and the owner of the pod's flows. */
  readonly onPodStage: (stage: 'flows' | 'interface' | 'port' | 'announce', tookMs: number, owner: string) => void;
  /** Called when watching a resource in the API server fails. */
  readonly onSourceFailure: (kind: string, error: SeineError) => void;
  readonly onDatabaseFailure: (error: SeineError) => void;
  readonly onBridgeFailure: (error: SeineError) => void;
}

/** Addresses for operators and for Prometheus. */
interface ListenConfig extends MetricsTlsConfig {
  readonly apiSocket: string;
  /** `ADDRESS:PORT`; empty: none. */
  readonly metricsAddress: string;
}

/** Records the events of the agent, and serves `agent.sock` and the metrics' address. */
export class Observability {
  readonly #log: Log;
  readonly #control: LogControl;
  readonly #exporter = new Exporter();
  readonly #record = new AgentRecord((name, labels, value) => this.#exporter.observe(name, labels, value));
  readonly #lag = new LoopLag();
  readonly #servers: ApiServer[] = [];

  /** @param control of the program's log, for operators */
  constructor(log: Log, control: LogControl) {
    this.#log = log;
    this.#control = control;
  }

  /** Records events, and passes events of the data path on to `then`. */
  hooks(then: NodeStateEvents): AgentEvents {
    const record = this.#record;
    return {
      events: record.nodeStateEvents(then),
      onCall: (call) => record.call(call),
      observe: (name, labels, value) => this.#exporter.observe(name, labels, value),
      onPodStage: (stage, tookMs) => record.podStage(stage, tookMs),
      onSourceFailure: (kind, error) => record.sourceFailed(kind, error),
      onDatabaseFailure: (error) => record.saw('ovsdb', error),
      onBridgeFailure: (error) => record.saw('openflow', error),
    };
  }

  /**
   * @throws SeineError `UNAVAILABLE` if the socket cannot be created; listening on an address that is in use is retried until `signal` is
   *   aborted
   */
  async open(agent: AgentPorts & { readonly config: ListenConfig }, signal: AbortSignal): Promise<void> {
    const health = new NodeHealth(agent, this.#record);
    health.start(signal);
    const policyPackets = new PolicyPackets(agent, signal);
    const own = { record: this.#record, lag: this.#lag, exporter: this.#exporter, control: this.#control };
    const sources = { agent, health, policyPackets, ...own };
    this.#lag.start((name, labels, value) => this.#exporter.observe(name, labels, value), signal);
    const options = {
      routes: operatorRoutes(sources),
      actions: operatorActions(sources),
      admits: (socket: Socket) => this.#admitsRoot(socket),
    };
    const onSocket = () => ApiServer.start(options, { socketPath: agent.config.apiSocket, log: this.#log });
    await this.#openSocket(onSocket, signal);
    const address = parseAddress(agent.config.metricsAddress);
    if (address) void this.#openLater('metrics', () => ApiServer.start({ routes: publicRoutes(sources) }, address), signal);
    this.#openByTls(agent, publicRoutes(sources), signal);
  }

  #openByTls({ config, http }: AgentPorts & { readonly config: ListenConfig }, routes: ApiRoutes, signal: AbortSignal): void {
    const address = parseAddress(config.metricsTLSAddress);
    if (!address) return;
    const metrics = new MetricsByTls({ config, http, routes, log: this.#log });
    void this.#openLater('metrics by TLS', () => metrics.start(address, signal), signal);
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }

  /** The modes of socket and folder refuse others; this check covers the modes before and after. */
  #admitsRoot(socket: Socket): boolean {
    const { uid, pid } = peerCredentials(descriptorOf(socket));
    if (uid !== 0) this.#log.warn('connection to the agent’s API refused: not root', { uid, pid });
    return uid === 0;
  }

  /** An agent that still runs keeps its socket until it ends, which the lock of the bridge waits for as well. */
  async #openSocket(start: () => Promise<ApiServer>, signal: AbortSignal): Promise<void> {
    try {
      this.#servers.push(await start());
    } catch (thrown) {
      if (SeineError.from(thrown, 'listen').code !== 'REFUSED') throw thrown;
      void this.#openLater('the agent’s API', start, signal);
    }
  }

  /** Never rejects: a node works without its API. */
  async #openLater(what: string, start: () => Promise<ApiServer>, signal: AbortSignal): Promise<void> {
    for (let reported = false; !signal.aborted; reported = true) {
      try {
        const server = await start();
        if (signal.aborted) await server.close();
        else this.#servers.push(server);
        return;
      } catch (thrown) {
        if (!reported) this.#log.error('an address cannot be served; retrying', { what, cause: SeineError.from(thrown, 'listen').message });
      }
      await idle(LISTEN_RETRY_MS, signal);
    }
  }
}

/** @param text `ADDRESS:PORT`, `[ADDRESS]:PORT`, or empty for none; already checked by the configuration */
function parseAddress(text: string): { readonly host: string; readonly port: number } | undefined {
  if (text === '') return undefined;
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) };
}
