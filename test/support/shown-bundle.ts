import { dropsName, flowSummaryName, podsName, statusName } from '../../src/operations/support-bundle/agent-files.ts';
import { historyEventsName } from '../../src/operations/support-bundle/history-files.ts';
import { heldName } from '../../src/operations/support-bundle/openflow-files.ts';
import { exampleHeld, exampleInputs, exampleObjects } from './example-bundle.ts';
import { fakeStatus } from './fake-fleet.ts';
import { evidenceText, inputsName, objectsName, policyEvidenceName, servedText } from './written-bundle.ts';

const objects = exampleObjects();
const noLosses = { meter: 0, rate: 0, queue: 0, denied: 0, names: 0 };
/** Files of a bundle of Seine 0.28. */
export function leastBundle(): Readonly<Record<string, string>> {
  return { [inputsName]: exampleInputs('n1'), [heldName]: exampleHeld('n1'), [policyEvidenceName]: evidenceText(objects) };
}

/** Files of a bundle with data for each view of the page. */
export function wholeBundle(): Readonly<Record<string, string>> {
  return {
    ...leastBundle(),
    [objectsName]: servedText(objects),
    [statusName]: fakeStatus('n1'),
    [dropsName]: JSON.stringify({ items: [{ name: 'route.none', message: 'no route', cause: 'c', remedy: 'r', packets: '7' }] }),
    [podsName]: JSON.stringify({
      items: [
        {
          ...{ name: 'shop/n1-0', state: 'changed', flows: { wanted: 9, held: 8 }, host: { wanted: 2, held: 2 }, differences: ['no flow'] },
          ...{ addresses: ['10.10.0.5'], hostInterface: 'n1-0-abc', link: 'up', hostPorts: [] },
        },
      ],
    }),
    [flowSummaryName]: JSON.stringify({
      state: { node: 'n1', enabled: true, sources: ['opened'], losses: noLosses, skipped: 0 },
      since: '2026-11-29T21:00:00Z',
      items: [{ source: 'shop/n1', destination: 'shop/n2', protocol: 'TCP', port: 80, verdict: 'allowed', connections: 12 }],
      others: 0,
    }),
    [historyEventsName]: [
      { t: Date.parse('2026-11-29T21:50:00Z'), n: 1, k: 'drift.found', s: [], d: {} },
      { t: Date.parse('2026-11-29T21:51:00Z'), n: 2, k: 'cni.add', s: ['pod/shop/n1-0'], d: {} },
      { t: Date.parse('2026-11-29T20:00:00Z'), n: 3, k: 'cni.add', s: ['pod/shop/n1-0'], d: {} },
    ]
      .map((line) => `${JSON.stringify(line)}\n`)
      .join('')
      .concat('{"t":17'),
  };
}
