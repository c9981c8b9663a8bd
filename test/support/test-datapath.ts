import type { Datapath, PodInterfaceOption } from '../../lab/plan/plan.ts';

const variable = 'SEINE_TEST_DATAPATH';

/**
 * Data path of the labs of tests: the kernel's in `npm run test:kernel`, which sets the variable in its virtual machine; else in userspace.
 */
export const testDatapath: Datapath = datapathIn(process.env[variable] ?? 'netdev');

/** In an emulated host everything takes up to ten times as long, and half of that is the network. */
export const slowness = testDatapath === 'system' ? 8 : 1;

function datapathIn(text: string): Datapath {
  if (text !== 'netdev' && text !== 'system') throw new Error(`${variable}=${text}: netdev or system is wanted`);
  return text;
}

/** Kind of interface for pods in labs of tests, if a run requests another than the default. */
export const testPodInterface: { readonly podInterface?: PodInterfaceOption } = podInterfaceIn(process.env['SEINE_TEST_POD_INTERFACE']);

function podInterfaceIn(text: string | undefined): { readonly podInterface?: PodInterfaceOption } {
  if (text === undefined) return {};
  if (text !== 'auto' && text !== 'standing' && text !== 'veth')
    throw new Error(`SEINE_TEST_POD_INTERFACE=${text}: auto, standing or veth is wanted`);
  return { podInterface: text };
}
