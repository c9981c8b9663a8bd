import type { Datapath } from '../../src/lab/plan/plan.ts';

const variable = 'SEINE_TEST_DATAPATH';

/** Of the labs that tests raise: the kernel's in `npm run test:kernel`, which sets the variable in its virtual machine; else in userspace. */
export const testDatapath: Datapath = datapathIn(process.env[variable] ?? 'netdev');

/** In an emulated machine everything takes up to ten times as long, and half of that is the network. */
export const slowness = testDatapath === 'system' ? 8 : 1;

function datapathIn(text: string): Datapath {
  if (text !== 'netdev' && text !== 'system') throw new Error(`${variable}=${text}: netdev or system is wanted`);
  return text;
}
