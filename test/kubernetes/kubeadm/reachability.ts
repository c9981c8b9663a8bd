import { until } from '../../support/converge-lab.ts';
import { print, type RealCluster } from '../cluster.ts';
import { pod, service } from '../objects.ts';

const readyWithinS = 180;
const answersWithinMs = 60_000;
const nodePort = 30_080;

const url = (host: string, port: number): string => `http://${host.includes(':') ? `[${host}]` : host}:${port}/hostname`;

/** Pods on each node, and a Service of both families in front of them. */
export async function serve(cluster: RealCluster): Promise<void> {
  const [first = ''] = cluster.nodes.slice(-1);
  await cluster.apply([
    ...cluster.nodes.map((node) => pod({ name: `web-${node}`, app: 'web', nodeName: node, args: ['netexec'] })),
    pod({ name: 'client', app: 'client', nodeName: first }),
    service('web', 'web', [{ port: 80, targetPort: 8080, nodePort }], 'NodePort'),
  ]);
  await cluster.wait(readyWithinS, '--for=condition=Ready', 'pod', '-l', 'app in (web, client)');
  await cluster.kubectl('-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', `--timeout=${readyWithinS}s`);
}

/** Waits until pods answer by their addresses, by the Service's addresses, by its name, and at a port of the nodes; and the API server by its name. */
export async function answersEverywhere(cluster: RealCluster): Promise<void> {
  const services = (await cluster.kubectl('get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIPs[*]}')).trim().split(' ');
  const pods = await Promise.all(cluster.nodes.map(async (node) => (await cluster.pod(`web-${node}`)).ips));
  const fromPod = async (target: string) => await cluster.kubectlAnyway('exec', 'client', '--', 'curl', '-gsk', '-m', '5', target);
  const fromNode = async (target: string) => await cluster.onNode(cluster.nodes[0] ?? '', 'curl', '-gs', '-m', '5', target).catch(String);
  const targets = [
    ...pods.flat().map((ip) => url(ip, 8080)),
    ...services.map((ip) => url(ip, 80)),
    url('web.default.svc.cluster.local', 80),
    ...cluster.plan.nodes.flatMap(({ ips }) => ips.map((ip) => url(ip, nodePort))),
  ];
  for (const target of targets) await answers(target, async () => (await fromPod(target)).startsWith('web-'));
  for (const target of services.map((ip) => url(ip, 80)))
    await answers(`${target} from a node`, async () => (await fromNode(target)).startsWith('web-'));
  await answers('the API server', async () => (await fromPod('https://kubernetes.default/livez')) === 'ok');
  print(`${targets.length} targets answer a pod: pods, a Service and node ports of both families, and the API server by its name`);
}

async function answers(target: string, test: () => Promise<boolean>): Promise<void> {
  await until(test, answersWithinMs, () => `${target} does not answer`);
}

export async function stopServing(cluster: RealCluster): Promise<void> {
  await cluster.kubectl('delete', 'pod,service', '-l', 'app in (web, client)', '--now', '--wait');
  await cluster.kubectl('delete', 'service', 'web', '--ignore-not-found');
}
