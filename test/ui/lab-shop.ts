import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

const policies = ['default-deny', 'db-clients'].map((name) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name, namespace: 'shop' },
  spec:
    name === 'default-deny'
      ? { podSelector: {}, policyTypes: ['Ingress'] }
      : {
          podSelector: { matchLabels: { run: 'db' } },
          policyTypes: ['Ingress'],
          ingress: [{ from: [{ podSelector: { matchLabels: { run: 'api' } } }], ports: [{ port: 80 }] }],
        },
}));

/** A connection that is allowed, and one that policies deny. */
const callers = [
  ['api', 'db'],
  ['web', 'db'],
] as const;
const TURNS_MAX = 30;

/** A lab with a shop of three pods and a Service, two policies, and recorded connections of which one is denied. */
export class LabShop {
  readonly dir = mkdtempSync(join(tmpdir(), 'seine-shop-'));
  readonly kubeconfig = join(this.dir, 'kubeconfig');

  /** @param agent script that node runs as the agents; absent: that of this release */
  open(nodes: number, agent?: string): void {
    this.#lab('up', '--dir', this.dir, '--nodes', String(nodes), ...(agent === undefined ? [] : ['--agent', agent]));
    this.#kubectl(['create', 'namespace', 'shop']);
    for (const name of ['web', 'api', 'db']) this.#kubectl(['-n', 'shop', 'run', name, '--image=responder']);
    for (const policy of policies) this.#kubectl(['apply', '-f', '-'], JSON.stringify(policy));
    this.#kubectl(['-n', 'shop', 'expose', 'pod', 'db', '--port=80']);
    this.#kubectl(['-n', 'shop', 'wait', '--for=condition=Ready', 'pod', '--all', '--timeout=60s']);
    const live = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'seine-live' }, data: { 'flowLog.enabled': 'true' } };
    this.#kubectl(['-n', 'seine-system', 'apply', '-f', '-'], JSON.stringify(live));
    for (let turn = 1; !this.#isRecorded(); turn++) {
      if (turn > TURNS_MAX) throw new Error('the flow log has no connections');
      for (const [from, to] of callers) this.#openConnection(from, to);
    }
  }

  close(): void {
    this.#lab('down', '--dir', this.dir);
    rmSync(this.dir, { recursive: true, force: true });
  }

  #openConnection(from: string, to: string): void {
    const address = this.#kubectl(['-n', 'shop', 'get', 'pod', to, '-o', 'jsonpath={.status.podIP}']);
    try {
      this.#lab('exec', '--dir', this.dir, `shop/${from}`, '--', 'curl', '--silent', '--max-time', '2', `http://${address}`);
    } catch {
      // It is denied: its packets are dropped, and counted.
    }
  }

  /** Reports whether the flow logs, which agents turn on when they read the ConfigMap, have both verdicts. */
  #isRecorded(): boolean {
    const command = [join(root, 'bin/seinectl.mjs'), 'flows', 'matrix', '--kubeconfig', this.kubeconfig, '-o', 'json'];
    const { stdout } = spawnSync(process.execPath, command, { encoding: 'utf8' });
    return ['"allowed"', '"denied"'].every((verdict) => stdout.includes(verdict));
  }

  #lab(...words: readonly string[]): string {
    const program = join(root, 'bin/seine-lab.mjs');
    return execFileSync(process.execPath, [program, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  }

  #kubectl(words: readonly string[], input = ''): string {
    return execFileSync('kubectl', [...words], { encoding: 'utf8', input, env: { ...process.env, KUBECONFIG: this.kubeconfig } });
  }
}
