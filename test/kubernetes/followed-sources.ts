import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { acceptConfig } from '../../src/agent/config/agent-config.ts';
import { type KubeSources, openKubeSources, runKubeSources } from '../../src/agent/kube-sources.ts';
import type { SeineError } from '../../src/base/errors/seine-error.ts';
import { silentLog } from '../../src/base/log/log.ts';

/** Resources of the Kubernetes API that an agent reads, with a token and an authority in files, as in a pod. */
export class FollowedSources {
  readonly #dir = mkdtempSync(join(tmpdir(), 'seine-sources-'));
  readonly #stop = new AbortController();
  readonly #sources: KubeSources;
  readonly #running: Promise<void>;
  readonly #failures: SeineError[] = [];
  readonly #lost = new Set<string>();

  /** @param url of the API server */
  constructor(nodeName: string, url: string, token: string, caPem: string) {
    this.giveToken(token);
    this.giveAuthority(caPem);
    const kubeconfig = join(this.#dir, 'kubeconfig');
    const name = 'agent';
    const cluster = { server: url, 'certificate-authority': this.#file('ca.crt') };
    writeFileSync(
      kubeconfig,
      stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name, cluster }],
        users: [{ name, user: { tokenFile: this.#file('token') } }],
        contexts: [{ name, context: { cluster: name, user: name } }],
        'current-context': name,
      }),
    );
    const { config } = acceptConfig(JSON.stringify({ nodeName, kubeconfig }), {});
    const onFailure = (_: string, error: SeineError) => void this.#failures.push(error);
    this.#sources = openKubeSources(config, { stateDir: this.#dir, log: silentLog, onFailure });
    this.#watchLosses();
    this.#running = runKubeSources(this.#sources, this.#stop.signal);
  }

  giveToken(token: string): void {
    this.#replace('token', token);
  }

  giveAuthority(pem: string): void {
    this.#replace('ca.crt', pem);
  }

  get isInStep(): boolean {
    return this.#all.every(({ status }) => status.state === 'in step');
  }

  /** Sources that are not synced, and the reasons. */
  get behind(): readonly string[] {
    return this.#all.flatMap(({ status }) =>
      status.state === 'in step' ? [] : [`${status.kind} ${status.state}: ${status.lastError?.message ?? ''}`],
    );
  }

  /** Names of the Services of namespace `default`. */
  get services(): readonly string[] {
    return [...this.#sources.services.replica.entries()].flatMap(([key]) => {
      const [namespace, name = ''] = key.split('/');
      return namespace === 'default' ? [name] : [];
    });
  }

  /** Known Services that were lost since the last call. */
  takeLost(): readonly string[] {
    const lost = [...this.#lost];
    this.#lost.clear();
    return lost;
  }

  /** The status codes of failed answers since the last call. */
  takeFailures(): readonly unknown[] {
    return this.#failures.splice(0).map(({ context, code }) => context['status'] ?? code);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled([this.#running]);
    rmSync(this.#dir, { recursive: true, force: true });
  }

  get #all() {
    const { nodes, services, endpointSlices, networkPolicies, namespaces, policyPods, pods } = this.#sources;
    return [nodes, services, endpointSlices, networkPolicies, namespaces, policyPods, pods];
  }

  #watchLosses(): void {
    const { replica } = this.#sources.services;
    replica.subscribe((keys) => {
      for (const key of keys) if (replica.get(key) === undefined) this.#lost.add(key);
    });
  }

  #file(name: string): string {
    return join(this.#dir, name);
  }

  /** Atomically, as the kubelet does it. */
  #replace(name: string, text: string): void {
    writeFileSync(`${this.#file(name)}.new`, text, { mode: 0o600 });
    renameSync(`${this.#file(name)}.new`, this.#file(name));
  }
}
