import { expect } from 'vitest';
import { runIn } from '../../lab/machine/netns.ts';
import { until } from '../support/converge-lab.ts';
import { print, type RealCluster } from './cluster.ts';

const port = 10_256;
const patienceMs = 120_000;
/** Taint of a node that the cluster autoscaler is about to delete. */
const leavingTaint = 'ToBeDeletedByClusterAutoscaler';

interface Answer {
  /** HTTP status code; 0 without an answer. */
  readonly healthz: number;
  readonly livez: number;
  /** Value in the body of `/healthz`. */
  readonly nodeEligible: boolean | undefined;
}

/** Answers of a node to an external load balancer, while the node is deleted or fails in several ways. */
export class NodeHealth {
  readonly #cluster: RealCluster;
  readonly #node: string;

  constructor(cluster: RealCluster, node: string) {
    this.#cluster = cluster;
    this.#node = node;
  }

  async asked(): Promise<Answer> {
    const [healthz, livez] = [await this.#get('healthz'), await this.#get('livez')];
    const { nodeEligible } = JSON.parse(healthz.body || '{}') as { readonly nodeEligible?: boolean };
    return { healthz: healthz.code, livez: livez.code, nodeEligible };
  }

  async until(code: number): Promise<Answer> {
    let last: Answer | undefined;
    const answers = async () => {
      last = await this.asked();
      return last.healthz === code;
    };
    await until(answers, patienceMs, () => `${code} is wanted of ${this.#node}, it says ${JSON.stringify(last)}`);
    return await this.asked();
  }

  async whileGoing(): Promise<void> {
    await this.#cluster.kubectl('taint', 'node', this.#node, `${leavingTaint}=now:NoSchedule`);
    expect(await this.until(503)).toEqual({ healthz: 503, livez: 200, nodeEligible: false });
    await this.#cluster.kubectl('taint', 'node', this.#node, `${leavingTaint}-`);
    expect(await this.until(200)).toEqual({ healthz: 200, livez: 200, nodeEligible: true });
    print('503 while the autoscaler is about to delete the node');
  }

  /** The node's own bridge has its address here, so the check runs inside the node. */
  async whileSwitchIsAway(): Promise<void> {
    const codes = new Set<string>();
    const url = `http://127.0.0.1:${port}/healthz`;
    const ask = async () =>
      codes.add(await this.#cluster.onNode(this.#node, 'sh', '-c', `curl -s -m 2 -o /dev/null -w '%{http_code}' ${url} || true`));
    const old = await this.#cluster.podOf('seine-ovs', this.#node);
    const deleting = this.#cluster.kubectl('-n', 'seine-system', 'delete', old);
    const seen = async () => {
      await ask();
      return codes.has('503');
    };
    await until(seen, patienceMs, () => `503 is expected without OVS, got ${[...codes].join(', ')}`);
    await deleting;
    await this.until(200);
    print('503 while its switch is away');
  }

  /** Deleted but kept by a finalizer, then deleted, then recreated. */
  async whileDeleted(): Promise<void> {
    const kubectl = (...args: readonly string[]) => this.#cluster.kubectl(...args);
    const finalizers = (list: readonly string[]) =>
      kubectl('patch', 'node', this.#node, '--type=merge', '-p', JSON.stringify({ metadata: { finalizers: list } }));
    const podCIDRs = JSON.parse(await kubectl('get', 'node', this.#node, '-o', 'jsonpath={.spec.podCIDRs}')) as string[];
    await finalizers(['seine.test/held']);
    await this.#cluster.lab('kubelet', this.#node, 'stop');
    await kubectl('delete', 'node', this.#node, '--wait=false');
    expect(await this.until(503)).toEqual({ healthz: 503, livez: 200, nodeEligible: false });
    await finalizers([]);
    await this.#cluster.wait(patienceMs / 1_000, '--for=delete', `node/${this.#node}`);
    expect(await this.asked()).toEqual({ healthz: 503, livez: 200, nodeEligible: false });
    print('503 while the node is being deleted, and once it is gone');
    const metadata = { name: this.#node };
    await this.#cluster.apply([{ apiVersion: 'v1', kind: 'Node', metadata, spec: { podCIDRs, podCIDR: podCIDRs[0] } }]);
    await this.#cluster.lab('kubelet', this.#node, 'start');
    expect(await this.until(200)).toEqual({ healthz: 200, livez: 200, nodeEligible: true });
  }

  /** From outside, like a load balancer. */
  async #get(path: string): Promise<{ readonly code: number; readonly body: string }> {
    const { nodes, external } = this.#cluster.plan;
    const ip = nodes.find(({ name }) => name === this.#node)?.ips[0] ?? '';
    const url = `http://${ip.includes(':') ? `[${ip}]` : ip}:${port}/${path}`;
    const curl = `curl -gs -m 3 -w '\\n%{http_code}' '${url}' || true`;
    const said = (await runIn(external.netns, 'sh', ['-c', curl], {}, this.#cluster.signal)).split('\n');
    return { code: Number(said.at(-1)), body: said.slice(0, -1).join('\n') };
  }
}
