import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningPod, RuntimeLab } from './runtime-lab.ts';

/*
 * containerd as a kubelet uses it, one on each of three nodes.
 */

const patienceMs = 120_000;
const signal = AbortSignal.timeout(600_000);
const serve = ['sh', '-c', 'hostname > /www/index.html; exec httpd -f -p 80 -h /www'];
/** Not busybox's wget: Debian's static one dies of looking up even an address. */
const askName = (ip: string) => ['sh', '-c', `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${ip} 80`];

let runtimes: RuntimeLab;

beforeAll(async () => {
  runtimes = await RuntimeLab.start(3, signal);
  await runtimes.startContainerd(
    (node) => [
      runtimes.seine(node),
      { type: 'portmap', capabilities: { portMappings: true } },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
    ],
    signal,
  );
});
afterAll(async () => {
  await runtimes?.remove(AbortSignal.timeout(patienceMs));
});

describe('sandboxes of containerd on three nodes', () => {
  let pods: readonly RunningPod[];

  it('get an address of each family', async () => {
    pods = await Promise.all([1, 2, 3].map((node) => runtimes.startPod(node, { name: `web${node}` }, serve, signal)));
    for (const { ips } of pods) expect(ips).toEqual([expect.stringMatching(/^10\.244\./), expect.stringMatching(/^fd00:10:244:/)]);
  });

  it('reach each other', async () => {
    for (const from of pods)
      for (const to of pods)
        for (const ip of to.ips) expect(await runtimes.exec(from, askName(ip), signal)).toMatch(new RegExp(`\r\n\r\n${to.config.name}\n$`));
  });
});
