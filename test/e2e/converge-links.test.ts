import { basename } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

/** A round of the sweep, for changes without an event, and the time of the check (ms). */
const roundMs = 12_000;

/** Interfaces of pods are kept like flows and routes: every change is reported, and repaired. */
describe('the interface of a pod', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1);
    await lab.startPods();
    await everybody();
  });
  afterAll(async () => {
    await lab?.remove();
  });

  const everybody = () => lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
  const ip = (...words: readonly string[]) => lab.exec(1, 'ip', ...words);
  const inPod = (pod: string, ...words: readonly string[]) => ip('-n', basename(lab.pod(pod).netns), ...words);
  const seinectl = async (...words: readonly string[]): Promise<string> => {
    const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
    // It exits with 1 if something is wrong, and prints it.
    return await lab
      .exec(1, process.execPath, 'src/seinectl/main.ts', '--socket', apiSocket, ...words)
      .catch((thrown: unknown) => (thrown instanceof Error && 'stdout' in thrown ? String(thrown.stdout) : Promise.reject(thrown)));
  };
  const hostEnds = new Map<string, string>();
  const hostEnd = async (pod: string): Promise<string> => {
    const name = hostEnds.get(pod) ?? (await lab.nodeEnd(1, pod));
    hostEnds.set(pod, name);
    return name;
  };
  /** Changes the end with the owner's alias: the far end of a pre-plugged port. */
  const setAlias = async (pod: string, alias: string) => {
    const name = await hostEnd(pod);
    const set = ['link', 'set', name.replace(/^sp-/, 'far-'), 'alias', alias];
    return await (name.startsWith('sp-') ? lab.amongPorts(1, ...set) : ip(...set));
  };
  /** The kernel limits it to the MTU of the far end of a pre-plugged port, and changes both together. */
  const setMtu = async (pod: string) => {
    const name = await hostEnd(pod);
    if (name.startsWith('sp-')) return await lab.amongPorts(1, 'link', 'set', name.replace(/^sp-/, 'far-'), 'mtu', '1299');
    return await inPod(pod, 'link', 'set', 'eth0', 'mtu', '9000');
  };
  /** All ends, as ip(8) shows them, without fields that differ after recreation. */
  const picture = async (pod: string): Promise<string> => {
    const name = await hostEnd(pod);
    const far = async () =>
      name.startsWith('sp-') ? await lab.amongPorts(1, '-details', 'link', 'show', name.replace(/^sp-/, 'far-')) : 'none';
    const lines = await Promise.all([
      ip('-details', 'link', 'show', name).catch(() => 'gone'),
      far().catch(() => 'gone'),
      inPod(pod, 'address', 'show', 'dev', 'eth0').catch(() => 'gone'),
      inPod(pod, 'route', 'show').catch(() => 'gone'),
      inPod(pod, '-6', 'route', 'show', 'default').catch(() => 'gone'),
    ]);
    return lines
      .join('\n')
      .replaceAll(/^\d+: /gm, '')
      .replaceAll(/@if\d+/g, '')
      .replaceAll(/link\/ether \S+ (?=brd ff:ff:ff:ff:ff:ff link-netns)/g, '')
      .replaceAll(/inet6 fe80\S+ scope link.*\n.*\n?/g, '')
      .replaceAll(/ qlen \d+| qdisc \S+| tentative| group default/g, '');
  };
  const asBefore = async (pod: string, before: string): Promise<number> =>
    await until(
      async () => (await picture(pod)) === before,
      roundMs,
      () => `${pod} is not as before`,
    );

  const faults: readonly { readonly name: string; readonly inject: () => Promise<unknown>; readonly shown: string }[] = [
    { name: 'the node’s end is deleted', inject: async () => ip('link', 'del', await hostEnd('web-1')), shown: '+ interface ' },
    { name: 'the node’s end is set down', inject: async () => ip('link', 'set', await hostEnd('web-1'), 'down'), shown: 'is down' },
    {
      name: 'the node’s end gets another MTU',
      inject: async () => ip('link', 'set', await hostEnd('web-1'), 'mtu', '1300'),
      shown: 'has MTU 1300 and not',
    },
    { name: 'the end that says whose it is loses its alias', inject: () => setAlias('web-1', ''), shown: 'has no alias' },
    { name: 'the pod’s end is set down', inject: () => inPod('web-1', 'link', 'set', 'eth0', 'down'), shown: 'eth0 is down' },
    { name: 'the pod’s end gets another MTU', inject: () => setMtu('web-1'), shown: 'has MTU' },
    {
      name: 'the pod’s end gets another MAC',
      inject: () => inPod('web-1', 'link', 'set', 'eth0', 'address', '0e:00:00:00:99:99'),
      shown: 'eth0 has MAC 0e:00:00:00:99:99 and not',
    },
  ];

  it.each(faults)('is restored after $name, which `seinectl diff` shows', async ({ inject, shown }) => {
    const before = await picture('web-1');
    await seinectl('pause', '--for', '10m');
    await inject();
    const diff = await seinectl('diff');
    await seinectl('resume');
    expect(diff).toContain(await hostEnd('web-1'));
    expect(diff).toContain(shown);
    await asBefore('web-1', before);
    await everybody();
    expect(await seinectl('diff')).not.toContain('interface');
  });

  it('is restored within a round after a change without an event, which is counted and logged', async () => {
    const drift = async () => (await lab.metrics(1)).get('drift_entries_total{part="links"}') ?? 0;
    const [before, counted] = [await picture('client-1'), await drift()];
    await setMtu('client-1');
    await asBefore('client-1', before);
    expect(await drift()).toBe(counted + 1);
    expect(lab.log(1).some(({ msg, part }) => msg === 'foreign change; repaired' && part === 'links')).toBe(true);
  });

  it('is restored after all of that happened while no agent ran', async () => {
    const before = await Promise.all(['web-1', 'client-1'].map(picture));
    await lab.agent(1, 'kill');
    const web = await hostEnd('web-1');
    await ip('link', 'set', web, 'down', 'mtu', '1300');
    await setAlias('web-1', 'mine');
    await setMtu('web-1');
    await setAlias('client-1', '');
    await inPod('client-1', 'link', 'set', 'eth0', 'down', 'address', '0e:00:00:00:99:98');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await asBefore('web-1', before[0] ?? '');
    await asBefore('client-1', before[1] ?? '');
    await everybody();
    await ip('link', 'del', web).then(() => asBefore('web-1', before[0] ?? ''));
    await everybody();
  });

  it('is reported as changed inside, agent alive or dead before, and not repaired', async () => {
    const status = () => seinectl('status');
    const untilReported = (text: string): Promise<number> =>
      until(
        async () => (await status()).includes(text),
        roundMs,
        () => `status does not say: ${text}`,
      );
    const routes = await inPod('web-1', '-6', 'route', 'show', 'default');
    await inPod('web-1', '-6', 'route', 'del', 'default');
    await untilReported('in pod demo/web-1: default route by');
    const [, address = ''] = /inet (\S+)/.exec(await inPod('client-1', '-4', 'address', 'show', 'dev', 'eth0')) ?? [];
    const gateway = /via (\S+)/.exec(await inPod('client-1', 'route', 'show', 'default'))?.[1] ?? '';
    await lab.agent(1, 'kill');
    await inPod('client-1', 'address', 'del', address, 'dev', 'eth0');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await untilReported(`in pod demo/client-1: address ${address} is missing on eth0`);
    await untilReported('in pod demo/web-1: default route by');
    expect(await inPod('web-1', '-6', 'route', 'show', 'default')).toBe('');
    await inPod('web-1', '-6', 'route', 'add', 'default', 'via', /via (\S+)/.exec(routes)?.[1] ?? '', 'dev', 'eth0');
    await inPod('client-1', 'address', 'add', address, 'dev', 'eth0');
    await inPod('client-1', 'route', 'replace', 'default', 'via', gateway, 'dev', 'eth0');
    await until(
      async () => !(await status()).includes('in pod demo/'),
      roundMs,
      () => 'status still says that pods were changed',
    );
    await everybody();
  });
});
