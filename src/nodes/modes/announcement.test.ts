import { expect, it } from 'vitest';
import type { Node } from '../../kubernetes/resources/node.ts';
import { Announcement } from './announcement.ts';

function announcementOf(encapMode: 'encap' | 'noEncap' | 'hybrid', peerModes?: string) {
  const at = (value?: string): Node => ({
    name: 'n1',
    uid: 'u',
    podCidrs: [],
    internalIps: [],
    deleting: false,
    ...(value === undefined ? {} : { peerModes: value }),
  });
  const state = { node: at(peerModes), ms: 1_000, isSynced: true };
  const announcement = new Announcement({ encapMode, node: () => state.node, isSynced: () => state.isSynced, now: () => state.ms });
  /** The agent writes its annotation, and reads it back. */
  const write = (): void => {
    state.node = at(announcement.value);
    announcement.check();
  };
  const after = (ms: number) => {
    state.ms += ms;
    announcement.check();
    return { wanted: announcement.value, isExpected: announcement.isExpected, accepts: announcement.accepts };
  };
  return { announcement, state, write, after };
}

it('of a direct node is written, and peers expect packets two seconds later', () => {
  const { announcement, write, after } = announcementOf('hybrid');
  expect(after(0)).toEqual({ wanted: 'direct', isExpected: false, accepts: true });
  expect(after(60_000).isExpected).toBe(false);
  write();
  expect([after(0).isExpected, announcement.changesInMs]).toEqual([false, 2_000]);
  expect(after(1_999).isExpected).toBe(false);
  expect([after(1).isExpected, announcement.changesInMs]).toEqual([true, undefined]);
});

it('of a previous agent is expected at once', () => {
  expect(announcementOf('noEncap', 'direct').after(0)).toEqual({ wanted: 'direct', isExpected: true, accepts: true });
});

it('of a previous agent that the object from disk does not have is expected once the API server has it', () => {
  const { announcement, state, after } = announcementOf('hybrid');
  state.isSynced = false;
  const read = new Announcement({ encapMode: 'hybrid', node: () => state.node, isSynced: () => state.isSynced, now: () => state.ms });
  expect(read.isExpected).toBe(false);
  Object.assign(state, { node: { ...state.node, peerModes: 'direct' }, isSynced: true });
  read.check();
  expect(read.isExpected).toBe(true);
  announcement.begin();
  expect(after(0).isExpected).toBe(false); // that one has announced it itself
});

it('returns to the tunnel first, and is removed after peers have changed', () => {
  const { announcement, write, after } = announcementOf('encap', 'direct');
  expect(after(0)).toEqual({ wanted: 'tunnel', isExpected: false, accepts: true });
  write();
  expect(announcement.changesInMs).toBe(300_000);
  expect(after(299_999)).toEqual({ wanted: 'tunnel', isExpected: false, accepts: true });
  expect(after(1).wanted).toBeUndefined();
  write();
  expect(after(0)).toEqual({ wanted: undefined, isExpected: false, accepts: false });
});

it('continues to accept packets for the whole time after a restart', () => {
  const { after } = announcementOf('encap', 'tunnel');
  expect(after(299_999)).toEqual({ wanted: 'tunnel', isExpected: false, accepts: true });
});

it('is absent with encap, and every other value is removed', () => {
  expect(announcementOf('encap').after(0)).toEqual({ wanted: undefined, isExpected: false, accepts: false });
  expect(announcementOf('encap', 'unknown').after(0)).toEqual({ wanted: undefined, isExpected: false, accepts: false });
});
