import { afterAll, beforeAll } from 'vitest';
import { testHopPaths } from '../support/hop-paths.ts';
import { testPathMtu } from '../support/path-mtu.ts';
import { ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';

let lab: ServiceLab;

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

testPathMtu(() => lab);
testHopPaths(() => lab);
