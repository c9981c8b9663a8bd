import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/converge-lab.ts';
import { tinyImage } from './image.ts';
import { contentsAtRest, contentsOf } from './node-contents.ts';
import { Podman } from './podman.ts';
import { RuntimeLab } from './runtime-lab.ts';
import { askName, inUrl, nameIn, serveName } from './tiny-server.ts';

/*
 * podman with its CNI back end, on two nodes.
 */

const signal = AbortSignal.timeout(300_000);
let runtimes: RuntimeLab;
let podmans: readonly Podman[];

beforeAll(async () => {
  runtimes = await RuntimeLab.start(2, signal);
  podmans = [1, 2].map((node) => {
    runtimes.writeNetwork(node, runtimes.chain(node));
    return new Podman(runtimes.place(node), { network: 'seine', cgroupParent: runtimes.cgroupParent });
  });
  for (const podman of podmans) await podman.call(['load', '--input', runtimes.archive], signal);
});
afterAll(async () => {
  await runtimes?.remove(AbortSignal.timeout(120_000));
});

function podman(node: number): Podman {
  const found = podmans[node - 1];
  if (!found) throw new Error(`no node ${node}`);
  return found;
}

it('containers get addresses, reach each other across nodes, are reached at published ports, and leave nothing', async () => {
  await podman(1).start('first', ['--publish', '8081:80'], tinyImage, serveName, signal);
  await podman(1).call(['rm', '--force', '--time', '0', 'first'], signal);
  const before = await contentsAtRest(runtimes);
  await podman(1).start('web', ['--hostname', 'web', '--publish', '8081:80'], tinyImage, serveName, signal);
  await podman(2).start('peer', ['--hostname', 'peer'], tinyImage, serveName, signal);
  const ips = await podman(1).addresses('web', signal);
  expect(ips).toEqual([expect.stringMatching(/^10\.244\./), expect.stringMatching(/^fd00:10:244:/)]);
  for (const ip of ips) expect(nameIn(await podman(2).call(['exec', 'peer', ...askName(ip)], signal))).toBe('web');
  for (const ip of await podman(2).addresses('peer', signal))
    expect(nameIn(await podman(1).call(['exec', 'web', ...askName(ip)], signal))).toBe('peer');
  await podman(2).call(['exec', 'peer', 'ping', '-c', '1', '-W', '2', ips[0] ?? ''], signal);
  for (const ip of runtimes.lab.node(1).ips)
    expect(await runtimes.place(2).run('curl', ['-s', '-m', '5', `http://${inUrl(ip)}:8081/`], signal)).toBe('web\n');
  await podman(1).call(['stop', '--time', '0', 'web'], signal);
  await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  await podman(1).call(['start', 'web'], signal);
  const again = await podman(1).addresses('web', signal);
  for (const ip of again) expect(nameIn(await podman(2).call(['exec', 'peer', ...askName(ip)], signal))).toBe('web');
  await podman(1).call(['rm', '--force', '--time', '0', 'web'], signal);
  await podman(2).call(['rm', '--force', '--time', '0', 'peer'], signal);
  await expect.poll(() => contentsOf(runtimes)).toEqual(before);
});

it('a container gets the requested address and MAC', async () => {
  const [subnet] = (await runtimes.lab.exec(1, 'ip', '-4', '-o', 'addr', 'show', 'antrea-gw0')).match(/10\.244\.\d+/) ?? [];
  const wanted = `${subnet}.77`;
  const options = ['--ip', wanted, '--mac-address', '02:11:22:33:44:55'];
  await podman(1).start('fixed', options, tinyImage, serveName, signal);
  expect(await podman(1).addresses('fixed', signal)).toContain(wanted);
  expect(await podman(1).call(['exec', 'fixed', 'ip', 'link', 'show', 'eth0'], signal)).toContain('02:11:22:33:44:55');
  await expect(podman(1).start('clash', ['--ip', wanted], tinyImage, serveName, signal)).rejects.toThrow(
    new RegExp(wanted.replaceAll('.', '\\.')),
  );
  await podman(1).call(['rm', '--force', '--time', '0', 'fixed', 'clash'], signal);
});

it('a container that its runtime lost in a crash is detached when it is removed', async () => {
  const before = await contentsAtRest(runtimes);
  await podman(1).start('crash', [], tinyImage, serveName, signal);
  const pid = Number(await podman(1).call(['inspect', '--format', '{{.State.Pid}}', 'crash'], signal));
  const conmon = Number(await podman(1).call(['inspect', '--format', '{{.State.ConmonPid}}', 'crash'], signal));
  for (const each of [conmon, pid]) process.kill(each, 'SIGKILL');
  // podman finds no process to stop, and reports that once.
  const isRemoved = async () =>
    await podman(1)
      .call(['rm', '--force', '--time', '0', 'crash'], signal)
      .then(
        () => true,
        () => false,
      );
  await until(isRemoved, 20_000, () => 'podman does not remove it');
  await expect.poll(() => contentsOf(runtimes)).toEqual(before);
});
