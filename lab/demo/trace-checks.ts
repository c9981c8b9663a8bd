import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { Family } from '../../src/base/net/ip.ts';
import { run } from '../machine/process.ts';
import { askAgent } from './ask-agent.ts';
import { guardedNamespace, guardedPod } from './guarded.ts';
import { type DemoCheck, type DemoLab, demoPod, eventually, ofFamily, type Verdict } from './scene.ts';
import { demoNamespace, podPort } from './workload.ts';

/** Time for which the agent leaves the deleted flow alone, should the check not end it (s). */
const pauseSeconds = 120;

/** Answer of `/v1/trace`, as far as the checks read it. */
interface Traced {
  readonly traces: readonly { readonly paths: readonly TracedPath[] }[];
}

/** End of a probe on a node, as far as the checks read it. */
type EndOfProbe = Omit<TracedPath['bridge'], 'packet'>;

/** Answers of `/v1/probe`: `POST` sends probes, `GET` asks whether one arrived. */
interface ProbesSent {
  readonly probes: readonly { readonly number: number; readonly end: EndOfProbe | null }[];
}
interface ProbeArrived {
  readonly end: EndOfProbe | null;
}

interface TracedPath {
  readonly bridge: {
    readonly what: string;
    readonly to: string;
    readonly packet: { readonly source: string; readonly destination: string; readonly destinationPort?: number };
    readonly drop?: { readonly name: string };
    readonly onward?: { readonly node: string };
  };
  readonly difference?: { readonly table: string };
}

/** Where packets end, by the flows that are installed. */
export function traceChecks(scene: DemoLab, families: readonly Family[]): DemoCheck[] {
  return [
    ...families.flatMap((family) => [
      { name: `trace.service.${family}`, run: () => eventually(() => toService(scene, family)) },
      { name: `trace.denied.${family}`, run: () => eventually(() => toGuarded(scene, family)) },
      { name: `trace.probe.${family}`, run: () => eventually(() => probes(scene, family)) },
    ]),
    { name: 'trace.fault', run: (signal) => fault(scene, families[0] ?? 'ipv4', signal) },
  ];
}

/** A client's packets to a Service reach a pod, whichever endpoint is chosen, over both nodes. */
async function toService(scene: DemoLab, family: Family): Promise<Verdict> {
  const { name, node } = demoPod(scene, 'client', 1);
  const paths = await trace(scene, node, {
    from: `${demoNamespace}/${name}`,
    to: `service:${demoNamespace}/web`,
    port: `${podPort}/TCP`,
    family,
  });
  const ends = await Promise.all(paths.map((path) => endOf(scene, node, path, family)));
  const wrong = ends.filter(({ bridge, difference }) => bridge.what !== 'pod' || difference);
  const detail = ends.map(endText).join(', ');
  return { ok: ends.length > 0 && wrong.length === 0, detail };
}

/** A client that no policy names: the trace gives the policy's drop. */
async function toGuarded(scene: DemoLab, family: Family): Promise<Verdict> {
  const { name, node } = demoPod(scene, 'web', 1);
  const to = `${guardedNamespace}/${guardedPod}`;
  const [first] = await trace(scene, node, { from: `${demoNamespace}/${name}`, to, port: `${podPort}/TCP`, family });
  if (!first) return { ok: false, detail: 'no path' };
  const { bridge, difference } = await endOf(scene, node, first, family);
  const reason = bridge.drop?.name ?? bridge.what;
  return { ok: !difference && (reason === 'policy.ingress' || reason === 'policy.refused'), detail: `${reason} at ${to}` };
}

/** Probes of a pod end where its packets would: at a client, of another node if there is one, and at the policy that denies it. None is delivered. */
async function probes(scene: DemoLab, family: Family): Promise<Verdict> {
  const [web, client] = [demoPod(scene, 'web', 1), demoPod(scene, 'client', Math.min(2, scene.plan.nodes.length))];
  const port = `${podPort}/TCP`;
  const from = `${demoNamespace}/${web.name}`;
  const allowed = await probe(scene, web.node, { from, to: `${demoNamespace}/${client.name}`, port, family });
  const denied = await probe(scene, web.node, { from, to: `${guardedNamespace}/${guardedPod}`, port, family });
  const reason = denied.drop?.name ?? denied.what;
  const isReached = allowed.what === 'pod' || (allowed.what === 'node' && allowed.onward !== undefined);
  const isDenied = reason === 'policy.ingress' || reason === 'policy.refused';
  return { ok: isReached && isDenied, detail: `${allowed.what} ${allowed.to}, ${reason}` };
}

/** Sends a probe, and follows it through the tunnel. Without one it ends where the node gives it to its kernel. */
async function probe(scene: DemoLab, node: string, question: Readonly<Record<string, string>>): Promise<EndOfProbe> {
  const { probes: sent } = JSON.parse(await askAgent(scene, node, `/v1/probe?${new URLSearchParams(question)}`, 'POST')) as ProbesSent;
  const [first] = sent;
  if (!first?.end) throw new SeineError('UNAVAILABLE', `the probe did not end on ${node}`);
  const { end, number } = first;
  if (end.what !== 'tunnel') return end;
  const query = new URLSearchParams({ number: String(number), peer: node });
  const { end: there } = JSON.parse(await askAgent(scene, end.to, `/v1/probe?${query}`)) as ProbeArrived;
  if (!there) throw new SeineError('UNAVAILABLE', `the probe did not arrive on ${end.to}`);
  return there;
}

/** A flow that is deleted is named by the trace; the agent installs it again. */
async function fault(scene: DemoLab, family: Family, signal: AbortSignal): Promise<Verdict> {
  const [client, web] = [demoPod(scene, 'client', 1), demoPod(scene, 'web', 1)];
  const { node } = client;
  const question = { from: `${demoNamespace}/${client.name}`, to: `${demoNamespace}/${web.name}`, port: `${podPort}/TCP`, family };
  const rundir = scene.status.nodes.find(({ name }) => name === node)?.rundir;
  if (rundir === undefined) throw new SeineError('INVARIANT', `${node} is no node`);
  const match = `table=route,${family === 'ipv4' ? 'ip,nw_dst' : 'ipv6,ipv6_dst'}=${ofFamily(web.ips, family)}`;
  await askAgent(scene, node, `/v1/pause?seconds=${pauseSeconds}`, 'POST');
  let named: string | undefined;
  try {
    await run('ovs-ofctl', ['-O', 'OpenFlow15', '--names', 'del-flows', 'br-int', match], { env: { OVS_RUNDIR: rundir } }, signal);
    named = (await trace(scene, node, question))[0]?.difference?.table;
  } finally {
    await askAgent(scene, node, '/v1/resume', 'POST');
  }
  const repaired = await eventually(async () => {
    const [path] = await trace(scene, node, question);
    return { ok: path?.bridge.what === 'pod' && path.difference === undefined, detail: path === undefined ? 'no path' : endText(path) };
  });
  return { ok: named === 'route' && repaired.ok, detail: `deleted flow named in table ${named ?? 'none'}, then ${repaired.detail}` };
}

/** The name of a pod says that it is one. */
function endText({ bridge: { what, to } }: TracedPath): string {
  return what === 'pod' ? to : `${what} ${to}`;
}

/** Follows a path to the next nodes. */
async function endOf(scene: DemoLab, node: string, path: TracedPath, family: Family): Promise<TracedPath> {
  const { packet } = path.bridge;
  const next = nextOf(path);
  if (!next) return path;
  const question = { from: `${next.way}:${node}/${packet.source}`, to: packet.destination, port: `${packet.destinationPort}/TCP`, family };
  const [there] = await trace(scene, next.to, question);
  if (!there) throw new SeineError('UNAVAILABLE', `${next.to} traces no path`);
  return nextOf(there) ? there : await endOf(scene, next.to, there, family);
}

/** Returns the node that gets the packet next, through the tunnel or from the kernel. */
function nextOf({ bridge: { what, to, onward } }: TracedPath): { readonly way: 'tunnel' | 'direct'; readonly to: string } | undefined {
  if (what === 'tunnel') return { way: 'tunnel', to };
  return onward && { way: 'direct', to: onward.node };
}

async function trace(scene: DemoLab, node: string, question: Readonly<Record<string, string>>): Promise<readonly TracedPath[]> {
  const { traces } = JSON.parse(await askAgent(scene, node, `/v1/trace?${new URLSearchParams(question)}`)) as Traced;
  return traces.flatMap(({ paths }) => paths);
}
