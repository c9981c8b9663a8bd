import type { Family } from '../../src/base/net/ip.ts';
import { ask } from '../probe/probe.ts';
import { askAgent } from './ask-agent.ts';
import { guardedNamespace, guardedPod } from './guarded.ts';
import { type DemoCheck, type DemoLab, demoPod, eventually, nodeOfPod, ofFamily, type Scene, type Verdict } from './scene.ts';
import { demoNamespace, podPort } from './workload.ts';

/** A denial is seen as no answer for this time (ms). */
const deniedMs = 700;
const answeredMs = 5_000;

/** Record of `/v1/flow-log`, as far as the checks read it. */
interface RecordedFlow {
  readonly event: string;
  readonly source: { readonly namespace?: string; readonly name?: string };
  readonly destination: { readonly namespace?: string; readonly name?: string };
  readonly service?: { readonly name?: string };
  readonly ingress?: { readonly by: readonly string[] };
}

/** Checks that the flow log, once it is on, has the connections of pods with their Service and policies. */
export function flowLogChecks(scene: Scene, families: readonly Family[]): DemoCheck[] {
  return [
    { name: 'flows.on', run: () => turnedOn(scene) },
    ...families.flatMap((family) => [
      { name: `flows.service.${family}`, run: () => throughService(scene, family) },
      { name: `flows.denied.${family}`, run: () => denied(scene, family) },
    ]),
    { name: 'flows.off', run: () => turnedOff(scene) },
  ];
}

async function turnedOn(scene: Scene): Promise<Verdict> {
  await scene.setLive({ 'flowLog.enabled': 'true' });
  return await eventually(async () => await areAll(scene, true));
}

async function turnedOff(scene: Scene): Promise<Verdict> {
  await scene.setLive({ 'flowLog.enabled': null });
  return await eventually(async () => await areAll(scene, false));
}

async function areAll(scene: DemoLab, enabled: boolean): Promise<Verdict> {
  const states = await Promise.all(scene.plan.nodes.map(async ({ name }) => (await read(scene, name, 'last=0')).isOn));
  return { ok: states.every((isOn) => isOn === enabled), detail: `on ${states.filter(Boolean).length} of ${states.length} nodes` };
}

/** A client's connection to a Service is recorded on its node, with the Service and the pod that answered. */
async function throughService(scene: Scene, family: Family): Promise<Verdict> {
  const from = demoPod(scene, 'client', 1);
  const address = ofFamily(scene.services.web, family);
  return await eventually(async () => {
    const result = await ask({ from: from.netns, address, protocol: 'tcp', port: podPort, timeoutMs: answeredMs });
    if (result.is !== 'OK') return { ok: false, detail: `${from.name} to the Service: ${result.is}` };
    const { flows } = await read(scene, nodeOfPod(scene, from).name, `from-pod=${demoNamespace}/${from.name}&event=opened&last=200`);
    const found = flows.find(
      ({ destination, service }) => service?.name === 'web' && `${destination.namespace}/${destination.name}` === result.answer.pod,
    );
    return {
      ok: found !== undefined,
      detail: `${flows.length} records of ${from.name}, ${found ? 'one' : 'none'} to ${result.answer.pod} by web`,
    };
  });
}

/** A denied connection is recorded on the receiver's node, with the policy. */
async function denied(scene: Scene, family: Family): Promise<Verdict> {
  const name = `${guardedNamespace}/${guardedPod}`;
  const target = scene.status.pods.find((pod) => `${pod.namespace}/${pod.name}` === name);
  if (!target) return { ok: false, detail: `${name} does not run` };
  const from = demoPod(scene, 'web', scene.plan.nodes.length);
  return await eventually(async () => {
    await ask({ from: from.netns, address: ofFamily(target.ips, family), protocol: 'tcp', port: podPort, timeoutMs: deniedMs });
    const { flows } = await read(scene, nodeOfPod(scene, target).name, `to-pod=${name}&verdict=denied,refused&last=200`);
    const found = flows.find(({ source }) => source.name === from.name);
    const by = found?.ingress?.by.join() ?? 'no record';
    return { ok: by.includes(`${guardedNamespace}/deny-all`), detail: `${from.name} to ${name}: ${by}` };
  });
}

async function read(scene: DemoLab, node: string, query: string) {
  const lines = (await askAgent(scene, node, `/v1/flow-log?${query}`)).split('\n').flatMap((text) => (text === '' ? [] : JSON.parse(text)));
  const read = lines as readonly { readonly state?: { readonly enabled: boolean }; readonly flow?: RecordedFlow }[];
  return { flows: read.flatMap(({ flow }) => flow ?? []), isOn: read.some(({ state }) => state?.enabled) };
}
