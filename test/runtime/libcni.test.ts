import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createNetns, runIn } from '../../lab/machine/netns.ts';
import { labPaths, netnsPath, nodePaths } from '../../lab/plan/names.ts';
import { buildLibcniClient, buildNewestLibcniClient, Libcni, NewestLibcni } from './libcni.ts';
import { contentsAtRest, contentsOf } from './node-contents.ts';
import { debianPlugins, type PluginConf, RuntimeLab } from './runtime-lab.ts';

/*
 * libcni itself as the client, with the plugin alone, before others, after another, and with another plugin's addresses.
 */

const signal = AbortSignal.timeout(300_000);
const confList = '/etc/cni/net.d/10-seine.conflist';
let runtimes: RuntimeLab;
let libcni: Libcni;
let namespaces = 0;

beforeAll(async () => {
  runtimes = await RuntimeLab.start(1, signal);
  libcni = new Libcni(runtimes.place(1), await buildLibcniClient(runtimes.folder, signal), [
    labPaths(runtimes.lab.plan.dir).bin,
    debianPlugins,
  ]);
});
afterAll(async () => {
  await runtimes?.remove(AbortSignal.timeout(120_000));
});

/** An empty container; its namespace is deleted with the lab. */
async function container(capabilities: Readonly<Record<string, unknown>> = {}) {
  const name = `${runtimes.lab.node(1).netns}-c${namespaces++}`;
  await createNetns(name, signal);
  return { name, containerId: name, netns: netnsPath(name), capabilities };
}

type Container = Awaited<ReturnType<typeof container>>;

const write = (chain: readonly PluginConf[], version?: string) => runtimes.writeNetwork(1, chain, version);
const addressesOf = (ips: readonly { readonly address: string }[]) => ips.map(({ address }) => address.replace(/\/.*/, ''));

async function ping(from: Container, addresses: readonly string[]): Promise<void> {
  for (const address of addresses) await runIn(from.name, 'ping', ['-c', '1', '-W', '5', address], {}, signal);
}

/** The whole life of two containers: they reach each other, and nothing is left, however often they are deleted. */
async function live(one: Container, look: (addresses: readonly string[]) => Promise<void> = async () => {}): Promise<void> {
  const before = await contentsAtRest(runtimes);
  const other = await container();
  const answers = [await libcni.add(confList, one, signal), await libcni.add(confList, other, signal)] as const;
  await ping(one, addressesOf(answers[1].ips));
  await ping(other, addressesOf(answers[0].ips));
  await look(addressesOf(answers[0].ips));
  for (const each of [one, one, other]) await libcni.del(confList, each, signal);
  await expect.poll(() => contentsOf(runtimes)).toEqual(before);
}

describe('the configuration list', () => {
  it('is valid: every plugin exists and supports its version', async () => {
    const { cniConf } = nodePaths(runtimes.lab.plan.dir, 'node-1');
    expect(await libcni.validate(cniConf, signal)).toBe('[bandwidth portMappings]\n');
  });

  it('is not valid if a plugin is missing or too old', async () => {
    write([runtimes.seine(1), { type: 'no-such-plugin' }]);
    await expect(libcni.validate(confList, signal)).rejects.toThrow(/no-such-plugin/);
    write(runtimes.chain(1), '9.9.9');
    await expect(libcni.validate(confList, signal)).rejects.toThrow(/9\.9\.9/);
  });
});

describe('libcni', () => {
  it.each(['0.3.0', '0.3.1', '0.4.0', '1.0.0'])('attaches containers with version %s', async (version) => {
    write([runtimes.seine(1), { type: 'portmap', capabilities: { portMappings: true } }], version);
    const before = await contentsAtRest(runtimes);
    const [one, other] = [await container(), await container()];
    const answer = await libcni.add(confList, one, signal);
    expect(answer).toMatchObject({ cniVersion: version, interfaces: [{}, { name: 'eth0', sandbox: one.netns }] });
    await ping(one, addressesOf((await libcni.add(confList, other, signal)).ips));
    for (const each of [one, other]) await libcni.del(confList, each, signal);
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  });

  it('reports with CHECK what is missing of a container', async () => {
    write([runtimes.seine(1)]);
    const one = await container();
    const [address = ''] = addressesOf((await libcni.add(confList, one, signal)).ips);
    await libcni.check(confList, one, signal);
    await runIn(one.name, 'ip', ['address', 'flush', 'dev', 'eth0'], {}, signal);
    await expect(libcni.check(confList, one, signal)).rejects.toThrow(new RegExp(`code 103: .*${address.replaceAll('.', '\\.')}`));
    await libcni.del(confList, one, signal);
  });

  it('detaches a container if a later plugin of the chain fails', async () => {
    write([runtimes.seine(1), { type: 'tuning', sysctl: { 'net.ipv4.no_such_key': '1' } }]);
    const before = await contentsAtRest(runtimes);
    const one = await container();
    await expect(libcni.add(confList, one, signal)).rejects.toThrow(/no_such_key/);
    await libcni.del(confList, one, signal);
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  });
});

describe('a chain', () => {
  /** Debian's portmap fails in CHECK of a container with two families, its bandwidth crashes without limits. */
  const portMappings = [{ hostPort: 8082, containerPort: 80, protocol: 'tcp' }];

  it('of ours, portmap, bandwidth and tuning', async () => {
    const portmap = { type: 'portmap', capabilities: { portMappings: true } };
    write([...runtimes.chain(1), portmap, { type: 'tuning', sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' }, mtu: 1300 }]);
    const bandwidth = { ingressRate: 1e6, ingressBurst: 1e6, egressRate: 1e6, egressBurst: 1e6 };
    const one = await container({ portMappings, bandwidth });
    await live(one, async ([address]) => {
      const rules = await runtimes.lab.exec(1, 'iptables', '-t', 'nat', '-S');
      expect(rules).toContain(`--to-destination ${address}:80`);
      expect(await runIn(one.name, 'sysctl', ['-n', 'net.ipv4.conf.eth0.arp_filter'], {}, signal)).toBe('1\n');
      expect(await runIn(one.name, 'ip', ['link', 'show', 'eth0'], {}, signal)).toContain('mtu 1300');
    });
  });

  it('of ours and tuning, all of which CHECK covers', async () => {
    write([runtimes.seine(1), { type: 'tuning', mtu: 1300 }]);
    const one = await container();
    await live(one, async () => {
      await libcni.check(confList, one, signal);
      await runIn(one.name, 'ip', ['link', 'set', 'eth0', 'mtu', '1301'], {}, signal);
      await expect(libcni.check(confList, one, signal)).rejects.toThrow(/1301/);
    });
  });

  it('in which ours comes after another plugin adds to its result', async () => {
    write([{ type: 'loopback' }, runtimes.seine(1), { type: 'tuning', mtu: 1300 }]);
    const one = await container();
    await live(one, async (addresses) => {
      expect(addresses).toEqual(['127.0.0.1', '::1', expect.stringMatching(/^10\.244\./), expect.stringMatching(/^fd00:10:244:/)]);
      await libcni.check(confList, one, signal);
    });
  });

  it('in which another plugin has created the interface is rejected, and that one is left alone', async () => {
    const ipam = { type: 'host-local', dataDir: join(runtimes.folder, 'host-local'), ranges: [[{ subnet: '172.30.0.0/24' }]] };
    write([{ type: 'ptp', ipam }, runtimes.seine(1)]);
    const one = await container();
    await expect(libcni.add(confList, one, signal)).rejects.toThrow(/code 4: .*eth0/);
    expect(await runIn(one.name, 'ip', ['-br', 'address', 'show', 'dev', 'eth0'], {}, signal)).toContain('172.30.0.');
    await libcni.del(confList, one, signal);
  });

  it('whose addresses host-local allocates', async () => {
    const ranges = [[{ subnet: '10.244.3.0/24', rangeStart: '10.244.3.200', rangeEnd: '10.244.3.250', gateway: '10.244.3.1' }]];
    const ipam = { type: 'host-local', dataDir: join(runtimes.folder, 'host-local'), ranges };
    write(runtimes.chain(1, { ipam }));
    await live(await container(), async (addresses) => {
      expect(addresses).toEqual([expect.stringMatching(/^10\.244\.3\.2\d\d$/)]);
    });
  });
});

describe('the newest libcni, with our plugin alone and version 1.1.0', () => {
  let newest: NewestLibcni;
  beforeAll(async () => {
    const program = await buildNewestLibcniClient(runtimes.folder, signal);
    newest = new NewestLibcni(runtimes.place(1), program, labPaths(runtimes.lab.plan.dir).bin);
  }, 240_000);

  it('calls STATUS, and gets the reason', async () => {
    write([runtimes.seine(1)], '1.1.0');
    await newest.status(confList, signal);
    await runtimes.lab.killOvs(1, 'ovs-vswitchd');
    try {
      await expect.poll(() => newest.status(confList, signal).catch(String), { timeout: 30_000 }).toContain('code 51');
    } finally {
      await runtimes.lab.startOvs(1);
    }
    await expect.poll(() => newest.status(confList, signal).catch(String), { timeout: 30_000 }).toBeUndefined();
  });

  it('removes with GC what its list lacks, and nothing else', async () => {
    write([runtimes.seine(1)], '1.1.0');
    const before = await contentsAtRest(runtimes);
    const [stays, goes] = [await container(), await container()];
    await newest.add(confList, stays, signal);
    // The owner of a pre-plugged port is written to OVSDB after the answer.
    const kept = await contentsAtRest(runtimes);
    await newest.add(confList, goes, signal);
    await newest.gc(confList, stays, signal);
    await expect.poll(() => contentsOf(runtimes)).toEqual(kept);
    await newest.gc(confList, undefined, signal);
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  });
});
