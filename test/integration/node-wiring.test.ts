import { expect, it } from 'vitest';
import { becomeNode } from '../support/node-wiring.ts';

it('ends when a listener of OVSDB fails, so that a supervisor sees it', async () => {
  const node = await becomeNode();
  const listening = new AbortController();
  node.plane.database.onChange(() => {
    throw new TypeError('a bug');
  }, listening.signal);
  const ended = node.running.then(
    () => 'resolved',
    (thrown) => thrown.message,
  );
  node.ovs.exec('ovs-vsctl', '--no-wait', 'set', 'Open_vSwitch', '.', 'external_ids:x=y');
  expect(await ended).toContain('[INVARIANT] a listener failed');
  listening.abort();
  await node.close();
});
