import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { ended, runIn, runOn, until } from '../host.ts';
import type { Lab } from '../lab.ts';
import type { StepKind } from '../step.ts';
import { killed } from './life.ts';
import { raising } from './raising.ts';

const foreignAddress = '192.0.2.7/24';
const repairedMs = 70_000;
const gateway = 'antrea-gw0';
const services = '/api/v1/namespaces/shop/services';
/** An unused address of the nodes' network: Geneve with an empty frame (RFC 8926). */
const outsider = '192.168.77.201';
const frame = [0x0e, 0, 0, 0, 0, 1, 0x0e, 0, 0, 0, 0, 2, 0x08, 0, ...Array.from({ length: 46 }, () => 0)];
const geneve = [0, 0, 0x65, 0x58, 0, 0, 0, 0, ...frame].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');

/** Above the 64 of the alert, with those of the node's own traffic. */
const manyMasks = 96;
/** This number differs in the length of a prefix alone, and the rest in further fields. */
const prefixes = 32;
const furtherFields = ['', 'tos=0/0x3,', 'ttl=64/0xc0,'];

/**
 * A megaflow for each kind of match, in the syntax of ovs-dpctl(8): of packets between unused addresses. They are truncated and go nowhere;
 * the kernel has no `drop`, and `add-flows` rejects a line without an action.
 */
function strangeMegaflows(): string {
  const lines = Array.from({ length: manyMasks }, (_, number) => {
    const ones = 0xffffffff << (prefixes - 1 - (number % prefixes));
    const mask = [24, 16, 8, 0].map((shift) => (ones >>> shift) & 255).join('.');
    const further = furtherFields[Math.floor(number / prefixes)];
    return `in_port(1),eth(),eth_type(0x0800),ipv4(src=198.18.77.${number},dst=255.255.255.255/${mask},${further}frag=no) trunc(100)`;
  });
  return `${lines.join('\n')}\n`;
}

const ctl = (lab: Lab, ...words: readonly string[]): Promise<string> => lab.on('ovs-appctl', ...words);

/** Fills the conntrack table to this share, rounded. */
async function fill(lab: Lab, share: number): Promise<void> {
  const entries = Number(await ctl(lab, 'dpctl/ct-get-nconns'));
  await ctl(lab, 'dpctl/ct-set-maxconns', String(Math.max(1, Math.floor(entries / share))));
}

/** Another process owns the table of nftables from now on (`owner`, nft(8)): no other may change it. @returns ends that */
async function ownTable(lab: Lab): Promise<() => Promise<void>> {
  const commands = 'delete table inet seine; add table inet seine { flags owner; }\n';
  const owner = spawn('nsenter', [`--net=/run/netns/${lab.tried.netns}`, 'nft', '-i'], { stdio: ['pipe', 'ignore', 'ignore'] });
  owner.stdin.on('error', () => {});
  owner.stdin.write(commands);
  return () => ended(owner);
}

export const alertsOfSwitch: readonly StepKind[] = [
  raising('contested', {
    alerts: ['SeineContested', 'SeineDrift'],
    withinMs: 90_000,
    part: 'host',
    begin: async ({ scene: { lab } }) => {
      const has = async (): Promise<boolean> => (await lab.on('ip', 'address', 'show', 'dev', gateway)).includes(foreignAddress);
      return async () => {
        await lab.on('ip', 'address', 'add', foreignAddress, 'dev', gateway);
        await until(
          async () => !(await has()),
          repairedMs,
          () => 'the address stays',
        );
      };
    },
  }),
  raising('refused', {
    alerts: ['SeineEntriesRefused'],
    begin: async ({ scene: { lab }, undo }) => {
      const first = await lab.api.get(`${services}/first`);
      const address = String(first.spec?.['clusterIP']);
      const dump = (await lab.on('ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', 'br-int')).split('\n');
      const table = dump.find((line) => line.includes(`nw_dst=${address}`))?.match(/table=(\d+)/)?.[1];
      if (table === undefined) throw new Error(`no table leads to ${address}`);
      const held = dump.filter((line) => line.includes(`table=${table},`)).length;
      const limit = async (...words: readonly string[]): Promise<void> => {
        const row = (await lab.on('ovs-vsctl', 'get', 'Bridge', 'br-int', `flow_tables:${table}`)).trim();
        await lab.on('ovs-vsctl', '--if-exists', ...words.slice(0, 1), 'Flow_Table', row, ...words.slice(1));
      };
      undo(() => limit('clear', 'flow_limit', 'overflow_policy'));
      let number = 0;
      // The agent removes such a limit: earlier requests are rejected.
      return async () => {
        await limit('set', `flow_limit=${held}`, 'overflow_policy=refuse');
        const name = `alert-refused-${number++}`;
        await lab.api.create(services, {
          metadata: { name, namespace: 'shop' },
          spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
        });
        undo(() => lab.api.delete(`${services}/${name}`));
      };
    },
  }),
  raising('rounds fail', {
    alerts: ['SeineRoundsFail'],
    withinMs: 60_000,
    begin: async ({ scene: { lab }, undo }) => {
      undo(await ownTable(lab));
    },
  }),
  raising('connections', {
    alerts: ['SeineConntrackFilling', 'SeineConntrackFull'],
    where: ({ lab }) => lab.transportLink === 'br-phy',
    begin: async ({ scene: { lab }, undo }) => {
      const limit = (await ctl(lab, 'dpctl/ct-get-maxconns')).trim();
      undo(() => ctl(lab, 'dpctl/ct-set-maxconns', limit));
      return () => fill(lab, 0.99);
    },
  }),
  raising('masks', {
    alerts: ['SeineManyMasks'],
    harmless: true,
    settlesMs: 60_000,
    where: ({ lab }) => lab.options.datapath === 'system',
    begin: async ({ scene: { lab }, undo }) => {
      // Threads of OVS, which do not know such megaflows, would delete them at their next check.
      undo(() => ctl(lab, 'revalidator/resume'));
      await ctl(lab, 'revalidator/pause');
      await runIn(lab.tried.netns, 'ovs-dpctl', ['add-flows', '-'], { input: strangeMegaflows() });
    },
  }),
  raising('strangers', {
    alerts: ['SeineUnknownTunnelPeers'],
    harmless: true,
    begin: async ({ scene: { lab }, undo }) => {
      const { other, tried } = lab;
      const change = (word: 'add' | 'delete'): Promise<string> =>
        runOn(other, 'ip', 'address', word, `${outsider}/32`, 'dev', lab.transportLink);
      const to = tried.ip.find((address) => !address.includes(':'));
      // OVS would forget its counts ten minutes after the last packet.
      undo(() => lab.on('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'table=120'));
      await change('add');
      undo(() => change('delete'));
      return () => runOn(other, 'sh', '-c', `printf '${geneve}' | socat -u - UDP4-SENDTO:${to}:6081,bind=${outsider}`);
    },
  }),
  raising('database gone', {
    alerts: ['SeineSwitchDatabaseNotConnected'],
    begin: async ({ scene: { lab }, undo }) => {
      await killed(lab, 'ovsdbPid');
      undo(() => lab.pull(`ovs/${lab.tried.name}/start`));
    },
  }),
  raising('switch gone', {
    alerts: ['SeineSwitchNotConnected'],
    forgets: true,
    begin: async ({ scene: { lab }, undo }) => {
      await killed(lab, 'vswitchdPid');
      undo(() => lab.pull(`ovs/${lab.tried.name}/start`));
    },
  }),
  raising('upcalls lost', {
    alerts: ['SeineUpcallsLost'],
    withinMs: 60_000,
    forgets: true,
    // A new OVS has no flows for packets that arrive meanwhile, with streams (--hertz).
    begin:
      async ({ scene: { lab } }) =>
      async () => {
        await killed(lab, 'vswitchdPid');
        await lab.pull(`ovs/${lab.tried.name}/start`);
        await lab.untilReady();
        await sleep(1_000);
      },
  }),
];
