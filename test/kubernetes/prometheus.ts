import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { parse, stringify } from 'yaml';
import { packageRoot } from '../../lab/machine/installation.ts';
import { inNetns, runIn } from '../../lab/machine/netns.ts';
import type { RealCluster } from './cluster.ts';

/** One of Debian's two programs in the package. */
type Tool = 'prometheus' | 'promtool';

interface Answer {
  readonly status: string;
  readonly data: {
    readonly result: readonly { readonly metric: Readonly<Record<string, string>>; readonly value: readonly [number, string] }[];
    readonly groups: readonly { readonly rules: readonly { readonly name: string; readonly health: string; readonly state?: string }[] }[];
  };
}

interface ScrapeConfig {
  readonly authorization: object;
  readonly kubernetes_sd_configs: readonly object[];
}

const address = '127.0.0.1:9090';
const alerts = join(packageRoot, 'build', 'observability', 'alerts.yaml');

/** Debian's Prometheus in the network of a node, with the configuration that docs/reference/metrics.md has for one without the operator. */
export class RealPrometheus {
  readonly #cluster: RealCluster;
  readonly #netns: string;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  constructor(cluster: RealCluster) {
    this.#cluster = cluster;
    const [node] = cluster.plan.nodes;
    if (node === undefined) throw new Error('a cluster without nodes');
    this.#netns = node.netns;
    this.#folder = join(cluster.folder, 'prometheus');
    mkdirSync(this.#folder, { recursive: true });
  }

  /** @returns output of `promtool` for the rules */
  async checkRules(): Promise<string> {
    return await runIn(this.#netns, programOf('promtool'), ['check', 'rules', alerts], {}, this.#cluster.signal);
  }

  async start(): Promise<void> {
    const encoded = await this.#cluster.kubectl('-n', 'seine-system', 'get', 'secret', 'seine-metrics', '-o', 'jsonpath={.data.token}');
    const token = join(this.#folder, 'token');
    writeFileSync(token, Buffer.from(encoded, 'base64'), { mode: 0o600 });
    const file = join(this.#folder, 'prometheus.yml');
    writeFileSync(file, stringify(this.#configuration(token)));
    const args = [`--config.file=${file}`, `--storage.tsdb.path=${join(this.#folder, 'data')}`, `--web.listen-address=${address}`];
    const inside = inNetns(this.#netns, programOf('prometheus'), args);
    this.#child = spawn(inside.command, inside.args, { stdio: 'ignore' });
  }

  /** Present series of an expression. @throws Error if Prometheus rejects it */
  async query(expression: string): Promise<Answer['data']['result']> {
    return (await this.#get('query', ['--data-urlencode', `query=${expression}`])).result;
  }

  /** Each rule, with its health and state. */
  async rules(): Promise<Answer['data']['groups'][number]['rules']> {
    return (await this.#get('rules', [])).groups.flatMap(({ rules }) => rules);
  }

  stop(): void {
    this.#child?.kill('SIGKILL');
  }

  /**
   * Configuration of the page, with the token that the manifest creates in place of a pod's own. Debian's Prometheus has no discovery of
   * Kubernetes nodes: it gets them as static targets, which the page's rules relabel.
   */
  #configuration(token: string): object {
    const [, yaml = ''] =
      /## Prometheus\n.*?```yaml\n(.*?)```/s.exec(readFileSync(join(packageRoot, 'docs', 'reference', 'metrics.md'), 'utf8')) ?? [];
    const { scrape_configs: [job] = [] } = parse(yaml) as { readonly scrape_configs?: readonly ScrapeConfig[] };
    if (job === undefined) throw new Error('docs/reference/metrics.md has no scrape_configs');
    const { kubernetes_sd_configs: discovery, ...rest } = job;
    expect(discovery).toEqual([{ role: 'node' }]);
    const nodes = this.#cluster.plan.nodes.map(({ name, ips }) => ({
      targets: [`${name}:10250`],
      labels: { __meta_kubernetes_node_name: name, __meta_kubernetes_node_address_InternalIP: ips[0] },
    }));
    return {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [alerts],
      scrape_configs: [{ ...rest, authorization: { credentials_file: token }, static_configs: nodes }],
    };
  }

  async #get(path: string, args: readonly string[]): Promise<Answer['data']> {
    const url = `http://${address}/api/v1/${path}`;
    const text = await runIn(this.#netns, 'curl', ['-s', '-m', '10', '-G', ...args, url], {}, this.#cluster.signal);
    const { status, data } = JSON.parse(text) as Answer;
    if (status !== 'success') throw new Error(`${path} ${args.join(' ')}: ${text}`);
    return data;
  }
}

function programOf(tool: Tool): string {
  return join(process.env['SEINE_TEST_PROMETHEUS'] ?? '/usr', 'bin', tool);
}
