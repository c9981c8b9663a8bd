import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { inNetns, runIn } from '../../lab/machine/netns.ts';
import { ask } from '../../lab/probe/probe.ts';
import { type BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import type { BenchPod, CniSide } from './cni-side.ts';
import { compiled } from './compiled.ts';
import type { Measured } from './row.ts';

export const connectionRowNames = ['svc.connrate', 'svc.latency', 'svc.connrate.slowest'];

const port = 80;
/**
 * Target port of the Service. It differs from the port of direct connections: connections of one client to one port of one pod, some
 * through a Service and some not, collide in the source port, and conntrack then changes that of the later one.
 */
const servedPort = 81;
/** Enough that a client's source ports wrap around. */
const rounds = 12;
const seconds = 2;
/** Concurrent connections. */
const width = 4;
const serviceName = 'connections';
const signal = new AbortController().signal;

/** New connections from one pod to another of its node, through a Service and to its own address in turn. */
export async function connectionRows(lab: BenchLab, print: (text: string) => void): Promise<readonly Measured[]> {
  print('  connections from pod to pod, by a Service and without');
  const side = openOurs(lab);
  side.prepare(lab, 2);
  await side.add(2, 1);
  const [server, client] = side.attached;
  if (!server || !client) throw new Error('two pods are needed');
  const direct = addressOf(side, server);
  const answering = await serverIn(server.netns, compiled('connects'), 'serve', direct, String(port));
  const served = await serverIn(server.netns, compiled('connects'), 'serve', direct, String(servedPort));
  try {
    const service = await makeService(lab, direct);
    await until(() => isReached(client.netns, service), 20_000, 'the Service to answer');
    return await inTurn(client.netns, service, direct);
  } finally {
    answering.kill('SIGKILL');
    served.kill('SIGKILL');
    await side.del(2, 1);
    await side.stop();
  }
}

async function inTurn(netns: string, service: string, direct: string): Promise<readonly Measured[]> {
  const rates: Record<string, number[]> = { [service]: [], [direct]: [] };
  const times: Record<string, number[]> = { [service]: [], [direct]: [] };
  const slowest: Record<string, number> = { [service]: 0, [direct]: 0 };
  for (let round = 0; round < rounds; round++)
    for (const address of round % 2 === 0 ? [service, direct] : [direct, service]) {
      const args = ['ask', address, String(port), String(seconds), String(width)];
      const [rate = Number.NaN, microseconds = Number.NaN, longest = Number.NaN] = (
        await runIn(netns, compiled('connects'), args, {}, signal)
      )
        .split(' ')
        .map(Number);
      if (round === 0) continue; // warm-up
      rates[address]?.push(rate);
      times[address]?.push(microseconds);
      slowest[address] = Math.max(slowest[address] ?? 0, longest / 1_000);
    }
  const peer = (values: readonly number[] = []) => ({ name: 'to the pod itself', values });
  return [
    { name: 'svc.connrate', unit: 'connections/s', ours: rates[service] ?? [], peer: peer(rates[direct]) },
    { name: 'svc.latency', unit: 'µs', ours: times[service] ?? [], peer: peer(times[direct]) },
    { name: 'svc.connrate.slowest', unit: 'ms', ours: [slowest[service] ?? 0], peer: peer([slowest[direct] ?? 0]) },
  ];
}

/** New connections a second from a pod to a `connects serve`. */
export async function connectionRate(netns: string, address: string, at: number): Promise<number> {
  const args = ['ask', address, String(at), String(seconds), String(width)];
  return Number((await runIn(netns, compiled('connects'), args, {}, signal)).split(' ')[0]);
}

/** @returns its cluster address */
async function makeService(lab: BenchLab, endpoint: string): Promise<string> {
  const made = await lab.api.send(
    {
      method: 'POST',
      path: '/api/v1/namespaces/default/services',
      body: {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: serviceName },
        spec: { ports: [{ name: 'http', port, protocol: 'TCP' }] },
      },
    },
    signal,
  );
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: serviceName, labels: { 'kubernetes.io/service-name': serviceName } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: servedPort, protocol: 'TCP' }],
    // The same endpoint by two port names would be two endpoints; one address is one, which is what is compared.
    endpoints: [{ addresses: [endpoint], conditions: { ready: true }, nodeName: lab.node.name }],
  };
  await lab.api.send({ method: 'POST', path: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices', body: slice }, signal);
  return (made as { readonly spec: { readonly clusterIP: string } }).spec.clusterIP;
}

/** Reports whether the server is reached. It echoes what it receives, which is not an answer of a responder. */
async function isReached(from: string, address: string): Promise<boolean> {
  const { is } = await ask({ from, protocol: 'tcp', address, port, timeoutMs: 300 });
  return is !== 'TIMEOUT' && is !== 'REFUSED';
}

export async function serverIn(netns: string, command: string, ...args: readonly string[]): Promise<ChildProcess> {
  const inside = inNetns(netns, command, args);
  const child = spawn(inside.command, inside.args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data'); // it reports that it listens
  child.stdout.resume();
  return child;
}

/** Address in the plugin's answer to ADD. */
export function addressOf(side: CniSide, pod: BenchPod): string {
  const { ips } = JSON.parse(readFileSync(side.answerFile(pod), 'utf8')) as { readonly ips: readonly { readonly address: string }[] };
  const [address] = ips[0]?.address.split('/') ?? [];
  if (address === undefined) throw new Error('an answer without an address');
  return address;
}
