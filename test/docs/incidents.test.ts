import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from '../support/source-tree.ts';

const page = readFileSync(join(root, 'docs/incidents.md'), 'utf8');
const tests = readFileSync(join(root, 'test/e2e/trace-faults.test.ts'), 'utf8');
const lines =
  readFileSync(join(root, 'src/seinectl/trace/probe-path.ts'), 'utf8') +
  readFileSync(join(root, 'src/seinectl/trace/trace-lines.ts'), 'utf8');

/** Incidents of the page, with the test that causes each, and a text of the program that the page quotes. */
const incidents = {
  'Packets disappear after a maintenance window': ['a flow that another program deleted', 'lacks the desired flows, first in table'],
  'Nodes do not reach each other after a change of firewalls': ['a firewall between the nodes', 'did not arrive on '],
  'Connections open and then hang': [
    'a network whose MTU is too small',
    'packets as large as pods send them do not: the MTU of the network is too small',
  ],
  'Pods do not reach external hosts': ['a firewall on the node', ', from a socket of the pod: '],
  'One client is cut off, and everything looks right': ['a cached decision that is out of date', 'that was not delivered'],
} as const;

it('has five incidents, each with a test', () => {
  const titles = Array.from(page.matchAll(/^## (.*)$/gm), ([, title]) => title).filter((title) => title !== 'In the code');
  expect(titles).toEqual(Object.keys(incidents));
});

it.each(Object.entries(incidents))('%s: is caused by a test, and quotes the program', (_, [test, text]) => {
  expect(tests).toContain(`it('${test}`);
  expect(page).toContain(text);
  expect(lines).toContain(text);
});
