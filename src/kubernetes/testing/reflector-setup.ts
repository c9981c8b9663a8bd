import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { KubeHttp } from '../client/http-client.ts';
import { Reflector } from '../client/reflector/reflector.ts';
import { type ReflectorPolicy, reflectorPolicy } from '../client/reflector/reflector-machine.ts';
import type { ReflectorReport } from '../client/reflector/reflector-report.ts';
import { type Node, nodes } from '../resources/node.ts';
import { ScriptedApiServer } from './scripted-api-server.ts';

/** Policy with times that are no longer than a test needs. */
export const hasty: ReflectorPolicy = {
  ...reflectorPolicy,
  minBackoffMs: 1,
  maxBackoffMs: 4,
  healthyWatchMs: 0,
  // A busy host may block the event loop for a while; tests of the limit set their own.
  snapshotIdleMs: 3_000,
  snapshotMs: 10_000,
};

/** Node object as sent by the API server. */
export function node(name: string, version: number, cidr = '10.0.0.0/24', more: object = {}) {
  return { metadata: { name, uid: name, resourceVersion: String(version), ...more }, spec: { podCIDRs: [cidr] } };
}

export function many(count: number, version = 1) {
  return Array.from({ length: count }, (_, index) => node(`n${index}`, version));
}

/** Reflector of nodes with a scripted API server, and all its reports. For its tests. */
export class ReflectorScene {
  readonly server: ScriptedApiServer;
  readonly #http: KubeHttp;
  /** Folder of its copy. */
  stateDir: string;
  reflector: Reflector<Node>;
  reports: ReflectorReport[] = [];
  /** Keys of each reported change, sorted. */
  changes: string[][] = [];
  #stop = new AbortController();
  #running: Promise<void> | undefined;

  private constructor(server: ScriptedApiServer, http: KubeHttp, stateDir: string) {
    this.server = server;
    this.#http = http;
    this.stateDir = stateDir;
    this.reflector = this.#made(hasty);
  }

  static async open(): Promise<ReflectorScene> {
    const server = new ScriptedApiServer();
    const http = new KubeHttp(await server.listen(), 'test');
    return new ReflectorScene(server, http, await mkdtemp(join(tmpdir(), 'seine-kube-')));
  }

  start(policy: ReflectorPolicy = hasty): void {
    this.reflector = this.#made(policy);
    this.reflector.replica.subscribe((keys) => this.changes.push([...keys].sort()));
    this.#stop = new AbortController();
    this.#running = this.reflector.run(this.#stop.signal);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** Restarts as another process, which has the stored copy of the first one and no other information. */
  async restart(): Promise<void> {
    await this.stop();
    this.reports = [];
    this.changes = [];
    this.server.requests.length = 0;
    this.start();
  }

  async close(): Promise<void> {
    await this.stop();
    this.#http.close();
    await this.server.close();
    await rm(this.stateDir, { recursive: true, force: true });
  }

  names(): string[] {
    return Array.from(this.reflector.replica.entries(), ([key]) => key).sort();
  }

  synced(): Promise<void> {
    return this.reflector.replica.whenSynced(AbortSignal.timeout(5_000));
  }

  reported(what: ReflectorReport['what']): ReflectorReport[] {
    return this.reports.filter((report) => report.what === what);
  }

  #made(policy: ReflectorPolicy): Reflector<Node> {
    const onReport = (report: ReflectorReport) => this.reports.push(report);
    const { stateDir } = this;
    return new Reflector({ http: this.#http, resource: nodes, turns: new LoopTurns(5), onReport, stateDir, saveEveryMs: 1, policy });
  }
}
