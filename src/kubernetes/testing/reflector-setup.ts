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

/** Waits for nothing longer than a test has to. */
export const hasty: ReflectorPolicy = {
  ...reflectorPolicy,
  minBackoffMs: 1,
  maxBackoffMs: 4,
  healthyWatchMs: 0,
  // A machine that does other things as well may keep the loop for a while; tests of the limit set their own.
  snapshotIdleMs: 3_000,
  snapshotMs: 10_000,
};

/** A node as the API server gives it. */
export function node(name: string, version: number, cidr = '10.0.0.0/24', more: object = {}) {
  return { metadata: { name, uid: name, resourceVersion: String(version), ...more }, spec: { podCIDRs: [cidr] } };
}

export function many(count: number, version = 1) {
  return Array.from({ length: count }, (_, index) => node(`n${index}`, version));
}

/** A reflector of nodes before a scripted API server, and all that it said. For its tests. */
export class ReflectorScene {
  readonly server: ScriptedApiServer;
  readonly #http: KubeHttp;
  /** Where it keeps its copy. */
  stateDir: string;
  reflector: Reflector<Node>;
  reports: ReflectorReport[] = [];
  /** The keys of each reported change, sorted. */
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

  /** As another process, that has what the first one stored and has heard of nothing. */
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
