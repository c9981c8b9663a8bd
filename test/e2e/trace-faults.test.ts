import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { demoNamespace } from '../../lab/demo/workload.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { addPods, denyAll, namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';
import { traceInLab } from '../support/traced-lab.ts';

let lab: ConvergeLab;
const client = `${demoNamespace}/client-1`;

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods([namespaceManifest('guarded'), networkPolicy('guarded', 'deny-all', denyAll)]);
  await addPods(lab, 'guarded', ['db']);
});
afterAll(async () => lab?.remove());

describe('a probe', () => {
  it.each([
    ['a pod of the other node', `${demoNamespace}/client-2`, 'allowed'],
    ['a Service', `service:${demoNamespace}/web`, 'allowed'],
    ['a guarded pod', 'guarded/db', 'denied'],
    ['the outside', 'outside', 'allowed'],
  ] as const)('to %s has the verdict of the flows', async (_, to, verdict) => {
    const { traces, lines } = await traceInLab(lab, 1, { from: client, to, port: '80' }, { probe: true });
    expect(lines).toContain(`packet ${verdict}`);
    expect(traces.map(({ probe }) => probe?.verdict)).toEqual(traces.map(() => verdict));
    expect(traces.map(({ paths }) => paths[0]?.bridge)).toEqual(traces.map(() => verdict));
  });
});
